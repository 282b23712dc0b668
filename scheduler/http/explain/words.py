"""Words that explanations share."""

from collections.abc import Sequence
from typing import assert_never

from scheduler.bounds import NAMED_MAX
from scheduler.model.ids import JobId
from scheduler.model.job_state import StopReason
from scheduler.model.shape import WorkerShape
from scheduler.model.words import counted
from scheduler.model.world import World
from scheduler.policy.explain.growth_limits import Growth, Limit
from scheduler.policy.explain.held_slots import Keeper
from scheduler.policy.explain.shortage import Lack

#: Why a job is stopped, or gives up workers.
STOP_TEXTS: dict[StopReason, str] = {
    StopReason.PREEMPTED: "its slots are needed",
    StopReason.REBALANCED: "jobs of the same priority take turns, and its slots are needed",
    StopReason.DRAINED: "its nodes are being drained, or their slots are unhealthy",
    StopReason.BELOW_MINIMUM: "it has fewer workers than its minimum, and no slots for more are free",
    StopReason.OVERSOLD: "the slots that it shared are too busy, or no longer oversold",
    StopReason.GANG_RESTART: "a worker failed, and all workers restart together",
    StopReason.RETRIES_EXHAUSTED: "a worker failed, and no retries are left",
    StopReason.CANNOT_START: "no attempt can start its workers",
    StopReason.NO_ACCOUNT: "its user has no account on the machine, or one that may have no jobs",
    StopReason.TIME_LIMIT: "its time limit has been reached",
    StopReason.SUSPENDED: "a user suspended it",
    StopReason.RESUMED: "a user resumed it before it had stopped; it goes back to the queue",
    StopReason.CANCELLED: "a user cancelled it",
    StopReason.BOOKED: "its slots are booked",
    StopReason.BOOKING_ENDED: "its booking is over",
    StopReason.FOREIGN: "workloads outside this scheduler need its slots",
    StopReason.RECLAIMED: "another queue takes back slots that its own had borrowed",
}

#: Short names of lacking resources.
_LACKING = {
    Lack.SLOTS: "suitable slots",
    Lack.GPU_TYPE: "GPUs of the same type",
    Lack.SPLIT: "slots on one node",
    Lack.CPUS: "CPUs",
    Lack.MEMORY: "memory",
}


def job_name(job_id: JobId | None, world: World) -> str:
    """Its id; with name and priority while it has not ended."""
    job = world.job(job_id) if job_id is not None else None
    return f"job {job_id} ({job.spec.name}, priority {job.priority})" if job is not None else f"job {job_id}"


def are(count: int) -> str:
    return "is" if count == 1 else "are"


def named(names: Sequence[str]) -> str:
    """The first names of a list."""
    return ", ".join(names[:NAMED_MAX]) + (", …" if len(names) > NAMED_MAX else "")


def suiting(count: int) -> str:
    """`count` suitable slots, as text."""
    return counted(count, "suitable slot")


def keeper_name(keeper: Keeper, world: World) -> str:
    """Text for the owner of kept capacity."""
    if keeper.for_job is not None:
        return f"{job_name(keeper.for_job, world)}, which has precedence"
    return f"booking {keeper.booking}" if keeper.booking is not None else "workloads outside this scheduler"


def lack_text(lack: Lack, shape: WorkerShape) -> str:
    """Why free slots cannot be used."""
    match lack:
        case Lack.SLOTS:
            return "not enough of them"
        case Lack.GPU_TYPE:
            return "not on GPUs of one type"
        case Lack.SPLIT:
            return f"too few on one node: a worker needs {shape.slots}"
        case Lack.CPUS:
            return f"too few CPUs are free on the same node: a worker needs {shape.cpus:g}"
        case Lack.MEMORY:
            return f"too little memory is free on the same node: a worker needs {shape.memory_mib} MiB"
        case _:
            assert_never(lack)


def growth_text(growth: Growth) -> str:
    """Short reason why one of several running jobs does not grow; empty if it may not grow at all."""
    match growth.limit:
        case Limit.MAXIMUM | Limit.FIXED_SIZE | Limit.FINISHING:
            return ""
        case Limit.CHANGING:
            return "being resized"
        case Limit.NEAR_END:
            return "close to the end of its time limit"
        case Limit.UNTRIED:
            return "measuring the speed of the current size"
        case Limit.NO_GAIN:
            return "with no gain from more workers"
        case Limit.PAYBACK:
            return "for which a resize does not pay off"
        case Limit.NO_ROOM:
            return f"without room (lacking {_LACKING[growth.lack or Lack.SLOTS]})"
        case Limit.RESERVED | Limit.KEPT:
            return "held back for others"
        case Limit.QUEUE:
            return "at a limit of their queue"
        case Limit.BOOKING_FULL:
            return "using all of its booking"
        case Limit.COOLDOWN:
            return "in the cool-down after a resize"
        case Limit.NOTHING:
            return "about to grow"
        case Limit.UNKNOWN:
            return "with room to grow"
        case _:
            assert_never(growth.limit)
