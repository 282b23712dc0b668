"""Classifies the end of a worker: an ordered table, first match wins."""

from collections.abc import Callable

from scheduler.model.observation import EndCause, Phase, WorkerObservation
from scheduler.model.worker import Desired, ExitReason, LeaveReason, Worker

EXIT_DONE = 0
EXIT_DRAINED = 64
EXIT_REPLACE = 65

_Test = Callable[[Worker, WorkerObservation], bool]

#: The cluster's word goes before the exit code: a worker that was told to leave may exit with any.
_RULES: tuple[tuple[_Test, ExitReason], ...] = (
    (lambda worker, seen: worker.leave_reason is LeaveReason.HUNG, ExitReason.HUNG),
    (lambda worker, seen: worker.leave_reason is LeaveReason.NOT_LAUNCHED, ExitReason.LAUNCH_FAILED),
    (lambda worker, seen: worker.leave_reason is LeaveReason.NOT_ADMITTED, ExitReason.NOT_ADMITTED),
    (lambda worker, seen: worker.desired is Desired.STOP, ExitReason.ASKED),
    (lambda worker, seen: seen.cause is EndCause.NOT_ADMITTED, ExitReason.NOT_ADMITTED),
    (lambda worker, seen: seen.cause is EndCause.NO_ACCOUNT, ExitReason.NO_ACCOUNT),
    (lambda worker, seen: seen.cause is EndCause.CANNOT_START, ExitReason.CANNOT_START),
    (lambda worker, seen: seen.phase is Phase.LAUNCH_FAILED, ExitReason.LAUNCH_FAILED),
    (lambda worker, seen: seen.cause is EndCause.OUT_OF_MEMORY, ExitReason.OUT_OF_MEMORY),
    (lambda worker, seen: seen.cause is EndCause.EVICTED, ExitReason.EVICTED),
    (lambda worker, seen: seen.cause is EndCause.DISPLACED, ExitReason.DISPLACED),
    (lambda worker, seen: seen.cause is EndCause.REMOVED, ExitReason.REMOVED),
    (lambda worker, seen: seen.cause is EndCause.NODE_GONE, ExitReason.LOST),
    (lambda worker, seen: seen.phase is Phase.LOST or seen.exit_code is None, ExitReason.LOST),
    (lambda worker, seen: seen.exit_code == EXIT_DONE, ExitReason.DONE),
    (lambda worker, seen: seen.exit_code == EXIT_DRAINED, ExitReason.DRAINED),
    (lambda worker, seen: seen.exit_code == EXIT_REPLACE, ExitReason.REPLACE),
)

#: Ends that consume a retry.
FAILURES = frozenset(
    {
        ExitReason.FAILED,
        ExitReason.HUNG,
        ExitReason.LAUNCH_FAILED,
        ExitReason.CANNOT_START,
        ExitReason.OUT_OF_MEMORY,
    }
)


def classify_exit(worker: Worker, seen: WorkerObservation) -> ExitReason:
    """The meaning of an end; anything that no rule names is a failure."""
    for test, reason in _RULES:
        if test(worker, seen):
            return reason
    return ExitReason.FAILED
