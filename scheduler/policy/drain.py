"""Moving workers off draining nodes: replacements first where that is possible, one careful step per plan."""

from scheduler.model.job import Job, JobState, StopReason
from scheduler.model.worker import LeaveReason, Worker
from scheduler.policy.bounds import more_spots
from scheduler.policy.draft import Draft


def drain(draft: Draft) -> None:
    """One step for every job that has workers on draining nodes."""
    draining = draft.survey.draining
    stakes = draft.stakes
    for job_id in sorted({job_id for name in draining for job_id in stakes.on.get(name, ())}):
        job = stakes[job_id].job
        if not stakes[job_id].resizable:
            continue
        if any(worker.node in draining for worker in job.fixed_workers):
            draft.stop(job, StopReason.DRAINED)
            continue
        off = [w for w in draft.staying(job) if w.node in draining]
        if off:
            elsewhere = [w for w in draft.staying(job) if w.node not in draining]
            _move(draft, job, off, elsewhere)


def _move(draft: Draft, job: Job, off: list[Worker], elsewhere: list[Worker]) -> None:
    """Shrink if enough members are elsewhere; else wait for newcomers, add some, make room for them, or stop it."""
    running = job.state is not JobState.STARTING
    settled_elsewhere = [w for w in elsewhere if w.member or not running]
    if len(settled_elsewhere) >= job.min_workers:
        draft.shrink(job, tuple(off), LeaveReason.DRAINED)
        return
    if running and len(elsewhere) >= job.min_workers:
        return
    missing = job.min_workers - len(elsewhere)
    spots = more_spots(draft, job, missing) if job.elastic and running else None
    if spots is None:
        draft.stop(job, StopReason.DRAINED)
        return
    if job.leaving or len(settled_elsewhere) < len(elsewhere) or draft.touched(job):
        return
    room = job.max_workers - len(off) - len(elsewhere)
    if room > 0:
        draft.grow(job, more_spots(draft, job, min(missing, room)) or {})
    else:
        surplus = min(missing, job.max_workers - job.min_workers)
        youngest = sorted(off, key=lambda w: -w.ordinal)[:surplus]
        draft.shrink(job, tuple(youngest), LeaveReason.DRAINED)
