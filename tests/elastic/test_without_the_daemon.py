"""Real training while the daemon is dead: a majority of the workers goes on, the daemon adopts it, nothing is lost."""

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.daemon import Daemon, running_daemon
from tests.effort import long
from tests.elastic.jobs import RunningJob
from tests.elastic.steady import COMMITS, EPOCHS

SCRIPT = str(Path(__file__).with_name("steady.py"))
POLICY = {"grow_cooldown_seconds": 0, "grow_payback_factor": 0}
#: From a death to the first step without the lost one: five seconds of silence of the scheduler, and what a busy
#: machine may add to the second that the rest takes.
GO_ON_SECONDS_MAX = 20.0
WAIT_SECONDS_MAX = 60.0


class Steady(RunningJob):
    """Three workers that count, and may be one."""

    def __init__(self, daemon: Daemon, slow: Path, group_timeout_seconds: float = 60.0, **request: Any) -> None:
        self._slow = slow
        slow.touch()
        super().__init__(
            daemon,
            name="steady",
            command=[sys.executable, SCRIPT, str(slow), str(group_timeout_seconds)],
            runtime="elastic",
            **{"min_workers": 1, "max_workers": 3, "grace_seconds": 2.0, "env": {"OMP_NUM_THREADS": "1"}, **request},
        )
        self.wait_for_workers(3)
        #: the processes of the first three workers, by rank
        self.processes: list[psutil.Process] = [self.process_of(self.member(rank), SCRIPT) for rank in range(3)]
        self.generation: int = self.show()["generation"]

    def wait_for_workers(self, count: int) -> None:
        """Until that many train: a step was begun since."""

        def trains() -> bool:
            shown = self.show()
            assert shown["state"] not in ("FAILED", "SUCCEEDED", "CANCELLED"), (shown, self.logs())
            if not (shown["state"] == "RUNNING" and shown["members"] == shown["workers"] == count):
                return False
            steps = self.steps(self.member(0))
            return bool(steps) and steps[-1][1] == count

        self.wait(f"trains on {count}", trains)

    def log(self, worker: str) -> str:
        """What a worker wrote; also while no daemon can be asked."""
        path = self._daemon.state_dir / "logs" / str(self.id) / f"{worker}.log"
        return path.read_text() if path.exists() else ""

    def steps(self, worker: str) -> list[tuple[int, int]]:
        """Number and size of each step that it told of."""
        return [(int(step), int(size)) for step, size in re.findall(r"step (\d+) of (\d) workers", self.log(worker))]

    def wait_alone(self, what: str, done: Callable[[], bool]) -> None:
        """As `wait`, without the daemon."""
        until = time.monotonic() + WAIT_SECONDS_MAX
        while not done():
            logs = "\n".join(self.log(f"{self.id}-{ordinal}") for ordinal in (1, 2, 3))
            assert time.monotonic() < until, f"waited in vain until it {what}\n{logs}"
            time.sleep(0.05)

    def wait_for_steps_of(self, count: int, rank_0: str) -> None:
        """Until that many workers have gone on for some steps."""
        self.wait_alone(f"goes on with {count}", lambda: len([n for _, n in self.steps(rank_0) if n == count]) >= 5)

    def history(self, kind: str) -> list[dict[str, Any]]:
        """Its events of this kind."""
        events = self._daemon.client.get("/v1/events", params={"job": self.id, "limit": 1000}).json()["events"]
        return [event for event in events if event["kind"] == kind]

    def wait_for_adoption(self, lost: str) -> None:
        """Until the history tells, once."""
        self.wait("is adopted", lambda: bool(self.history("SUBGENERATION_ADOPTED")))
        (adopted,) = self.history("SUBGENERATION_ADOPTED")
        assert adopted["detail"] == (
            f"generation {self.generation}.1: its workers continued without {lost} while the scheduler was unreachable"
        )

    def finish(self) -> None:
        """Lets it run to its end: every sample was seen as often as there are epochs."""
        self._slow.unlink()
        self.wait("ends", lambda: self.show()["state"] == "SUCCEEDED")
        assert f"every sample seen [{EPOCHS}] times after {COMMITS} commits" in self.logs()


def is_running(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.timeout(400)
@pytest.mark.parametrize("victim", [0, pytest.param(2, marks=long)])
def test_two_of_three_go_on_without_the_daemon_which_then_adopts_them(tmp_path: Path, victim: int) -> None:
    with running_daemon(tmp_path, slots=3, policy=POLICY, engine={"backoff_seconds": 0.1}) as daemon:
        job = Steady(daemon, tmp_path / "slow")
        lost = job.member(victim)
        left = [job.member(rank) for rank in range(3) if rank != victim]
        daemon.kill()
        job.processes[victim].kill()
        died_at = time.monotonic()
        job.wait_alone("goes on", lambda: any(size == 2 for _, size in job.steps(left[0])))
        took_seconds = time.monotonic() - died_at
        print(f"went on after {took_seconds:.1f} s")
        assert took_seconds <= GO_ON_SECONDS_MAX
        job.wait_for_steps_of(2, left[0])
        daemon.start()
        job.wait_for_adoption(lost)
        job.wait_for_workers(3)
        survivors = [process for rank, process in enumerate(job.processes) if rank != victim]
        assert all(is_running(process) for process in survivors), "nobody was started again"
        assert [job.member(0), job.member(1)] == left
        job.finish()
        assert len(job.workers()) == 4
        assert len(job.history("SUBGENERATION_ADOPTED")) == 1


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.timeout(400)
def test_the_last_of_three_waits_for_the_daemon_and_then_goes_on(tmp_path: Path) -> None:
    with running_daemon(tmp_path, slots=3, policy=POLICY, engine={"backoff_seconds": 0.1}) as daemon:
        job = Steady(daemon, tmp_path / "slow")
        last = job.member(1)
        daemon.kill()
        for rank in (0, 2):
            job.processes[rank].kill()
        job.wait_alone("waits", lambda: "waits: at most half of the members of the generation respond" in job.log(last))
        assert not job.steps(last), "it was never the first, so it went on by itself"
        daemon.start()
        job.wait_for_workers(3)
        assert job.member(0) == last
        assert is_running(job.processes[1])
        assert job.history("SUBGENERATION_ADOPTED") == []
        job.finish()


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.timeout(400)
@pytest.mark.parametrize("teller", ["scheduler", pytest.param("peers", marks=long)])
def test_a_worker_that_was_left_out_alive_trains_no_more(tmp_path: Path, teller: str) -> None:
    with running_daemon(tmp_path, slots=3, policy=POLICY, engine={"backoff_seconds": 0.1}) as daemon:
        job = Steady(daemon, tmp_path / "slow", group_timeout_seconds=3.0)
        first, hung = job.member(0), job.member(2)
        daemon.kill()
        job.processes[2].suspend()
        job.wait_for_steps_of(2, first)
        if teller == "peers":
            job.processes[2].resume()
            job.wait_alone("ends", lambda: not is_running(job.processes[2]))
            assert f"continued without this one as generation {job.generation}.1: exiting" in job.log(hung)
        daemon.start()
        job.wait_for_adoption(hung)
        job.wait_for_workers(3)
        assert not job.has(hung)
        (ended,) = [event for event in job.history("WORKER_ENDED") if event["worker_id"] == hung]
        assert ended["cause"] == ("ASKED" if teller == "scheduler" else "DRAINED")
        job.finish()
        assert job.show()["retries_used"] == 0
