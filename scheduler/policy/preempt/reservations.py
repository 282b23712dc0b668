"""Reservations that a more important job may take over."""

from scheduler.model.job import Job
from scheduler.policy.draft import Draft
from scheduler.policy.snapshot.taking import Taking


def dominated(draft: Draft, job: Job) -> list[Job]:
    """Waiting jobs whose reservation this one may take over, least important first."""
    holders = [holder for holder in draft.holders_below(job.priority) if draft.order.more_important(job, holder)]
    return draft.order.queue(holders)[::-1]


def reservations(draft: Draft, job: Job) -> list[Taking]:
    """Takings of reservations of less important jobs, least important first."""
    return [Taking(holder, (), False, tuple(draft.held_for(holder))) for holder in dominated(draft, job)]
