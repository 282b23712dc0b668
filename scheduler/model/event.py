"""What happened, why, and for whom: written in the transaction of the change itself."""

from dataclasses import dataclass
from enum import StrEnum

from scheduler.model.ids import JobId, NodeName, WorkerId


class EventKind(StrEnum):
    JOB_SUBMITTED = "JOB_SUBMITTED"
    #: It comes to wait for another reason, which is the cause.
    JOB_WAITS = "JOB_WAITS"
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


#: What is decided; the others tell what was observed or asked for. Each names its cause.
DECISIONS = frozenset(EventKind) - {
    EventKind.JOB_SUBMITTED,
    EventKind.JOB_RUNNING,
    EventKind.WORKER_STARTED,
    EventKind.WORKER_READY,
    EventKind.WORKER_ENDED,
    EventKind.SHARDS_SET_ASIDE,
    EventKind.DATA_ENDED,
}


class Cause(StrEnum):
    """Why something was decided, where no reason of a job, a worker or a request says so."""

    #: What is free suffices.
    FREE_SLOTS = "FREE_SLOTS"
    #: What was held for it is free.
    RESERVED_SLOTS = "RESERVED_SLOTS"
    #: What it needs is being freed for it.
    SLOTS_BEING_FREED = "SLOTS_BEING_FREED"
    #: Workers joined or left.
    MEMBERS_CHANGED = "MEMBERS_CHANGED"
    #: Peers could not reach them.
    WORKERS_LOST = "WORKERS_LOST"
    #: The cluster says so.
    OBSERVED = "OBSERVED"
    #: Workers of several jobs failed there.
    FAILURES = "FAILURES"
    #: A time that was set has come.
    TIME = "TIME"


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
    #: A number that belongs to it: seconds of this wait (JOB_STARTED), slot-seconds lost (WORKER_ENDED, JOB_STOPPING).
    amount: float | None = None
