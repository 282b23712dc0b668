"""Real torchrun under the real daemon: planned changes restart nothing, failures are counted once, no step is lost."""

import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import Daemon
from tests.elastic.counting import SAMPLES
from tests.elastic.jobs import RunningJob
from tests.eventually import eventually

pytestmark = [pytest.mark.slow, pytest.mark.torch]

AGENT = "torch.distributed.run"
SCRIPT = str(Path(__file__).with_name("counting.py"))
#: The agent's processes are started by Python anew, or forked from the agent, which has imported torch already.
STARTS = {
    "anew": [sys.executable, SCRIPT],
    "forked": [sys.executable, "-m", "torch.distributed.run", "--run-path", SCRIPT],
}


class Counting(RunningJob):
    """The script that counts, on one to three workers."""

    def __init__(self, daemon: Daemon, slow: Path, start: str = "anew", **request: Any) -> None:
        self._slow = slow
        slow.touch()
        fields = {"min_workers": 1, "max_workers": 3, "grace_seconds": 20.0, "env": {"OMP_NUM_THREADS": "1"}}
        command = [*STARTS[start], str(slow)]
        super().__init__(daemon, runtime="torchrun", command=command, **{**fields, **request})

    def wait_for_workers(self, count: int) -> None:
        """Until that many have counted a step since the last change."""

        def counted() -> bool:
            shown = self.show()
            assert shown["state"] not in ("FAILED", "SUCCEEDED", "CANCELLED"), (shown, self.logs())
            last = re.findall(r"step (\d+) of (\d) workers", self.rank_0_log())[-1:]
            settled = shown["state"] == "RUNNING" and shown["members"] == shown["workers"] == count
            return settled and bool(last) and int(last[0][1]) == count

        self.wait(f"counts with {count}", counted)

    def wait_for_checkpoint(self, after: float) -> float:
        """When its newest checkpoint was written, as soon as one is known that was written after this moment."""

        def written_at() -> float:
            return self.show()["progress"]["last_checkpoint_at"] or 0.0

        self.wait(f"tells of a checkpoint after {after}", lambda: written_at() > after)
        return written_at()

    def rank_0_log(self) -> str:
        """What the present rank 0 wrote."""
        ranks = {worker["rank"]: worker["id"] for worker in self.show()["live_workers"]}
        query = {"worker": ranks.get(0, f"{self.id}-1")}
        return self._daemon.client.get(f"/v1/jobs/{self.id}/logs", params=query).text

    def finish(self) -> str:
        """Lets it run at full speed to its end; the output of all its workers."""
        self._slow.unlink()
        self.wait("ends", lambda: self.show()["state"] == "SUCCEEDED")
        return self.logs()


def rival(daemon: Daemon, workers: int, priority: int) -> RunningJob:
    """A job that holds slots and does nothing."""
    return RunningJob(daemon, command=["sleep", "600"], workers=workers, priority=priority)


def restarts(output: str) -> set[int]:
    """How many restarts torchrun's agents had counted, of all starts of processes."""
    return {int(count) for count in re.findall(r"(\d+) restarts", output)}


def assert_every_step_counted(output: str) -> None:
    """The total holds each sample of each step once, and rank 0 went through all steps in their order."""
    (last,) = re.findall(r"total (\d+) after (\d+) steps", output)
    total, taken = map(int, last)
    assert total == SAMPLES * taken
    steps = {int(step) for step in re.findall(r"step (\d+) of \d workers", output)}
    assert taken - len(steps) <= len(re.findall(r"rank 0 of", output))  # the checkpoint may be written, the line not


@pytest.mark.parametrize("start", ["anew", "forked"])
def test_planned_changes_consume_no_restart_and_lose_no_step(daemon: Daemon, tmp_path: Path, start: str) -> None:
    first = rival(daemon, workers=1, priority=5)
    job = Counting(daemon, tmp_path / "slow", start)
    job.wait_for_workers(2)
    before = job.wait_for_checkpoint(after=0.0)
    assert job.wait_for_checkpoint(after=before) <= time.time()
    first.cancel()
    job.wait_for_workers(3)
    waiting = rival(daemon, workers=2, priority=-1)
    waiting.change(priority=5)
    job.wait_for_workers(1)
    following = rival(daemon, workers=1, priority=4)
    waiting.cancel()
    job.wait_for_workers(2)
    following.cancel()
    output = job.finish()
    assert restarts(output) == {0}
    assert_every_step_counted(output)
    assert job.show()["retries_used"] == 0
    assert {worker["exit_reason"] for worker in job.workers()} == {"ASKED", "DONE"}


def test_a_death_counts_once_whether_of_a_process_or_of_an_agent(daemon: Daemon, tmp_path: Path) -> None:
    job = Counting(daemon, tmp_path / "slow")
    job.wait_for_workers(3)
    victim = job.member(1)
    job.process_of(victim, "-u").kill()
    job.wait(f"lost {victim}", lambda: not job.has(victim))
    job.wait_for_workers(3)
    assert job.show()["retries_used"] == 1
    victim = job.member(0)
    job.process_of(victim, AGENT).kill()
    job.wait(f"lost {victim}", lambda: not job.has(victim))
    job.wait_for_workers(3)
    output = job.finish()
    assert job.show()["retries_used"] == 2
    assert_every_step_counted(output)
    assert len(job.workers()) == 5


class Orphaned(Counting):
    """One that loses a worker while the daemon is away."""

    def __init__(self, daemon: Daemon, slow: Path) -> None:
        super().__init__(daemon, slow)
        self.wait_for_workers(3)

    def orphan(self, victim: int) -> None:
        """SIGKILL to the daemon; the worker of this rank will be lost."""
        self.generation: int = self.show()["generation"]
        self.lost = self.member(victim)
        #: of the worker that is lost
        self.agent, self.process = (self.process_of(self.lost, name) for name in (AGENT, "-u"))
        self.others = [self.process_of(self.member(rank), AGENT) for rank in range(3) if rank != victim]
        self._first = self.member(0 if victim else 1)
        self._daemon.kill()
        self._known = self._steps_of_two()

    def log(self, worker: str) -> str:
        """What a worker wrote; also while no daemon can be asked."""
        return self.log_file(worker).read_text()

    def wait_for_the_others(self) -> None:
        """Until these go on."""
        eventually(
            lambda: self._steps_of_two() > self._known,
            lambda: f"the others do not go on:\n{self.log(self._first)}",
            self.phase_seconds_max,
        )
        assert f"generation {self.generation}.1 continues without {self.lost}" in self.log(self._first)

    def adopted(self) -> list[str]:
        """What the history says."""
        query = {"job": self.id, "limit": 1000}
        told = self._daemon.client.get("/v1/events", params=query).json()["events"]
        return [str(event["detail"]) for event in told if event["kind"] == "SUBGENERATION_ADOPTED"]

    def _steps_of_two(self) -> int:
        return self.log(self._first).count("of 2 workers")


def test_two_of_three_go_on_without_the_daemon_which_then_adopts_them(daemon: Daemon, tmp_path: Path) -> None:
    job = Orphaned(daemon, tmp_path / "slow")
    for times, victim in enumerate((0, 2), 1):
        job.orphan(victim)
        job.agent.kill()
        job.process.kill()
        job.wait_for_the_others()
        daemon.start()
        # It begins with what it knew before.
        job.wait("is adopted", lambda times=times: len(job.adopted()) >= times)
        job.wait_for_workers(3)
        told = job.adopted()
        assert len(told) == times
        assert told[-1].startswith(f"generation {job.generation}.1: its workers continued without {job.lost} ")
        assert all(agent.is_running() for agent in job.others), "no agent was started again"
    assert_every_step_counted(job.finish())
    assert len(job.workers()) == 5


def test_an_agent_that_was_left_out_alive_ends(daemon: Daemon, tmp_path: Path) -> None:
    job = Orphaned(daemon, tmp_path / "slow")
    job.orphan(2)
    job.agent.suspend()
    job.process.kill()
    job.wait_for_the_others()
    job.agent.resume()
    left_out = f"continued without this one as generation {job.generation}.1: exiting"
    eventually(lambda: left_out in job.log(job.lost), lambda: job.log(job.lost), job.phase_seconds_max)
    daemon.start()
    job.wait_for_workers(3)
    assert not job.has(job.lost)
    assert_every_step_counted(job.finish())
    assert job.show()["retries_used"] == 0


def test_a_script_that_always_fails_ends_the_job_after_its_retries(daemon: Daemon, tmp_path: Path) -> None:
    script = tmp_path / "fails.py"
    script.write_text("raise SystemExit('no such data')\n")
    job = RunningJob(
        daemon,
        runtime="torchrun",
        command=[sys.executable, str(script)],
        min_workers=1,
        max_workers=2,
        max_retries=1,
        env={"OMP_NUM_THREADS": "1"},
    )
    job.wait("fails", lambda: job.show()["state"] == "FAILED")
    assert job.show()["retries_used"] == 2
    assert "no such data" in job.logs()
