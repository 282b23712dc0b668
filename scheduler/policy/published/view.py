"""The world as a published policy sees it, so that the ordinary planner decides as that policy would.

Priorities become ranks where equals stop each other; ages become places where equals are not served by age; sizes are
fixed where the policy fixes them; and predicted ends stand as time limits where promises rest on them. What a plan says
about such a world holds for the real one: it has the same jobs, workers and nodes.
"""

from dataclasses import replace

from scheduler import bounds
from scheduler.config import PolicySettings
from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.model.shape import WorkerShape
from scheduler.model.world import Changes, World
from scheduler.policy.estimate.work_left import seconds_left
from scheduler.policy.published.rule import Backfill, Rule
from scheduler.policy.snapshot.usage import RESIZABLE_STATES


def view(world: World, now: float, rule: Rule, settings: PolicySettings) -> World:
    """The world as this rule sees it."""
    jobs = [job for job in world.all_jobs() if job.state is not JobState.SUSPENDED]
    seen = {job.id: job for job in jobs}
    if rule.sizes is None:
        most = _Most(world)
        for job_id, job in seen.items():
            seen[job_id] = _fixed(job, most.of(job.shape))
    else:
        for job_id, job in seen.items():
            seen[job_id] = _keeping(job)
    if rule.key is not None:
        # At the sizes that they get: a job has the same key while it runs and while it waits.
        _order(seen, now, rule, settings)
    if rule.backfill is not Backfill.FIRST_FIT:
        for job_id, job in seen.items():
            seen[job_id] = _ending(job, now, settings)
    changed = tuple(job for job in seen.values() if job is not world.job(job.id))
    return world.evolve(Changes(jobs=changed))


def fixed_size(job: Job, most: int) -> int:
    """The size at which a job starts where sizes are fixed: the preferred one, limited by the cluster."""
    return max(min(job.preferred_workers, most), job.min_workers)


def _fixed(job: Job, most: int) -> Job:
    """A waiting job gets one size; an active one keeps its size, and may have lost workers back."""
    wanted = fixed_size(job, most)
    if job.state is JobState.QUEUED:
        return _bounded(job, wanted, wanted)
    size = _kept_size(job)
    return job if size < job.min_workers else _bounded(job, size, max(size, wanted))


def _keeping(job: Job) -> Job:
    """A running job of which nobody may take anything keeps its size, up to its maximum."""
    size = _kept_size(job)
    if job.state not in RESIZABLE_STATES or job.spec.shrinkable or size < job.min_workers:
        return job
    return _bounded(job, size, job.max_workers)


def _kept_size(job: Job) -> int:
    """The size of an active job once it is back at its maximum, which may have been lowered."""
    return min(len(job.wanted_workers), job.max_workers)


def _bounded(job: Job, low: int, high: int) -> Job:
    if (job.min_workers, job.max_workers) == (low, high):
        return job
    return replace(job, min_workers=low, max_workers=high)


def _ending(job: Job, now: float, settings: PolicySettings) -> Job:
    """The job with its predicted end as time limit; one that has outlived its prediction is about to end."""
    limit, expected = job.spec.time_limit_seconds, job.spec.expected_seconds
    if expected is None:
        return job
    size = len(job.wanted_workers) or job.preferred_workers
    had = now - job.started_at if job.state.active and job.started_at is not None else 0.0
    predicted = had + seconds_left(job, size, now, settings)
    if limit is not None and limit <= predicted:
        return job
    return replace(job, spec=replace(job.spec, time_limit_seconds=bounds.DURATION.nearest(predicted)))


def _order(seen: dict[JobId, Job], now: float, rule: Rule, settings: PolicySettings) -> None:
    """Write the rule's order into ages, and where equals stop each other, into priorities."""
    assert rule.key is not None
    keys = {job.id: (-job.priority, rule.key(job, now, settings), job.submitted_at, job.id) for job in seen.values()}
    in_order = sorted(seen.values(), key=lambda job: keys[job.id])
    # Priorities move so far apart that ranks fit between any two.
    spread, rank, before = len(in_order) + 1, len(in_order), None
    for place, job in enumerate(in_order):
        if before is not None and _parts(before, job):
            rank -= 1
        priority = job.priority * spread + rank if rule.stops_equals else job.priority
        seen[job.id] = replace(job, priority=priority, submitted_at=float(place))
        before = job


def _parts(before: Job, job: Job) -> bool:
    """Whether the two need different ranks: jobs that wait side by side are told apart by their ages."""
    waiting = before.state is JobState.QUEUED and job.state is JobState.QUEUED
    return not waiting or before.priority != job.priority


class _Most:
    """The most workers of a shape that the cluster's nodes of one GPU type would hold."""

    def __init__(self, world: World) -> None:
        self._nodes = list(world.nodes.values())
        self._known: dict[WorkerShape, int] = {}

    def of(self, shape: WorkerShape) -> int:
        if shape not in self._known:
            fits: dict[str | None, int] = {}
            for node in self._nodes:
                fits[node.gpu_type] = fits.get(node.gpu_type, 0) + node.fits_empty(shape)
            self._known[shape] = max(fits.values(), default=0)
        return self._known[shape]
