"""Pods of others beside simulated jobs: training makes room for them, which takes as long as leaving does."""

import pytest

from scheduler.config import Settings
from scheduler.model.shape import WorkerShape
from scheduler.simulate.nodes import read_nodes
from scheduler.simulate.result import Result
from scheduler.simulate.run import Setup, simulate
from scheduler.simulate.workload import ForeignPod, Workload
from tests.simulate.runs import job

LEAVE_SECONDS = 5.0


def run(least: int, *pods: ForeignPod, until_seconds: float = 300.0) -> Result:
    """A training of up to four workers, on four slots, beside these."""
    training = job("training", work=1e6, workers=(least, 4), leave_seconds=LEAVE_SECONDS)
    setup = Setup(read_nodes("1x4", "--nodes"), Settings(), until_seconds=until_seconds)
    return simulate(Workload.of("test", [training], foreign=pods), setup)


def pod(name: str, at: float, until: float, slots: int = 1) -> ForeignPod:
    return ForeignPod(name, at, until, WorkerShape(slots))


def test_a_pod_of_others_gets_room_once_a_worker_has_left_and_training_takes_it_back() -> None:
    result = run(1, pod("web", 100.0, 200.0, slots=2))
    assert result.foreign[0].waiting_seconds == pytest.approx(LEAVE_SECONDS, abs=0.1)
    held = {round(step.at): step.slots for step in result.held}
    assert held[105] == 2
    assert held[200] == 4
    assert result.jobs[0].resizes == 2
    assert result.jobs[0].preemptions == 0


def test_a_pod_of_others_that_finds_room_waits_for_nobody() -> None:
    result = run(1, pod("early", 0.0, 50.0), pod("late", 60.0, 70.0, slots=4), until_seconds=90.0)
    assert result.foreign[0].waiting_seconds == 0.0
    # It needs every slot, so that the training stops for it.
    assert result.foreign[1].waiting_seconds == pytest.approx(LEAVE_SECONDS, abs=0.1)


def test_one_that_goes_before_it_got_room_never_ran() -> None:
    result = run(1, pod("hasty", 100.0, 100.0 + LEAVE_SECONDS / 2))
    assert (result.foreign[0].ran_at, result.foreign[0].went_at) == (None, 102.5)


def test_of_those_that_come_only_those_that_have_come_by_the_end_are_told_of() -> None:
    result = run(1, pod("web", 100.0, 200.0), pod("never", 400.0, 500.0))
    assert [each.name for each in result.foreign] == ["web"]
    assert result.foreign[0].went_at == 200.0
