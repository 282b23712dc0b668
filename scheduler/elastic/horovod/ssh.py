"""Stands in for ssh under horovodrun: has a worker start one process, and ends as it does. Standard library only.

Called as `python -m scheduler.elastic.horovod.ssh DIRECTORY …`. Trainings wait while it starts, so it imports
little.
"""

import re
import shlex
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from scheduler.elastic.horovod.protocol import HELLO_SECONDS, PURPOSE, watch_for_loss
from scheduler.elastic.horovod.say import say
from scheduler.elastic.horovod.workspace import Desk
from scheduler.elastic.membership.signed_line import Line, call

#: What ssh says of a connection that failed.
_EXIT_UNREACHABLE = 255
_WITH_VALUE = ("-o", "-p", "-i")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=", re.ASCII)
#: Horovod's own; everything else the worker has from the scheduler.
_PASSED_ON = re.compile(r"HOROVOD_|NCCL_SOCKET_IFNAME$|PYTHONUNBUFFERED$")


def run_there(directory: Path, words: Sequence[str]) -> int:
    """Runs what horovodrun asks for on the worker that it names; the exit status of the process.

    The worker ends the process when this one ends.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    desk = Desk(directory)
    try:
        name, text = _read(words)
        variables, command = split_command(text)
        endpoint = desk.endpoint(name)
        parts = urlsplit(f"//{endpoint}")
        with socket.create_connection((parts.hostname or "", parts.port or 0), HELLO_SECONDS) as connection:
            watch_for_loss(connection)
            line = call(connection, desk.token(), PURPOSE, time.monotonic() + HELLO_SECONDS)
            connection.settimeout(HELLO_SECONDS)
            line.send({"command": command, "variables": variables})
            line.receive()  # it has started
            connection.settimeout(None)
            return _follow(line, name, desk)
    except (OSError, ValueError, KeyError) as error:
        say(f"driver: no process on {' '.join(words[-2:-1])}: {error}")
        return _EXIT_UNREACHABLE


def _follow(line: Line, name: str, desk: Desk) -> int:
    try:
        with desk.running(name):
            end = line.receive()
    except (OSError, ValueError) as error:
        # The scheduler knows by itself of a worker that is gone, and counts that where it is a failure.
        say(f"driver: worker {name} is lost, with its process: {error}")
        desk.note_failure()
        return _EXIT_UNREACHABLE
    if end["failed"]:
        desk.note_failure()
    elif end["exit"] == 0:
        desk.note_done()
    return int(end["exit"])


def _read(words: Sequence[str]) -> tuple[str, str]:
    """Host and command of a call of ssh."""
    rest = list(words)
    while rest and rest[0].startswith("-"):
        del rest[: 2 if rest[0] in _WITH_VALUE else 1]
    if len(rest) < 2:
        raise ValueError(f"horovodrun called ssh with unexpected arguments: {shlex.join(words)}")
    return rest[0], " ".join(rest[1:])


def split_command(text: str) -> tuple[dict[str, str], list[str]]:
    """Variables and program of horovodrun's `cd … ; env NAME=value … program …`. ValueError for another form."""
    words = shlex.split(text)
    if "env" not in words:
        raise ValueError(f"horovodrun sent an unexpected command: {text[:200]}")
    rest = words[words.index("env") + 1 :]
    variables: dict[str, str] = {}
    while rest and _ASSIGNMENT.match(rest[0]):
        name, _, value = rest.pop(0).partition("=")
        if _PASSED_ON.match(name):
            variables[name] = value
    if not rest:
        raise ValueError(f"horovodrun sent a command without a program: {text[:200]}")
    return variables, rest


if __name__ == "__main__":
    sys.exit(run_there(Path(sys.argv[1]), sys.argv[2:]))
