"""A worker that takes no step for longer than its script allows ends itself; what takes long besides is no hang."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from scheduler import elastic
from scheduler.elastic.step_watch import EXIT_HUNG, StepWatch
from tests.daemon import running_daemon
from tests.elastic.jobs import RunningJob

SECONDS = 0.8
#: More than any process takes to import torch.
SECONDS_MAX = 240.0


class Ends:
    """Takes note of the end in place of ending this process."""

    def __init__(self) -> None:
        self.came = threading.Event()
        self.after: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.after.append(seconds)
        self.came.set()


def until(seconds: float) -> threading.Event:
    """Set after that time, as a watch counts it."""
    ends = Ends()
    StepWatch(seconds, ends).begin()
    return ends.came


def test_a_step_that_does_not_end_is_told_once() -> None:
    ends = Ends()
    StepWatch(SECONDS, ends).begin()
    assert ends.came.wait(SECONDS_MAX)
    assert until(SECONDS).wait(SECONDS_MAX)
    assert ends.after == [SECONDS]


def test_each_step_has_its_time_and_what_is_between_steps_has_any() -> None:
    stepping, paused, untimed = Ends(), Ends(), Ends()
    watch = StepWatch(SECONDS, stepping)
    other = StepWatch(SECONDS, paused)
    other.begin()
    other.pause()
    StepWatch(None, untimed).begin()
    reference = until(3 * SECONDS)
    while not reference.wait(SECONDS / 20):
        watch.begin()
    assert (stepping.after, paused.after, untimed.after) == ([], [], [])


class SlowToKeep:
    """Its state takes longer to be kept than a step may take."""

    def state_dict(self) -> dict[str, Any]:
        assert until(2 * SECONDS).wait(SECONDS_MAX)
        return {}

    def load_state_dict(self, tree: dict[str, Any]) -> None:
        """Nothing is kept."""


def test_a_commit_may_take_longer_than_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCHED_URL", raising=False)
    state = elastic.State(slow=SlowToKeep())

    def train(state: elastic.State) -> int:
        state.commit()
        return state.step

    assert elastic.run(train, state, step_timeout_seconds=SECONDS) == 1


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan")])
def test_a_time_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(elastic.UsageError, match="step_timeout_seconds, unless it is None, must be greater than 0"):
        elastic.run(lambda state: None, elastic.State(), step_timeout_seconds=seconds)


HANGS_ONCE = """
import sys, threading
from pathlib import Path
from scheduler import elastic

def hang_in_a_step():
    threading.Event().wait()

def train(state):
    while state.step < 3:
        if state.step == 1 and not Path(sys.argv[1]).exists():
            Path(sys.argv[1]).touch()
            hang_in_a_step()
        state.commit()
    print("done")

elastic.run(train, elastic.State(), step_timeout_seconds=1.0)
"""


def test_the_log_says_where_it_hung(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HANGS_ONCE, str(tmp_path / "hung")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert ended.returncode == EXIT_HUNG
    assert ended.stderr.startswith("no step ended within 1 s (step_timeout_seconds): this worker hangs\n")
    assert "in hang_in_a_step" in ended.stderr
    again = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert (again.returncode, again.stdout) == (0, "done\n"), again.stderr


STANDS_STILL = """
import threading
from scheduler import elastic

elastic.run(lambda state: threading.Event().wait(), elastic.State())
"""


@pytest.mark.slow
@pytest.mark.torch
def test_a_lone_worker_that_hangs_in_a_step_or_is_stopped_is_replaced(tmp_path: Path) -> None:
    hung = tmp_path / "hung"
    with running_daemon(tmp_path, slots=1, engine={"heartbeat_seconds": 8.0}) as daemon:
        job = RunningJob(daemon, command=[sys.executable, "-c", HANGS_ONCE, str(hung)], runtime="elastic")
        job.wait("ends", lambda: job.show()["state"] == "SUCCEEDED")
        assert hung.exists()
        assert "in hang_in_a_step" in job.logs()
        stopped = RunningJob(daemon, command=[sys.executable, "-c", STANDS_STILL], runtime="elastic", grace_seconds=1)
        worker = stopped.member(0)
        stopped.wait("trains", lambda: stopped.show()["state"] == "RUNNING")
        stopped.process_of(worker, STANDS_STILL).suspend()
        stopped.wait("is replaced", lambda: not stopped.has(worker))
        events = daemon.client.get("/v1/events", params={"job": stopped.id, "limit": 100}).json()["events"]
        ended = [(each["cause"], each["detail"]) for each in events if each["kind"] == "WORKER_ENDED"]
        assert ended == [("HUNG", "it sent no report for 8 s")]
