"""What the end of a worker means: an ordered table, first match wins."""

from collections.abc import Callable

from scheduler.model.observation import Phase
from scheduler.model.worker import Desired, ExitReason, Worker

EXIT_DONE = 0
EXIT_DRAINED = 64
EXIT_REPLACE = 65

_Test = Callable[[Worker, Phase, int | None], bool]

_RULES: tuple[tuple[_Test, ExitReason], ...] = (
    (lambda worker, phase, code: worker.condemned, ExitReason.HUNG),
    (lambda worker, phase, code: worker.desired is Desired.STOP, ExitReason.ASKED),
    (lambda worker, phase, code: phase is Phase.LAUNCH_FAILED, ExitReason.LAUNCH_FAILED),
    (lambda worker, phase, code: phase is Phase.LOST or code is None, ExitReason.LOST),
    (lambda worker, phase, code: code == EXIT_DONE, ExitReason.DONE),
    (lambda worker, phase, code: code == EXIT_DRAINED, ExitReason.DRAINED),
    (lambda worker, phase, code: code == EXIT_REPLACE, ExitReason.REPLACE),
)

#: Ends that consume a retry.
FAILURES = frozenset({ExitReason.FAILED, ExitReason.HUNG, ExitReason.LAUNCH_FAILED})


def classify_exit(worker: Worker, phase: Phase, exit_code: int | None) -> ExitReason:
    """The meaning of an end; anything that no rule names is a failure."""
    for test, reason in _RULES:
        if test(worker, phase, exit_code):
            return reason
    return ExitReason.FAILED
