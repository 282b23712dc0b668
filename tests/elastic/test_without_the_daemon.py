"""Real training while the daemon is dead: a majority of the workers goes on, the daemon adopts it, nothing is lost."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.daemon import Daemon
from tests.elastic.jobs import PHASE_SECONDS_MAX, RunningJob
from tests.elastic.steady import STEPS_OF_EPOCH
from tests.eventually import eventually

pytestmark = [pytest.mark.slow, pytest.mark.torch]

SCRIPT = str(Path(__file__).with_name("steady.py"))
#: Of a collective from which the others have to be freed, since they are not waited for as long.
WITHOUT_END_SECONDS = 4 * PHASE_SECONDS_MAX


class Steady(RunningJob):
    """Three workers that count, and may be one."""

    def __init__(
        self, daemon: Daemon, slow: Path, group_timeout_seconds: float = WITHOUT_END_SECONDS, **request: Any
    ) -> None:
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

    def orphan(self) -> None:
        """SIGKILL to the daemon; afterwards it says nothing of them any more."""
        #: the processes of the present workers, by rank
        self.processes: list[psutil.Process] = [self.process_of(self.member(rank), SCRIPT) for rank in range(3)]
        self.generation: int = self.show()["generation"]
        self._known = [worker["id"] for worker in self.workers()]
        self._daemon.kill()

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
        path = self.log_file(worker)
        return path.read_text() if path.exists() else ""

    def steps(self, worker: str) -> list[tuple[int, int]]:
        """Number and size of each step that it told of."""
        return [(int(step), int(size)) for step, size in re.findall(r"step (\d+) of (\d) workers", self.log(worker))]

    def wait_alone(self, what: str, done: Callable[[], bool]) -> None:
        """As `wait`, without the daemon."""
        eventually(done, lambda: f"{what}:\n" + "\n".join(map(self.log, self._known)), PHASE_SECONDS_MAX)

    def wait_for_steps_of(self, count: int, rank_0: str) -> None:
        """Until that many workers have gone on for some steps."""
        taken = len(self.steps(rank_0))
        self.wait_alone(
            f"goes on with {count}", lambda: len([n for _, n in self.steps(rank_0)[taken:] if n == count]) >= 5
        )

    def history(self, kind: str) -> list[dict[str, Any]]:
        """Its events of this kind."""
        events = self._daemon.client.get("/v1/events", params={"job": self.id, "limit": 1000}).json()["events"]
        return [event for event in events if event["kind"] == kind]

    def wait_for_adoption(self, lost: str, times: int = 1) -> None:
        """Wait until the history has `times` adoptions, the last of them without `lost`."""
        self.wait("is adopted", lambda: len(self.history("SUBGENERATION_ADOPTED")) >= times)
        told = self.history("SUBGENERATION_ADOPTED")
        assert len(told) == times
        assert told[-1]["detail"] == (
            f"generation {self.generation}.1: its workers continued without {lost} while the scheduler was unreachable"
        )

    def finish(self) -> None:
        """Lets it run to its end: every sample was seen once in each epoch."""
        self._slow.unlink()
        self.wait("ends", lambda: self.show()["state"] == "SUCCEEDED")
        (last,) = re.findall(r"every sample seen \[(\d+)\] times in (\d+) epochs and (\d+) commits", self.logs())
        times, epochs, commits = map(int, last)
        assert (times, commits) == (epochs, epochs * STEPS_OF_EPOCH + epochs - 1)


def is_running(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_two_of_three_go_on_without_the_daemon_which_then_adopts_them(daemon: Daemon, tmp_path: Path) -> None:
    job = Steady(daemon, tmp_path / "slow")
    for times, victim in enumerate((0, 2), 1):
        lost = job.member(victim)
        left = [job.member(rank) for rank in range(3) if rank != victim]
        job.orphan()
        job.processes[victim].kill()
        job.wait_for_steps_of(2, left[0])
        daemon.start()
        job.wait_for_adoption(lost, times)
        job.wait_for_workers(3)
        survivors = [process for rank, process in enumerate(job.processes) if rank != victim]
        assert all(is_running(process) for process in survivors), "nobody was started again"
        assert [job.member(0), job.member(1)] == left
    job.finish()
    assert len(job.workers()) == 5
    assert len(job.history("SUBGENERATION_ADOPTED")) == 2


def test_the_last_of_three_waits_for_the_daemon_and_then_goes_on(daemon: Daemon, tmp_path: Path) -> None:
    job = Steady(daemon, tmp_path / "slow")
    last = job.member(1)
    job.orphan()
    for rank in (0, 2):
        job.processes[rank].kill()
    job.wait_alone("waits", lambda: "waits: at most half of the members of the generation respond" in job.log(last))
    assert not job.steps(last), "it was never the first, so it went on by itself"
    daemon.start()
    # It begins with what it knew before.
    job.wait("is the oldest", lambda: job.member(0) == last)
    job.wait_for_workers(3)
    assert is_running(job.processes[1])
    assert job.history("SUBGENERATION_ADOPTED") == []
    job.finish()


@pytest.mark.parametrize("teller", ["scheduler", "peers"])
def test_a_worker_that_was_left_out_alive_trains_no_more(daemon: Daemon, tmp_path: Path, teller: str) -> None:
    job = Steady(daemon, tmp_path / "slow", group_timeout_seconds=10.0)
    first, hung = job.member(0), job.member(2)
    job.orphan()
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
