"""States of a job, the transitions between them, and why a job waits or was stopped."""

from enum import StrEnum


class JobState(StrEnum):
    """Where a job is between submission and end."""

    #: Waits for slots.
    QUEUED = "QUEUED"
    #: Has slots; its workers are launched and not ready yet.
    STARTING = "STARTING"
    #: Its workers work at the published generation.
    RUNNING = "RUNNING"
    #: Works, and its workers are changing.
    RESIZING = "RESIZING"
    #: Its workers were asked to leave and are not all gone.
    STOPPING = "STOPPING"
    #: Stopped until a user resumes it.
    SUSPENDED = "SUSPENDED"
    #: Left as it is until a user resumes or cancels it: ticks failed while they dealt with it. Its workers go on.
    HELD = "HELD"
    #: Ended with success.
    SUCCEEDED = "SUCCEEDED"
    #: Ended with failure.
    FAILED = "FAILED"
    #: Ended by a user.
    CANCELLED = "CANCELLED"

    @property
    def terminal(self) -> bool:
        return self in TERMINAL_STATES

    @property
    def active(self) -> bool:
        """Whether the job may have workers."""
        return self in ACTIVE_STATES

    @property
    def managed(self) -> bool:
        """Whether ticks also look after its workers. Those of a held job are left as they are."""
        return self in _MANAGED_STATES


TERMINAL_STATES = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})
_MANAGED_STATES = frozenset({JobState.STARTING, JobState.RUNNING, JobState.RESIZING, JobState.STOPPING})
ACTIVE_STATES = _MANAGED_STATES | {JobState.HELD}

_LIVE_TARGETS = frozenset({JobState.STOPPING, JobState.SUCCEEDED, JobState.HELD})
JOB_TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    JobState.QUEUED: frozenset({JobState.STARTING, JobState.SUSPENDED, JobState.CANCELLED, JobState.HELD}),
    JobState.STARTING: _LIVE_TARGETS | {JobState.RUNNING},
    JobState.RUNNING: _LIVE_TARGETS | {JobState.RESIZING},
    JobState.RESIZING: _LIVE_TARGETS | {JobState.RUNNING},
    JobState.STOPPING: frozenset(
        {JobState.QUEUED, JobState.SUSPENDED, JobState.FAILED, JobState.CANCELLED, JobState.HELD}
    ),
    JobState.SUSPENDED: frozenset({JobState.QUEUED, JobState.CANCELLED, JobState.HELD}),
    # Back to where it was held, or out.
    JobState.HELD: _MANAGED_STATES | {JobState.QUEUED, JobState.SUSPENDED, JobState.CANCELLED},
    JobState.SUCCEEDED: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.CANCELLED: frozenset(),
}


class StopReason(StrEnum):
    """Why a job is being stopped; decides where it goes from there."""

    #: A more important job needs its slots, and shrinking was not enough.
    PREEMPTED = "PREEMPTED"
    #: Another job of the same priority goes first now.
    REBALANCED = "REBALANCED"
    #: Its node is being drained or a slot of it is unhealthy, and its workers have no other place.
    DRAINED = "DRAINED"
    #: Fewer workers than its minimum are left and there is no room for more; not a failure of the job.
    BELOW_MINIMUM = "BELOW_MINIMUM"
    #: It shared slots whose load crossed a limit, or that are no longer oversold.
    OVERSOLD = "OVERSOLD"
    #: A worker failed, and the job starts again as a whole.
    GANG_RESTART = "GANG_RESTART"
    #: A worker failed and no retry is left.
    RETRIES_EXHAUSTED = "RETRIES_EXHAUSTED"
    #: No try can start its workers: there is no such program or directory, say.
    CANNOT_START = "CANNOT_START"
    #: Its user has no account on the machine, or one that may have no jobs.
    NO_ACCOUNT = "NO_ACCOUNT"
    #: Its time limit is over.
    TIME_LIMIT = "TIME_LIMIT"
    #: A user suspended it.
    SUSPENDED = "SUSPENDED"
    #: A user resumed it before the workers of the suspended job were gone.
    RESUMED = "RESUMED"
    #: A user cancelled it.
    CANCELLED = "CANCELLED"
    #: Its slots are booked, and shrinking was not enough.
    BOOKED = "BOOKED"
    #: Its booking is over, and its slots could not be preempted.
    BOOKING_ENDED = "BOOKING_ENDED"
    #: Pods of others than this scheduler need its slots, and shrinking was not enough.
    FOREIGN = "FOREIGN"
    #: Its queue had borrowed its slots from one that needs them for its guarantee or share.
    RECLAIMED = "RECLAIMED"


STOP_TARGETS: dict[StopReason, JobState] = {
    StopReason.PREEMPTED: JobState.QUEUED,
    StopReason.REBALANCED: JobState.QUEUED,
    StopReason.DRAINED: JobState.QUEUED,
    StopReason.BELOW_MINIMUM: JobState.QUEUED,
    StopReason.OVERSOLD: JobState.QUEUED,
    StopReason.GANG_RESTART: JobState.QUEUED,
    StopReason.RETRIES_EXHAUSTED: JobState.FAILED,
    StopReason.CANNOT_START: JobState.FAILED,
    StopReason.NO_ACCOUNT: JobState.SUSPENDED,
    StopReason.TIME_LIMIT: JobState.FAILED,
    StopReason.SUSPENDED: JobState.SUSPENDED,
    StopReason.RESUMED: JobState.QUEUED,
    StopReason.CANCELLED: JobState.CANCELLED,
    StopReason.BOOKED: JobState.QUEUED,
    StopReason.BOOKING_ENDED: JobState.QUEUED,
    StopReason.FOREIGN: JobState.QUEUED,
    StopReason.RECLAIMED: JobState.QUEUED,
}


class WaitReason(StrEnum):
    """Why a queued job does not run; exactly one reason at a time."""

    #: No tick has looked at it yet.
    SUBMITTED = "SUBMITTED"
    #: Nodes suit it, but too few slots are free, and preempting less important jobs would not free enough.
    INSUFFICIENT_SLOTS = "INSUFFICIENT_SLOTS"
    #: Slots are reserved for it and are being freed.
    WAITING_FOR_VICTIMS = "WAITING_FOR_VICTIMS"
    #: It would fit, but would delay a job ahead of it.
    BEHIND_RESERVATION = "BEHIND_RESERVATION"
    #: A worker failed; the job starts again after a pause.
    BACKOFF = "BACKOFF"
    #: No node has its labels and GPU type.
    NO_MATCHING_NODE = "NO_MATCHING_NODE"
    #: The nodes that suit it would not hold its minimum even if they were empty.
    EXCEEDS_CLUSTER = "EXCEEDS_CLUSTER"
    #: The window of its booking has not begun.
    BOOKED_LATER = "BOOKED_LATER"
    #: Other jobs of its booking use the booked slots.
    BOOKING_FULL = "BOOKING_FULL"
    #: It would fit, but on booked slots that are held already, or that it could not leave in time.
    BEHIND_BOOKING = "BEHIND_BOOKING"
    #: It would fit, but pods of others than this scheduler wait for that room.
    BEHIND_FOREIGN = "BEHIND_FOREIGN"
    #: It has a fixed group, and the policy in force supports none.
    POLICY_WITHOUT_FIXED = "POLICY_WITHOUT_FIXED"
    #: Nodes that it needs are down, cordoned, draining, quarantined or closed by the cluster, or slots of them closed.
    NODES_UNAVAILABLE = "NODES_UNAVAILABLE"
    #: Its queue, or one that contains it, is at its limit.
    QUEUE_LIMIT = "QUEUE_LIMIT"
    #: The budget of its queue, or of one that contains it, is spent for this month.
    BUDGET_SPENT = "BUDGET_SPENT"
    #: The row of its queue, or of one that contains it, cannot be read: what is set of that queue is not known.
    QUEUE_UNREADABLE = "QUEUE_UNREADABLE"
    #: Its user is at the limit of a queue for each user.
    USER_LIMIT = "USER_LIMIT"
    #: It, or its minimum, is not preemptible, and such jobs start inside the guarantee of their queue only.
    NOT_GUARANTEED = "NOT_GUARANTEED"
