"""Processes that have imported Horovod and torch already, and become a training when there is one to start.

Standard library, and in a warm process Horovod. Those who go on wait for a newcomer without training, and die where it
takes longer than HOROVOD_GLOO_TIMEOUT_SECONDS: so what takes long is done before anybody waits.
"""

import importlib
import json
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

Process = subprocess.Popen[bytes]


class WarmProcesses:
    """One process per slot of the worker. They wait, each in a session of its own, and end with this process."""

    def __init__(self, count: int, variables: Mapping[str, str]) -> None:
        """Returns once all have imported what they can."""
        ready, told = os.pipe()
        command = [sys.executable, "-m", "scheduler.elastic.horovod", "warm", str(told)]
        # As horovodrun has it, whose own variables come too late for what Python reads as it starts.
        env = {**variables, "PYTHONUNBUFFERED": "1"}
        self._waiting = [
            subprocess.Popen(command, env=env, stdin=subprocess.PIPE, pass_fds=[told], start_new_session=True)
            for _ in range(count)
        ]
        os.close(told)
        with open(ready, "rb") as lines:
            lines.read()  # each closes its end when it is ready, or dies

    def start(self, command: Sequence[str], variables: Mapping[str, str]) -> Process | None:
        """One of them becomes this command; None where none is left, or none can."""
        if not _is_own_python(command[0]) or _script(command) is None:
            return None
        while self._waiting:
            process = self._waiting.pop()
            if process.poll() is None:
                return _become(process, command, variables)
        return None

    def end(self) -> None:
        """Ends those that wait."""
        while self._waiting:
            self._waiting.pop().kill()


def _become(process: Process, command: Sequence[str], variables: Mapping[str, str]) -> Process:
    assert process.stdin is not None, "it was made with a pipe"
    with suppress(BrokenPipeError), process.stdin as pipe:  # it dies just now: its exit code tells
        pipe.write(json.dumps({"command": list(command), "variables": dict(variables)}).encode())
    return process


def become_what_comes(told: int) -> None:
    """The whole life of a warm process."""
    import_path = sys.path.pop(0) if not sys.flags.safe_path else None
    with suppress(Exception):  # then the script says better what is missing
        importlib.import_module("horovod.torch")
    os.close(told)
    order: dict[str, Any] = json.loads(sys.stdin.buffer.read() or b"{}")
    if not order:
        return  # the worker is gone
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.environ.update(order["variables"])
    script = _script(order["command"])
    assert script is not None, "it was looked at before"
    _run(script, import_path)


def _run(script: Sequence[str], import_path: str | None) -> None:
    """As Python would run it: as `__main__`, with its own arguments and import path."""
    if script[0] == "-m":
        sys.argv = list(script[1:])
        if import_path is not None:
            sys.path.insert(0, import_path)
        runpy.run_module(script[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = list(script)
    if import_path is not None:
        sys.path.insert(0, str(Path(script[0]).resolve().parent))
    runpy.run_path(script[0], run_name="__main__")


def _script(command: Sequence[str]) -> Sequence[str] | None:
    """Script or module with arguments, of a command that begins with Python; None where Python is told more."""
    rest = list(command[1:])
    while rest[:1] == ["-u"]:
        rest = rest[1:]
    if rest[:1] == ["-m"]:
        return rest if len(rest) > 1 else None
    return rest if rest and not rest[0].startswith("-") else None


def _is_own_python(program: str) -> bool:
    """Whether that is the Python which runs here: the same file, or another name of it in the same environment."""
    found = shutil.which(program)
    if found is None or not Path(program).name.startswith("python"):
        return False
    return os.path.dirname(os.path.abspath(found)) == os.path.dirname(sys.executable)
