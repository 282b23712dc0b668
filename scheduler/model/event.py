"""What happened, why, and for whom: written in the transaction of the change itself."""

from dataclasses import dataclass
from enum import StrEnum

from scheduler.model.ids import JobId, NodeName, WorkerId


class EventKind(StrEnum):
    """What happened. Kinds of jobs, workers, nodes, bookings and queues begin with that word."""

    #: A user submitted the job.
    JOB_SUBMITTED = "JOB_SUBMITTED"
    #: The job waits for another reason than before; the cause is a wait reason.
    JOB_WAITS = "JOB_WAITS"
    #: The job got slots and its workers are launched; the amount is how many seconds it waited.
    JOB_STARTED = "JOB_STARTED"
    #: All members of the job have reported the published generation.
    JOB_RUNNING = "JOB_RUNNING"
    #: The job got further workers.
    JOB_GREW = "JOB_GREW"
    #: Some workers of the job were asked to leave; the cause is a leave reason.
    JOB_SHRANK = "JOB_SHRANK"
    #: All workers of the job were asked to leave; the cause is a stop reason, the amount the slot-seconds lost.
    JOB_STOPPING = "JOB_STOPPING"
    #: The last worker of a stopped job is gone and the job is back in the queue; the cause is a stop reason.
    JOB_REQUEUED = "JOB_REQUEUED"
    #: The job is stopped and stays so until it is resumed.
    JOB_SUSPENDED = "JOB_SUSPENDED"
    #: A user put a suspended job back into the queue.
    JOB_RESUMED = "JOB_RESUMED"
    #: Slots are held for a waiting job while they are freed.
    JOB_RESERVED = "JOB_RESERVED"
    #: Ticks failed while they dealt with the job: no decision looks at it until a user resumes or cancels it. The
    #: cause is how they failed, the detail where.
    JOB_HELD = "JOB_HELD"
    #: A user resumed a held job: it goes on as it was.
    JOB_RELEASED = "JOB_RELEASED"
    #: The job ended with success.
    JOB_SUCCEEDED = "JOB_SUCCEEDED"
    #: The job ended with failure; the cause is a stop reason.
    JOB_FAILED = "JOB_FAILED"
    #: A user cancelled the job.
    JOB_CANCELLED = "JOB_CANCELLED"
    #: A user changed the priority or the bounds of the job; the cause is a request.
    JOB_CHANGED = "JOB_CHANGED"
    #: A new host list of the job was published; the amount is its number of workers.
    GENERATION_PUBLISHED = "GENERATION_PUBLISHED"
    #: Workers had agreed to go on without lost ones while no scheduler answered, and the scheduler accepted it; the
    #: amount is how many were lost.
    SUBGENERATION_ADOPTED = "SUBGENERATION_ADOPTED"
    #: The worker was seen on its node.
    WORKER_STARTED = "WORKER_STARTED"
    #: The worker can join its group: imports and device initialisation are done.
    WORKER_READY = "WORKER_READY"
    #: The worker is gone; the cause is an exit reason, the amount the slot-seconds lost.
    WORKER_ENDED = "WORKER_ENDED"
    #: A new worker takes the place of one that failed or asked for that; the cause is the exit reason of the old one.
    WORKER_REPLACED = "WORKER_REPLACED"
    #: The node is reachable; the amount is its number of slots.
    NODE_UP = "NODE_UP"
    #: The node is out of reach or gone; the amount is its number of slots.
    NODE_DOWN = "NODE_DOWN"
    #: The node is removed, since the cluster has not listed it for long; if it comes back it is a new one.
    NODE_FORGOTTEN = "NODE_FORGOTTEN"
    #: The node takes no new workers.
    NODE_CORDONED = "NODE_CORDONED"
    #: The node takes new workers again.
    NODE_UNCORDONED = "NODE_UNCORDONED"
    #: The node takes no new workers and its workers are moved off.
    NODE_DRAINING = "NODE_DRAINING"
    #: The node takes no new workers for a time, because workers of several jobs failed on it; the amount is for how
    #: many seconds.
    NODE_QUARANTINED = "NODE_QUARANTINED"
    #: Ticks failed while they dealt with the node: it takes no new workers until a user uncordons it. The cause is how
    #: they failed, the detail where, the amount how many slots the node had.
    NODE_HELD = "NODE_HELD"
    #: The node has another number of slots than before; the amount is how many more.
    NODE_RESIZED = "NODE_RESIZED"
    #: Slots of the node take no new workers; the cause says whether others use them, they are unhealthy, or nothing can
    #: be read of them, the amount is their number.
    NODE_SLOTS_CLOSED = "NODE_SLOTS_CLOSED"
    #: Closed slots of the node take workers again; the cause is why they were closed, the amount is their number.
    NODE_SLOTS_OPENED = "NODE_SLOTS_OPENED"
    #: Ticks failed while they dealt with what the detail names: it is left aside as long as the cluster shows it.
    WITHHELD = "WITHHELD"
    #: The booking was promised. The detail of every event of a booking begins with its name.
    BOOKING_PLANNED = "BOOKING_PLANNED"
    #: The window of the booking began.
    BOOKING_STARTED = "BOOKING_STARTED"
    #: The window of the booking ended.
    BOOKING_ENDED = "BOOKING_ENDED"
    #: A user cancelled the booking.
    BOOKING_CANCELLED = "BOOKING_CANCELLED"
    #: A user created or changed the queue. The detail of every event of a queue begins with its path.
    QUEUE_SET = "QUEUE_SET"
    #: A user deleted the queue.
    QUEUE_DELETED = "QUEUE_DELETED"
    #: Most of the budget of the queue for this month is spent; once a month. The amount is which part.
    QUEUE_BUDGET_NEAR = "QUEUE_BUDGET_NEAR"
    #: No job was submitted for a time of the recurring job; the detail begins with its id and says why, once for each
    #: reason. It is tried again until one is.
    RECURRING_REFUSED = "RECURRING_REFUSED"
    #: Readers of shards were silent for longer than their lease: their shards are handed out again, or set aside if
    #: they failed too often. The amount is the number of these shards.
    SHARD_LEASE_EXPIRED = "SHARD_LEASE_EXPIRED"
    #: Shards of the data set of the job failed too often; the amount is their number.
    SHARDS_SET_ASIDE = "SHARDS_SET_ASIDE"
    #: Every shard of the data set of the job is done or set aside.
    DATA_ENDED = "DATA_ENDED"
    #: Somebody set the clock of the leader's machine; the amount is by how many seconds. Durations do not change.
    CLOCK_JUMPED = "CLOCK_JUMPED"
    #: The clock of the leader's machine has stayed as it was set; bookings follow it. The amount is by how many
    #: seconds.
    CLOCK_CONFIRMED = "CLOCK_CONFIRMED"
    #: A request that was stored can no longer be carried out; the cause is the request.
    REQUEST_REFUSED = "REQUEST_REFUSED"
    #: What is stored of this event cannot be read; the detail says why. Nothing ever stores this kind.
    UNREADABLE = "UNREADABLE"


#: What is decided; the others tell what was observed or asked for. Each names its cause.
DECISIONS = frozenset(EventKind) - {
    EventKind.JOB_SUBMITTED,
    EventKind.JOB_RUNNING,
    EventKind.WORKER_STARTED,
    EventKind.WORKER_READY,
    EventKind.WORKER_ENDED,
    EventKind.SHARD_LEASE_EXPIRED,
    EventKind.SHARDS_SET_ASIDE,
    EventKind.DATA_ENDED,
    EventKind.QUEUE_SET,
    EventKind.QUEUE_DELETED,
    EventKind.QUEUE_BUDGET_NEAR,
    EventKind.RECURRING_REFUSED,
    EventKind.UNREADABLE,
}


class Cause(StrEnum):
    """Why something was decided, where no reason of a job, a worker or a request says so."""

    #: Enough slots are free.
    FREE_SLOTS = "FREE_SLOTS"
    #: The slots that were held for the job are free.
    RESERVED_SLOTS = "RESERVED_SLOTS"
    #: The slots that the job needs are being freed for it.
    SLOTS_BEING_FREED = "SLOTS_BEING_FREED"
    #: Workers joined or left.
    MEMBERS_CHANGED = "MEMBERS_CHANGED"
    #: Workers could not reach the others.
    WORKERS_LOST = "WORKERS_LOST"
    #: The cluster reported it.
    OBSERVED = "OBSERVED"
    #: Workers of several jobs failed on the node.
    FAILURES = "FAILURES"
    #: A set time has come.
    TIME = "TIME"
    #: A tick raised an error.
    TICK_RAISED = "TICK_RAISED"
    #: A tick did not end.
    TICK_HUNG = "TICK_HUNG"
    #: A tick ended the process.
    TICK_DIED = "TICK_DIED"


@dataclass(frozen=True, slots=True)
class Event:
    """One line of history. `cause` is a typed reason's value; `for_job` names the job for which it was done."""

    at: float
    kind: EventKind
    job_id: JobId | None = None
    worker_id: WorkerId | None = None
    node: NodeName | None = None
    cause: str = ""
    for_job: JobId | None = None
    detail: str = ""
    #: A number that belongs to it: seconds of this wait (JOB_STARTED), slot-seconds lost (WORKER_ENDED, JOB_STOPPING),
    #: how many slots (NODE_UP, NODE_DOWN, NODE_RESIZED, NODE_SLOTS_CLOSED, NODE_SLOTS_OPENED).
    amount: float | None = None
