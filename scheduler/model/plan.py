"""A plan: what should change, as a value. Deciding and doing are separate steps."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.model.ids import JobId, WorkerId
from scheduler.model.job import Placement
from scheduler.model.job_state import StopReason, WaitReason
from scheduler.model.worker import LeaveReason


@dataclass(frozen=True, slots=True)
class Start:
    """Start a queued job as a gang on slots that are free now."""

    job_id: JobId
    placement: Placement
    #: Whether its workers share slots, beyond the physical count.
    shared: bool = False
    #: Where its fixed group goes; empty: it has none.
    fixed: Placement = ()


@dataclass(frozen=True, slots=True)
class Grow:
    """Add workers to a running job on slots that are free now."""

    job_id: JobId
    placement: Placement
    #: Whether they share slots, as all workers of the job do then.
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Shrink:
    """Ask some workers of a running job to leave; at least its minimum stays."""

    job_id: JobId
    workers: tuple[WorkerId, ...]
    reason: LeaveReason
    #: The job it is done for; None where no job is (drain, scale).
    for_job: JobId | None = None


@dataclass(frozen=True, slots=True)
class StopJob:
    """Stop a job; the reason decides where it goes."""

    job_id: JobId
    reason: StopReason
    for_job: JobId | None = None


@dataclass(frozen=True, slots=True)
class Reserve:
    """Hold capacity for a waiting job until it starts or gives up; replaces what it held before."""

    job_id: JobId
    placement: Placement
    #: Whether it is capacity beyond the physical slots.
    shared: bool = False
    #: Capacity held for its fixed group, on slots of its own.
    fixed: Placement = ()


@dataclass(frozen=True, slots=True)
class Release:
    """Give up a job's reservation."""

    job_id: JobId


#: Actions that place workers of a job, or hold room for them.
Placing = Start | Grow | Reserve

Action = Start | Grow | Shrink | StopJob | Reserve | Release


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a queued job does not start now."""

    reason: WaitReason
    #: The job in whose favour it waits.
    for_job: JobId | None = None


@dataclass(frozen=True, slots=True)
class QueueShare:
    """What a queue may have and has, as a plan saw it; slots of any GPU type."""

    #: Path of the queue; empty: the jobs that are in none.
    path: str
    #: The user, where the queue is shared by users; None: all of the queue.
    user: str | None
    #: Slots of its guarantee, as far as its jobs can use them, and all that it is entitled to.
    guaranteed: float
    entitled: float
    #: Slots that its jobs hold or wait for.
    wanted: float
    #: Slots that its jobs hold before the plan.
    held: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Actions in the order in which they are enacted, what frees slots first, and why each other job waits.

    `waiting` names only jobs whose reason differs from the one that they hold already.
    """

    actions: tuple[Action, ...] = ()
    waiting: Mapping[JobId, Waiting] = field(default_factory=dict)
    #: When a later look may decide otherwise although nothing was observed (cool-down, backoff); unix seconds.
    next_look_at: float | None = None
    #: Of each queue whose jobs hold or want any slots; empty where there are no queues.
    shares: tuple[QueueShare, ...] = ()
