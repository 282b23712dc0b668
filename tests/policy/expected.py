"""Actions and reasons that tests of plans expect, in few words."""

from scheduler.model.job_state import WaitReason
from scheduler.model.plan import Shrink, Waiting
from scheduler.model.worker import LeaveReason

#: Nobody is named: it waits in its own favour.
VICTIMS = Waiting(WaitReason.WAITING_FOR_VICTIMS)


def shrink(job: int, *ordinals: int, by: int | None, reason: LeaveReason = LeaveReason.PREEMPTED) -> Shrink:
    return Shrink(job, tuple(f"{job}-{k}" for k in ordinals), reason, by)  # type: ignore[arg-type]
