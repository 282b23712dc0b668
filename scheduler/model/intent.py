"""A stored request of a user, which the next tick takes."""

from dataclasses import dataclass
from enum import StrEnum

from scheduler.model.ids import JobId, NodeName


class IntentKind(StrEnum):
    """What a user asked for."""

    #: A new job was stored; the tick puts it into the queue.
    SUBMIT = "SUBMIT"
    #: Cancel a job.
    CANCEL = "CANCEL"
    #: Stop a job until it is resumed.
    SUSPEND = "SUSPEND"
    #: Put a suspended job back into the queue.
    RESUME = "RESUME"
    #: Change the priority of a job.
    PRIORITY = "PRIORITY"
    #: Change the bounds of a job.
    SCALE = "SCALE"
    #: Start no new workers on a node.
    CORDON = "CORDON"
    #: Use a node again.
    UNCORDON = "UNCORDON"
    #: Start no new workers on a node and move its workers off.
    DRAIN = "DRAIN"
    #: A new booking was stored; the tick promises or refuses it.
    BOOK = "BOOK"
    #: Cancel a booking.
    UNBOOK = "UNBOOK"
    #: A queue was created, changed or deleted; the tick reads all of them again.
    QUEUE = "QUEUE"

    @property
    def about(self) -> str:
        """The field of an intent that names what it is about: `job_id`, `node`, `booking` or `queue`."""
        match self:
            case IntentKind.CORDON | IntentKind.UNCORDON | IntentKind.DRAIN:
                return "node"
            case IntentKind.BOOK | IntentKind.UNBOOK:
                return "booking"
            case IntentKind.QUEUE:
                return "queue"
            case _:
                return "job_id"


@dataclass(frozen=True, slots=True)
class Intent:
    """One request about a job, a node, a booking or a queue.

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
    #: Path of the queue.
    queue: str | None = None
