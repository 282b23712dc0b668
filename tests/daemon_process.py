"""A daemon's process, forked from one that has imported what daemons import: that takes most of the time of a start."""

import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

#: Variables that begin so are read when a program begins, by its loader, its libraries or Python.
READ_AT_START = ("LD_", "MALLOC_", "OMP_", "PYTHON", "LANG", "LC_", "TZ")
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["scheduler.daemon.serve", "alembic.command", "uvicorn.protocols.http.auto"])


class DaemonProcess:
    """`python -m MODULE` with this environment; what it prints is added to `log_path`."""

    def __init__(self, module: str, environment: Mapping[str, str], log_path: Path, directory: Path) -> None:
        # `daemon`: the tests' process, when it ends, ends one that a test has left behind, and does not wait for it.
        self._process = FORKS.Process(target=_run, args=(module, dict(environment), log_path, directory), daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def is_running(self) -> bool:
        return self._process.exitcode is None

    def send_signal(self, number: signal.Signals) -> None:
        if self.is_running():
            os.kill(self.pid, number)

    def wait(self, seconds: float | None = None) -> int | None:
        """Its exit code, that of a signal below zero; None where it runs for longer."""
        self._process.join(seconds)
        return self._process.exitcode


def _run(module: str, environment: Mapping[str, str], log_path: Path, directory: Path) -> None:
    os.chdir(directory)
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for printed in (1, 2):
        os.dup2(log, printed)
    os.close(log)
    command = [sys.executable, "-m", module]
    if _read_at_start(os.environ) != _read_at_start(environment):
        os.execve(sys.executable, command, environment)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv, sys.orig_argv = [module], command
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(READ_AT_START)}
