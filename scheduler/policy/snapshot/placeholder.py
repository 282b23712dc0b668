"""Jobs of the planner's own: see `scheduler.policy.overlay.placeholders`, which makes them."""

from dataclasses import dataclass

from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.job_state import WaitReason
from scheduler.model.plan import Waiting


@dataclass(frozen=True, slots=True)
class Placeholder(Job):
    """The claim of a booking, or the demand of a foreign process, in the form of a job."""

    #: The booking; None: it stands for a foreign process.
    booking: str | None = None
    #: The job of the booking that may use the room; None if none can yet.
    member: JobId | None = None


def waiting_behind(job: Job | None) -> Waiting:
    """The reason of a job that would fit, but for this one; None: it is not known which."""
    if isinstance(job, Placeholder):
        return Waiting(WaitReason.BEHIND_FOREIGN if job.booking is None else WaitReason.BEHIND_BOOKING)
    return Waiting(WaitReason.BEHIND_RESERVATION, job.id if job is not None else None)
