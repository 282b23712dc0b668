"""What the end of a worker means."""

import pytest

from scheduler.engine.exits import classify_exit
from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.observation import Phase
from scheduler.model.worker import Desired, ExitReason, LeaveReason, Worker


def _worker(*, asked: LeaveReason | None = None) -> Worker:
    desired = Desired.STOP if asked else Desired.RUN
    return Worker(WorkerId("1-1"), JobId(1), 1, NodeName("a"), "h", (0,), 0.0, desired=desired, leave_reason=asked)


@pytest.mark.parametrize(
    ("phase", "code", "reason"),
    [
        (Phase.EXITED, 0, ExitReason.DONE),
        (Phase.EXITED, 64, ExitReason.DRAINED),
        (Phase.EXITED, 65, ExitReason.REPLACE),
        (Phase.EXITED, 1, ExitReason.FAILED),
        (Phase.EXITED, 137, ExitReason.FAILED),
        (Phase.LAUNCH_FAILED, None, ExitReason.LAUNCH_FAILED),
        (Phase.LOST, None, ExitReason.LOST),
    ],
)
def test_an_end_that_nobody_asked_for(phase: Phase, code: int | None, reason: ExitReason) -> None:
    assert classify_exit(_worker(), phase, code) is reason


@pytest.mark.parametrize("code", [0, 1, 64, 134, 137])
def test_a_worker_that_was_asked_to_leave_never_fails(code: int) -> None:
    assert classify_exit(_worker(asked=LeaveReason.PREEMPTED), Phase.EXITED, code) is ExitReason.ASKED


def test_a_worker_that_was_killed_for_silence_has_failed() -> None:
    assert classify_exit(_worker(asked=LeaveReason.HUNG), Phase.EXITED, 137) is ExitReason.HUNG
