"""Why each job that is left waiting does not start, judged by what the finished plan leaves."""

from scheduler.model.ids import JobId
from scheduler.model.job import Job, WaitReason
from scheduler.model.plan import Waiting
from scheduler.policy.backfill import Blocked
from scheduler.policy.draft import Draft
from scheduler.policy.ledger import View

_INSUFFICIENT = Waiting(WaitReason.INSUFFICIENT_SLOTS)


def explain(draft: Draft, left: list[Job], blocked: Blocked | None) -> None:
    """Give every job in `left` its reason; drop the reasons that the jobs carry already."""
    free: dict[int, int] = {}
    for job in left:
        suited = draft.places.suited(job.shape)
        most = free.get(id(suited))
        if most is None:
            most = free[id(suited)] = draft.places.fits(job.shape, View.FREE).most()
        if most < job.min_workers:
            draft.waiting[job.id] = _INSUFFICIENT
        else:
            draft.waiting[job.id] = Waiting(WaitReason.BEHIND_RESERVATION, _ahead(draft, job, blocked))
    queued = draft.world.queued
    draft.waiting = {
        job_id: waiting
        for job_id, waiting in draft.waiting.items()
        if (waiting.reason, waiting.for_job) != (queued[job_id].wait_reason, queued[job_id].wait_for)
    }


def _ahead(draft: Draft, job: Job, blocked: Blocked | None) -> JobId | None:
    """The job whose reservation keeps this one from free slots: the blocked one, or the first that holds some."""
    open_to_all = draft.places.fits(job.shape, View.OPEN).most() >= job.min_workers
    if blocked is not None and blocked.job.id != job.id and open_to_all:
        return blocked.job.id
    types = draft.places.suited(job.shape).types
    position = draft.ledger.position
    for holder, placement in draft.holding.items():
        if any(position.get(name) in types for name, _ in placement):
            return holder
    return None
