"""Words that explanations share."""

from collections.abc import Sequence
from typing import assert_never

from scheduler.model.ids import JobId
from scheduler.model.job import StopReason
from scheduler.model.shape import WorkerShape
from scheduler.model.world import World
from scheduler.policy.growth_limits import Growth, Limit
from scheduler.policy.keeping import Keeper
from scheduler.policy.vacancies import Lack

#: So many names are told of a longer list.
NAMED_MAX = 5

#: Why a job is stopped, or gives up workers.
STOP_TEXTS: dict[StopReason, str] = {
    StopReason.PREEMPTED: "its slots are needed",
    StopReason.REBALANCED: "another job of the same priority goes before it",
    StopReason.DRAINED: "its nodes are being drained",
    StopReason.BELOW_MINIMUM: "too few of its workers are left, and there is no room for more",
    StopReason.OVERSOLD: "it shared slots that are too busy for it, or not oversold any more",
    StopReason.GANG_RESTART: "a worker failed, and all start again together",
    StopReason.RETRIES_EXHAUSTED: "a worker failed and no retries are left",
    StopReason.TIME_LIMIT: "its time limit is over",
    StopReason.SUSPENDED: "a user suspended it",
    StopReason.RESUMED: "a user resumed it before it was gone; it is queued again then",
    StopReason.CANCELLED: "a user cancelled it",
    StopReason.BOOKED: "its slots are booked",
    StopReason.BOOKING_ENDED: "its booking is over",
    StopReason.FOREIGN: "others than this scheduler's jobs need its slots",
}

#: What is lacking, in few words.
_LACKING = {
    Lack.SLOTS: "too few slots that suit",
    Lack.GPU_TYPE: "GPUs of one type",
    Lack.SPLIT: "slots on one node",
    Lack.CPUS: "CPUs",
    Lack.MEMORY: "memory",
}


def job_name(job_id: JobId | None, world: World) -> str:
    """Its id; with name and priority while it has not ended."""
    job = world.job(job_id) if job_id is not None else None
    return f"job {job_id} ({job.spec.name}, priority {job.priority})" if job is not None else f"job {job_id}"


def counted(count: int, word: str) -> str:
    """The number with its word."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def are(count: int) -> str:
    return "is" if count == 1 else "are"


def named(names: Sequence[str]) -> str:
    """The first of them."""
    return ", ".join(names[:NAMED_MAX]) + (", …" if len(names) > NAMED_MAX else "")


def suiting(count: int) -> str:
    """So many slots that suit a job."""
    return f"{counted(count, 'slot')} that suit{'s' if count == 1 else ''} it"


def keeper_name(keeper: Keeper, world: World) -> str:
    """For whom something is kept."""
    if keeper.for_job is not None:
        return f"{job_name(keeper.for_job, world)}, which goes first"
    return f"booking {keeper.booking}" if keeper.booking is not None else "others than this scheduler's jobs"


def lack_text(lack: Lack, shape: WorkerShape) -> str:
    """Why free slots are of no use."""
    match lack:
        case Lack.SLOTS:
            return "these are too few"
        case Lack.GPU_TYPE:
            return "not on GPUs of one type"
        case Lack.SPLIT:
            return f"too few on one node: a worker takes {shape.slots}"
        case Lack.CPUS:
            return f"too few CPUs are beside them: a worker takes {shape.cpus:g}"
        case Lack.MEMORY:
            return f"too little memory is beside them: a worker takes {shape.memory_mib} MiB"
        case _:
            assert_never(lack)


def growth_text(growth: Growth) -> str:
    """What keeps one of several running jobs from growing, in few words; empty where it may not grow at all."""
    match growth.limit:
        case Limit.MAXIMUM | Limit.FIXED_SIZE | Limit.FINISHING:
            return ""
        case Limit.CHANGING:
            return "being resized"
        case Limit.NEAR_END:
            return "too near the end"
        case Limit.UNTRIED:
            return "to report a speed first"
        case Limit.NO_GAIN:
            return "without gain from more"
        case Limit.PAYBACK:
            return "for which a resize would not pay back"
        case Limit.NO_ROOM:
            return f"without room ({_LACKING[growth.lack or Lack.SLOTS]})"
        case Limit.RESERVED | Limit.KEPT:
            return "kept back for others"
        case Limit.BOOKING_FULL:
            return "with all of its booking"
        case Limit.COOLDOWN:
            return "cooling down after a resize"
        case Limit.NOTHING:
            return "to grow at the next look"
        case Limit.UNKNOWN:
            return "with room"
        case _:
            assert_never(growth.limit)
