"""A stored request of a user, which the next tick takes."""

from dataclasses import dataclass
from enum import StrEnum

from scheduler.model.ids import JobId, NodeName


class IntentKind(StrEnum):
    #: A new job was stored; the tick lets it into the queue.
    SUBMIT = "SUBMIT"
    CANCEL = "CANCEL"
    SUSPEND = "SUSPEND"
    RESUME = "RESUME"
    PRIORITY = "PRIORITY"
    SCALE = "SCALE"
    CORDON = "CORDON"
    UNCORDON = "UNCORDON"
    DRAIN = "DRAIN"
    #: A new booking was stored; the tick promises or refuses it.
    BOOK = "BOOK"
    #: Cancel a booking.
    UNBOOK = "UNBOOK"


@dataclass(frozen=True, slots=True)
class Intent:
    """One request about a job, a node or a booking.

    `priority` goes with PRIORITY; the bounds with SCALE (None: unchanged).
    """

    id: int
    kind: IntentKind
    created_at: float
    job_id: JobId | None = None
    node: NodeName | None = None
    priority: int | None = None
    min_workers: int | None = None
    max_workers: int | None = None
    #: Name of the booking.
    booking: str | None = None
