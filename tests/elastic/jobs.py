"""A job that a real daemon runs, for tests: what the API shows of it, and its processes."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tests.daemon import Daemon
from tests.eventually import eventually

#: Far more than anything takes on an idle machine: a worker that imports torch beside others on a busy one takes long.
PHASE_SECONDS_MAX = 240.0
#: Looking more often takes from the workers what they need to get there.
_POLL_SECONDS = 0.2
_LOG_BYTES_MAX = 1 << 20


class RunningJob:
    """Submitted on construction; `request` as the API takes it."""

    #: How long anything may take that is waited for.
    phase_seconds_max = PHASE_SECONDS_MAX

    def __init__(self, daemon: Daemon, **request: Any) -> None:
        self._daemon = daemon
        answer = daemon.client.post("/v1/jobs", json=request)
        assert answer.status_code == 201, answer.text
        self.id: int = answer.json()["id"]

    def show(self) -> dict[str, Any]:
        """The job as the API shows it."""
        answer = self._daemon.client.get(f"/v1/jobs/{self.id}")
        assert answer.status_code == 200, answer.text
        shown: dict[str, Any] = answer.json()
        return shown

    def change(self, **values: int) -> None:
        """Asks for another priority or other bounds."""
        answer = self._daemon.client.patch(f"/v1/jobs/{self.id}", json=values)
        assert answer.status_code == 202, answer.text

    def scale(self, most: int) -> None:
        """Lets it have that many workers."""
        self.change(max_workers=most)

    def cancel(self) -> None:
        """Asks for its end."""
        assert self._daemon.client.post(f"/v1/jobs/{self.id}/cancel").status_code == 202

    def member(self, rank: int) -> str:
        """The worker that has this rank, as soon as one has."""

        def has_it() -> str | None:
            return next((str(worker["id"]) for worker in self.show()["live_workers"] if worker["rank"] == rank), None)

        found = eventually(has_it, lambda: f"nobody has rank {rank}: {self.show()}", self.phase_seconds_max)
        assert found is not None
        return found

    def has(self, worker: str) -> bool:
        """Whether this worker lives."""
        return any(each["id"] == worker for each in self.show()["live_workers"])

    def process_of(self, worker: str, argument: str) -> psutil.Process:
        """The worker's process that was started with this argument, the first one where there are several."""
        mine = {"SCHED_WORKER_ID": worker, "SCHED_URL": self._daemon.url}
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if argument in process.cmdline() and mine.items() <= process.environ().items():
                    return process
        raise AssertionError(f"no process of {worker}")

    def kill(self, rank: int, argument: str) -> None:
        """SIGKILL for the process of `process_of`; waits until the daemon knows."""
        died = self.member(rank)
        self.process_of(died, argument).kill()
        self.wait(f"lost {died}", lambda: not self.has(died))

    def workers(self) -> list[dict[str, Any]]:
        """All workers that it ever had."""
        return list(self._daemon.client.get(f"/v1/jobs/{self.id}/workers").json()["workers"])

    def log_file(self, worker: str) -> Path:
        """Where a worker's output is kept, also while no daemon can be asked; there may be none yet."""
        found = list((self._daemon.state_dir / "logs").glob(f"{self.id}-*/{worker}.log"))
        assert len(found) <= 1, found
        return found[0] if found else self._daemon.state_dir / "logs" / "none.log"

    def logs(self) -> str:
        """Output of all workers that it ever had."""
        return "\n".join(self.log(worker["id"]) for worker in self.workers())

    def log(self, worker: str) -> str:
        """All output of a worker."""
        query: dict[str, str | int] = {"worker": worker, "limit": _LOG_BYTES_MAX}
        return self._daemon.client.get(f"/v1/jobs/{self.id}/logs", params=query).text

    def wait(self, what: str, done: Callable[[], bool]) -> None:
        """Until it is so; fails with what is known of the job when that takes too long."""
        until = time.monotonic() + self.phase_seconds_max
        while not done():
            waited = f"job {self.id}: not within {self.phase_seconds_max:g} s: {what}"
            assert time.monotonic() < until, f"{waited}\n{self.show()}\n{self.logs()}"
            time.sleep(_POLL_SECONDS)
