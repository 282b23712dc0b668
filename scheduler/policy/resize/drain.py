"""Moving workers off draining nodes and unhealthy slots: replacements first where possible, one step per plan."""

from scheduler.model.job import Job
from scheduler.model.job_state import JobState, StopReason
from scheduler.model.worker import LeaveReason, Worker
from scheduler.policy.draft import Draft
from scheduler.policy.resize.bounds import more_node_counts


def drain(draft: Draft) -> None:
    """One step for every job that has workers on draining nodes or unhealthy slots."""
    draining = draft.snapshot.draining
    usages, nodes = draft.usages, draft.world.nodes
    for job_id in sorted({job_id for name in draining for job_id in usages.on.get(name, ())}):
        job = usages[job_id].job
        if not usages[job_id].resizable:
            continue
        if any(w.node in draining and nodes[w.node].moves_off(w.slot_ids) for w in job.fixed_workers):
            draft.stop(job, StopReason.DRAINED)
            continue
        off: list[Worker] = []
        elsewhere: list[Worker] = []
        for worker in draft.staying(job):
            moves = worker.node in draining and nodes[worker.node].moves_off(worker.slot_ids)
            (off if moves else elsewhere).append(worker)
        if off:
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
    node_counts = more_node_counts(draft, job, missing) if job.elastic and running else None
    if node_counts is None:
        draft.stop(job, StopReason.DRAINED)
        return
    if job.leaving or len(settled_elsewhere) < len(elsewhere) or draft.touched(job):
        return
    room = job.max_workers - len(off) - len(elsewhere)
    if room > 0:
        draft.grow(job, more_node_counts(draft, job, min(missing, room)) or {})
    else:
        surplus = min(missing, job.max_workers - job.min_workers)
        youngest = sorted(off, key=lambda w: -w.ordinal)[:surplus]
        draft.shrink(job, tuple(youngest), LeaveReason.DRAINED)
