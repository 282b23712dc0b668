"""Words that explanations share."""

from scheduler.model.ids import JobId
from scheduler.model.job import StopReason
from scheduler.model.world import World

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


def job_name(job_id: JobId | None, world: World) -> str:
    """Its id; with name and priority while it has not ended."""
    job = world.job(job_id) if job_id is not None else None
    return f"job {job_id} ({job.spec.name}, priority {job.priority})" if job is not None else f"job {job_id}"
