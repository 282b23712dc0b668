"""What the end of a worker means."""

import pytest

from scheduler.engine.absorb.exits import FAILURES, classify_exit
from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.observation import EndCause, Phase, WorkerObservation
from scheduler.model.worker import Desired, ExitReason, LeaveReason, Worker


def _seen(phase: Phase, code: int | None, cause: EndCause | None = None) -> WorkerObservation:
    return WorkerObservation(WorkerId("1-1"), JobId(1), NodeName("a"), phase, exit_code=code, cause=cause)


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
    assert classify_exit(_worker(), _seen(phase, code)) is reason


@pytest.mark.parametrize("code", [0, 1, 64, 134, 137])
def test_a_worker_that_was_asked_to_leave_never_fails(code: int) -> None:
    assert classify_exit(_worker(asked=LeaveReason.PREEMPTED), _seen(Phase.EXITED, code)) is ExitReason.ASKED


def test_a_worker_that_was_killed_for_silence_has_failed() -> None:
    assert classify_exit(_worker(asked=LeaveReason.HUNG), _seen(Phase.EXITED, 137)) is ExitReason.HUNG


def test_a_worker_that_was_given_up_was_never_launched() -> None:
    seen = _seen(Phase.EXITED, None, EndCause.REMOVED)
    assert classify_exit(_worker(asked=LeaveReason.NOT_LAUNCHED), seen) is ExitReason.LAUNCH_FAILED
    assert classify_exit(_worker(asked=LeaveReason.NOT_ADMITTED), seen) is ExitReason.NOT_ADMITTED


def test_a_worker_whose_pod_was_refused_without_its_own_doing_has_not_failed() -> None:
    seen = _seen(Phase.LAUNCH_FAILED, None, EndCause.NOT_ADMITTED)
    assert classify_exit(_worker(), seen) is ExitReason.NOT_ADMITTED


@pytest.mark.parametrize("code", [None, 0, 1, 64, 137])
@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (EndCause.OUT_OF_MEMORY, ExitReason.OUT_OF_MEMORY),
        (EndCause.EVICTED, ExitReason.EVICTED),
        (EndCause.DISPLACED, ExitReason.DISPLACED),
        (EndCause.REMOVED, ExitReason.REMOVED),
        (EndCause.NODE_GONE, ExitReason.LOST),
        (EndCause.NOT_ADMITTED, ExitReason.NOT_ADMITTED),
        (EndCause.CANNOT_START, ExitReason.CANNOT_START),
    ],
)
def test_what_the_cluster_says_of_an_end_goes_before_the_exit_code(
    cause: EndCause, reason: ExitReason, code: int | None
) -> None:
    assert classify_exit(_worker(), _seen(Phase.EXITED, code, cause)) is reason


def test_only_what_a_worker_did_itself_consumes_a_retry() -> None:
    own = {"FAILED", "HUNG", "LAUNCH_FAILED", "CANNOT_START", "OUT_OF_MEMORY"}
    assert frozenset(ExitReason(name) for name in own) == FAILURES
