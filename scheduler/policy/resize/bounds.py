"""Running jobs outside their bounds: above the maximum (a user lowered it), below the minimum (a node was lost)."""

from scheduler.model.job import Job
from scheduler.model.job_state import StopReason
from scheduler.model.worker import LeaveReason, Worker
from scheduler.model.world import World
from scheduler.policy.capacity.ledger import View
from scheduler.policy.capacity.placement import NodeCounts
from scheduler.policy.capacity.pools import group_of
from scheduler.policy.draft import Draft


def shrink_over_maximum(draft: Draft) -> None:
    """Take the surplus off, workers that have to move first, then the youngest."""
    for job_id in sorted(draft.usages.over):
        job = draft.world.active[job_id]
        staying = draft.staying(job)
        surplus = len(staying) - job.max_workers
        if surplus > 0:
            leaving = sorted(staying, key=lambda w: (not _moves(draft.world, w), -w.ordinal))[:surplus]
            draft.shrink(job, tuple(leaving), LeaveReason.SCALED)


def repair_below_minimum(draft: Draft) -> None:
    """Top up jobs from free slots; a job without any stops, so that it queues and may preempt as any other."""
    for job_id in sorted(draft.usages.under | draft.shrinks.keys()):
        job = draft.world.active[job_id]
        if job.id in draft.stops or job.id in draft.grows:
            continue
        staying = draft.staying(job)
        missing = job.min_workers - len(staying)
        if missing <= 0:
            continue
        node_counts = None if _restarts_whole(job) else more_node_counts(draft, job, missing)
        if node_counts is None:
            draft.stop(job, StopReason.BELOW_MINIMUM)
        else:
            draft.grow(job, node_counts)


def more_node_counts(draft: Draft, job: Job, count: int) -> NodeCounts | None:
    """Nodes for `count` further workers of an active job, beside all reservations and within limits; None: none."""
    fits = draft.places.feasible(job.shape).fits(View.OPEN)
    staying = draft.staying(job)
    if staying:
        own = {i for worker in staying if (i := draft.ledger.where(worker)) is not None}
        found = fits.place_more(count, group_of(draft.world, staying[0]), own)
    else:
        found = fits.place(count)
    return found if found is not None and _within_limits(draft, job, found) else None


def _within_limits(draft: Draft, job: Job, node_counts: NodeCounts) -> bool:
    """Whether limits of its queues let the job have these workers at once."""
    shares = draft.shares
    return shares is None or shares.room(draft.lane(job), shares.standing.counts(draft.amounts(job, node_counts)))


def _restarts_whole(job: Job) -> bool:
    """An ordinary command of fixed size cannot take a newcomer into its group; one that is only kept at a size can."""
    rigid = not job.elastic and job.spec.min_workers == job.spec.max_workers
    return rigid and not job.spec.runtime.reports


def _moves(world: World, worker: Worker) -> bool:
    return world.nodes[worker.node].moves_off(worker.slot_ids)
