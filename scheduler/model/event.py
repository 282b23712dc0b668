"""What happened, why, and for whom: written in the transaction of the change itself."""

from dataclasses import dataclass
from enum import StrEnum

from scheduler.model.ids import JobId, NodeName, WorkerId


class EventKind(StrEnum):
    JOB_SUBMITTED = "JOB_SUBMITTED"
    JOB_STARTED = "JOB_STARTED"
    JOB_RUNNING = "JOB_RUNNING"
    JOB_GREW = "JOB_GREW"
    JOB_SHRANK = "JOB_SHRANK"
    JOB_STOPPING = "JOB_STOPPING"
    JOB_REQUEUED = "JOB_REQUEUED"
    JOB_SUSPENDED = "JOB_SUSPENDED"
    JOB_RESUMED = "JOB_RESUMED"
    JOB_RESERVED = "JOB_RESERVED"
    JOB_SUCCEEDED = "JOB_SUCCEEDED"
    JOB_FAILED = "JOB_FAILED"
    JOB_CANCELLED = "JOB_CANCELLED"
    JOB_CHANGED = "JOB_CHANGED"
    GENERATION_PUBLISHED = "GENERATION_PUBLISHED"
    #: Workers went on without lost ones while no scheduler answered, and this one goes by it.
    SUBGENERATION_ADOPTED = "SUBGENERATION_ADOPTED"
    WORKER_STARTED = "WORKER_STARTED"
    WORKER_READY = "WORKER_READY"
    WORKER_ENDED = "WORKER_ENDED"
    WORKER_REPLACED = "WORKER_REPLACED"
    NODE_UP = "NODE_UP"
    NODE_DOWN = "NODE_DOWN"
    NODE_CORDONED = "NODE_CORDONED"
    NODE_UNCORDONED = "NODE_UNCORDONED"
    NODE_DRAINING = "NODE_DRAINING"
    NODE_QUARANTINED = "NODE_QUARANTINED"
    #: Events of a booking begin their detail with its name.
    BOOKING_PLANNED = "BOOKING_PLANNED"
    BOOKING_STARTED = "BOOKING_STARTED"
    BOOKING_ENDED = "BOOKING_ENDED"
    BOOKING_CANCELLED = "BOOKING_CANCELLED"
    #: Shards of its data set failed too often.
    SHARDS_SET_ASIDE = "SHARDS_SET_ASIDE"
    #: The last shard of its data set is over.
    DATA_ENDED = "DATA_ENDED"
    REQUEST_REFUSED = "REQUEST_REFUSED"


@dataclass(frozen=True, slots=True)
class Event:
    """One line of history. `cause` is a typed reason's value; `for_job` names whom it was done for."""

    at: float
    kind: EventKind
    job_id: JobId | None = None
    worker_id: WorkerId | None = None
    node: NodeName | None = None
    cause: str = ""
    for_job: JobId | None = None
    detail: str = ""
    #: A number that belongs to it: seconds waited (JOB_STARTED), slot-seconds lost (WORKER_ENDED, JOB_STOPPING).
    amount: float | None = None
