"""A booking: capacity promised for a window of time to the jobs that name it."""

from dataclasses import dataclass
from enum import StrEnum

from scheduler.errors import IllegalTransition
from scheduler.model.job import Job, JobSpec
from scheduler.model.shape import WorkerShape


class BookingState(StrEnum):
    """Where a booking is between request and end."""

    #: Stored; no tick has decided on it yet.
    REQUESTED = "REQUESTED"
    #: Promised; its window lies ahead.
    PLANNED = "PLANNED"
    #: Its window has begun.
    OPEN = "OPEN"
    #: Refused, cancelled, or its window has ended: it is no longer stored, and its jobs are ordinary ones.
    OVER = "OVER"


BOOKING_TRANSITIONS: dict[BookingState, frozenset[BookingState]] = {
    BookingState.REQUESTED: frozenset({BookingState.PLANNED, BookingState.OVER}),
    BookingState.PLANNED: frozenset({BookingState.OPEN, BookingState.OVER}),
    BookingState.OPEN: frozenset({BookingState.OVER}),
    BookingState.OVER: frozenset(),
}


@dataclass(frozen=True, slots=True)
class Booking:
    """Room for a number of workers of one shape, on GPUs of one type; the planner chooses the nodes when it is time."""

    name: str
    #: The window, from its start up to its end; unix seconds.
    start_at: float
    end_at: float
    workers: int
    #: Slots of their own; booked ones are never shared.
    shape: WorkerShape
    created_at: float
    #: Only for jobs of this user; None: of any.
    user: str | None = None
    #: Only for jobs of at least this priority; None: of any.
    priority_min: int | None = None
    state: BookingState = BookingState.REQUESTED

    @property
    def slots(self) -> int:
        return self.workers * self.shape.slots

    def overlaps(self, other: "Booking") -> bool:
        """Whether there is a moment at which both windows are open."""
        return self.start_at < other.end_at and other.start_at < self.end_at

    def admits(self, job: Job) -> bool:
        """Whether the job belongs to it: it names it, and is of its user and priority."""
        return job.spec.booking == self.name and self.refusal(job.spec, job.priority) is None

    def refusal(self, spec: JobSpec, priority: int) -> str | None:
        """What keeps such a job out of this booking; None if nothing does."""
        if self.user is not None and spec.user != self.user:
            return f"booking {self.name} is reserved for user {self.user}"
        if self.priority_min is not None and priority < self.priority_min:
            return f"booking {self.name} requires a priority of at least {self.priority_min}"
        return None


def check_booking_transition(booking: Booking, target: BookingState) -> None:
    """Raise `IllegalTransition` unless the booking's table has this edge."""
    if target not in BOOKING_TRANSITIONS[booking.state]:
        raise IllegalTransition(f"booking {booking.name}: {booking.state} -> {target}")
