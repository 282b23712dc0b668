"""The directory through which the driver, horovodrun's discovery script and its `ssh` know of each other.

Standard library only. `hosts` and `workers.json` are written by the driver alone, and files are replaced as a whole;
`running` has a file per process that runs, named by its worker and by the `ssh` that waits for it.
"""

import json
import os
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from scheduler.elastic.horovod.hosts import Listed

#: The newest are kept.
_ENDPOINTS_MAX = 10_000


class Desk:
    """Paths and files; holds nothing in memory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @property
    def path(self) -> Path:
        """To be put first into horovodrun's PATH."""
        return self._directory / "bin"

    @property
    def discovery_script(self) -> str:
        """The command that prints what horovodrun may know of.

        horovodrun tells its processes of a change once, and they forget it while they form a group. So the list is
        made to look changed each time: a host without slots comes and goes. It tells them only where something has to
        be done.
        """
        hosts = shlex.quote(str(self._directory / "hosts"))
        return f"cat {hosts} && echo again-$(($(date +%s) % 3)):0"

    def prepare(self, token: str) -> None:
        """Makes what `ssh` needs."""
        self.path.mkdir()
        (self._directory / "running").mkdir()
        # The directory is the user's alone.
        (self._directory / "token").write_text(token)
        call = shlex.join([sys.executable, "-m", "scheduler.elastic.horovod.ssh", str(self._directory)])
        script = self.path / "ssh"
        script.write_text(f'#!/bin/sh\nexec {call} "$@"\n')
        script.chmod(0o700)

    def write(self, workers: Sequence[Listed]) -> None:
        """Says who may have processes, and where they take orders.

        Where those did that were told before is kept: horovodrun may just be about to start one there.
        """
        endpoints = {**self._endpoints(), **{worker.name: worker.endpoint for worker in workers}}
        self._replace("workers.json", json.dumps(dict(list(endpoints.items())[-_ENDPOINTS_MAX:])))
        self._replace("hosts", "".join(f"{worker.name}:{worker.slots}\n" for worker in workers))

    def endpoint(self, name: str) -> str:
        """Where this worker takes orders. KeyError where nobody has told of it."""
        return self._endpoints()[name]

    def token(self) -> str:
        """What workers open to."""
        return (self._directory / "token").read_text()

    @contextmanager
    def running(self, name: str) -> Iterator[None]:
        """Within, a process runs on this worker as far as this process knows."""
        marker = self._directory / "running" / f"{name}:{os.getpid()}"
        marker.touch()
        try:
            yield
        finally:
            with suppress(FileNotFoundError):
                marker.unlink()

    def running_now(self) -> list[str]:
        """The worker of each process that runs."""
        found = []
        for marker in (self._directory / "running").iterdir():
            name, _, pid = marker.name.rpartition(":")
            if Path("/proc", pid).exists():
                found.append(name)
            else:
                marker.unlink(missing_ok=True)  # it was killed
        return found

    def note_failure(self) -> None:
        """A process failed, or was lost with its worker: the scheduler learns of it by the worker's end."""
        self._replace("failed", repr(time.monotonic()))  # of this machine, whose clock somebody may set

    def failed_within(self, seconds: float) -> bool:
        """Whether one did so lately."""
        with suppress(FileNotFoundError):
            return time.monotonic() - float((self._directory / "failed").read_text()) <= seconds
        return False

    def note_done(self) -> None:
        """A process ended with success: the training is over."""
        (self._directory / "done").touch()

    @property
    def done(self) -> bool:
        """Whether any process did."""
        return (self._directory / "done").exists()

    def _endpoints(self) -> dict[str, str]:
        with suppress(FileNotFoundError):
            known: dict[str, str] = json.loads((self._directory / "workers.json").read_text())
            return known
        return {}

    def _replace(self, name: str, text: str) -> None:
        partial = self._directory / f"{name}.{os.getpid()}"
        partial.write_text(text)
        partial.rename(self._directory / name)
