"""Workers that hang are found and replaced, and the others soon go on: in a collective or a step, under any runtime."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import Daemon
from tests.elastic.counting import SAMPLES
from tests.elastic.hanging import STEPS
from tests.elastic.jobs import PHASE_SECONDS_MAX, RunningJob

pytestmark = [pytest.mark.slow, pytest.mark.torch]

HANGING, STEADY, COUNTING = (str(Path(__file__).with_name(name)) for name in ("hanging.py", "steady.py", "counting.py"))
#: How long one that hangs may keep the others waiting in a step.
GROUP_TIMEOUT_SECONDS = 8.0
#: Of a collective from which the daemon's list has to free the others, since they are not waited for as long.
WITHOUT_END_SECONDS = 4 * PHASE_SECONDS_MAX
HEARTBEAT_SECONDS = 8.0


def ends(daemon: Daemon, job: RunningJob) -> dict[str, tuple[str, str]]:
    """What the history says of each worker's end: the cause, and in words."""
    events = daemon.client.get("/v1/events", params={"job": job.id, "limit": 1000}).json()["events"]
    ended = [event for event in events if event["kind"] == "WORKER_ENDED"]
    return {event["worker_id"]: (event["cause"], event["detail"]) for event in ended}


def test_one_that_hangs_in_a_step_while_it_reports_as_ever_is_missed_by_the_others_and_replaced(
    daemon: Daemon, tmp_path: Path
) -> None:
    hung = tmp_path / "hung"
    job = RunningJob(
        daemon,
        command=[sys.executable, HANGING, str(hung), str(GROUP_TIMEOUT_SECONDS), "0.02"],
        runtime="elastic",
        workers=3,
        grace_seconds=5.0,
        env={"OMP_NUM_THREADS": "1"},
    )
    job.wait("hangs", lambda: hung.exists() and bool(hung.read_text()))
    worker = hung.read_text()
    job.wait(f"lost {worker}", lambda: not job.has(worker))
    job.wait("ends", lambda: job.show()["state"] == "SUCCEEDED")
    cause, told = ends(daemon, job)[worker]
    assert cause == "HUNG"
    assert f"waited {GROUP_TIMEOUT_SECONDS:.0f} s for it to rejoin the group" in told
    assert job.show()["retries_used"] == 1
    assert f"every step taken [1] times, total {STEPS}" in job.logs()


def test_a_newcomer_waits_for_the_end_of_the_others_step_however_long_that_takes(
    daemon: Daemon, tmp_path: Path
) -> None:
    timeout_seconds, step_seconds = 5.0, 8.0
    never = tmp_path / "hung"
    never.touch()
    job = RunningJob(
        daemon,
        command=[sys.executable, HANGING, str(never), str(timeout_seconds), str(step_seconds)],
        runtime="elastic",
        max_workers=1,
        env={"OMP_NUM_THREADS": "1"},
    )
    job.wait("trains", lambda: "of 1 workers" in job.logs())
    job.scale(2)
    job.wait("has taken steps with two", lambda: job.logs().count("of 2 workers") >= 2)
    assert job.show()["retries_used"] == 0
    assert len(job.workers()) == 2


class Watched(RunningJob):
    """Three workers that tell of each step; the file keeps them slow."""

    def __init__(self, daemon: Daemon, runtime: str, command: list[str], slow: Path, **request: Any) -> None:
        self._slow = slow
        slow.touch()
        fields = {"min_workers": 1, "max_workers": 3, "grace_seconds": 5.0, "env": {"OMP_NUM_THREADS": "1"}, **request}
        super().__init__(daemon, runtime=runtime, command=command, **fields)
        self.wait_for_three()

    def wait_for_three(self) -> None:
        """Until all of them train."""
        self.wait("trains on 3", lambda: self.show()["members"] == 3 and self._sizes()[-1:] == ["3"])

    def stop(self, rank: int, argument: str) -> str:
        """SIGSTOP to the process of a worker, until it is lost and the others have gone on; which it was."""
        worker = self.member(rank)
        self.process_of(worker, argument).suspend()
        self.wait(f"lost {worker}", lambda: not self.has(worker))
        # Alone or with whoever replaces it.
        reached = self._steps()
        self.wait("goes on", lambda: self._steps() > reached)
        return worker

    def finish(self) -> str:
        """Lets it run to its end; all output."""
        self._slow.unlink()
        self.wait("ends", lambda: self.show()["state"] == "SUCCEEDED")
        return self.logs()

    def _steps(self) -> int:
        """The number of the last step that anyone told of."""
        return max(int(number) for number in re.findall(r"step (\d+) of \d workers", self.logs()))

    def _sizes(self) -> list[str]:
        """With how many workers the present rank 0 took its steps."""
        ranks = {worker["rank"]: worker["id"] for worker in self.show()["live_workers"]}
        return re.findall(r"step \d+ of (\d) workers", self.log(ranks[0])) if 0 in ranks else []


@pytest.mark.parametrize("runtime", ["elastic", "torchrun"])
def test_one_that_is_stopped_is_found_by_its_silence_and_the_others_go_on_at_once(
    runtime: str, daemon: Daemon, tmp_path: Path
) -> None:
    slow = tmp_path / "slow"
    scripts = {"elastic": [STEADY, str(slow), str(WITHOUT_END_SECONDS)], "torchrun": [COUNTING, str(slow)]}
    job = Watched(daemon, runtime, [sys.executable, *scripts[runtime]], slow, heartbeat_seconds=HEARTBEAT_SECONDS)
    argument = STEADY if runtime == "elastic" else "torch.distributed.run"
    for rank in (0, 2):
        worker = job.stop(rank, argument)
        assert ends(daemon, job)[worker] == ("HUNG", f"it sent no report for {HEARTBEAT_SECONDS:g} s")
        job.wait_for_three()
    output = job.finish()
    assert job.show()["retries_used"] == 2, (ends(daemon, job), output)
    if runtime == "elastic":
        assert_each_sample_was_seen_once_an_epoch(output)
    else:
        assert_every_step_counted(output)


def test_one_that_is_stopped_and_not_watched_is_missed_by_the_others(daemon: Daemon, tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    job = Watched(daemon, "elastic", [sys.executable, STEADY, str(slow), f"{GROUP_TIMEOUT_SECONDS}"], slow)
    worker = job.stop(0, STEADY)
    assert ends(daemon, job)[worker][0] == "HUNG"
    assert_each_sample_was_seen_once_an_epoch(job.finish())


def assert_each_sample_was_seen_once_an_epoch(output: str) -> None:
    """By the last line of the script that counts what it has seen."""
    (last,) = re.findall(r"every sample seen \[(\d+)\] times in (\d+) epochs", output)
    assert last[0] == last[1]


def assert_every_step_counted(output: str) -> None:
    """The total holds each sample of each step once."""
    (last,) = re.findall(r"total (\d+) after (\d+) steps", output)
    assert int(last[0]) == SAMPLES * int(last[1])
