"""What an exit status of `sched` means, and which error ends with which. The only place that says so."""

from enum import IntEnum

from scheduler.errors import (
    ClusterError,
    Conflict,
    NotFound,
    SchedulerError,
    SchemaMismatch,
    StoreError,
    UserError,
    WorkersElsewhere,
)


class Unreachable(SchedulerError):
    """Nothing that speaks the scheduler's API answers at the daemon's address."""


class Cut(Unreachable):
    """A request was sent and no answer came: whether it took effect is not known."""


class Refused(SchedulerError):
    """The daemon does not accept the token, or wants one, or the caller may not do this."""


class Unavailable(SchedulerError):
    """The daemon answers, but cannot do it now; the same request may succeed later."""


class TooMany(Unavailable):
    """As many of something are stored, or asked at once, as may be: the request was refused, and had no effect."""


class Exit(IntEnum):
    """Exit statuses, in the order in which `sched --help` explains them."""

    OK = 0
    JOB_FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    UNREACHABLE = 5
    REFUSED = 6
    UNAVAILABLE = 7
    JOB_CANCELLED = 8
    DEFECT = 70
    INTERRUPTED = 130
    BROKEN_PIPE = 141

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS: dict[Exit, str] = {
    Exit.OK: "success; of submit with --wait or --follow: the job succeeded",
    Exit.JOB_FAILED: "the job failed (submit with --wait or --follow)",
    Exit.USAGE: "invalid command line or input",
    Exit.NOT_FOUND: "job, recurring job, worker, node, booking or token not found",
    Exit.CONFLICT: "the current state does not allow the request",
    Exit.UNREACHABLE: "no daemon answers",
    Exit.REFUSED: "the daemon rejected the token, or does not allow the request",
    Exit.UNAVAILABLE: "temporarily unavailable; try again",
    Exit.JOB_CANCELLED: "the job was cancelled (submit with --wait or --follow)",
    Exit.DEFECT: "internal error; set SCHED_DEBUG=1 for a traceback",
    Exit.INTERRUPTED: "interrupted by Ctrl-C",
    Exit.BROKEN_PIPE: "the reader of the output closed the pipe",
}

#: First match wins.
_STATUS_OF: tuple[tuple[type[SchedulerError], Exit], ...] = (
    (NotFound, Exit.NOT_FOUND),
    (Conflict, Exit.CONFLICT),
    (SchemaMismatch, Exit.CONFLICT),
    (Unreachable, Exit.UNREACHABLE),
    (Refused, Exit.REFUSED),
    (Unavailable, Exit.UNAVAILABLE),
    (WorkersElsewhere, Exit.CONFLICT),
    (StoreError, Exit.UNAVAILABLE),
    (ClusterError, Exit.UNAVAILABLE),
    (UserError, Exit.USAGE),
)


def status_of(error: SchedulerError) -> Exit:
    """The exit status that an error ends with."""
    return next((status for kind, status in _STATUS_OF if isinstance(error, kind)), Exit.DEFECT)
