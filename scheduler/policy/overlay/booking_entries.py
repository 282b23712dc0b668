"""Who comes to have slots by a plan, and whose workers leave."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from scheduler.config import PolicySettings
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job
from scheduler.model.plan import Grow, Placing, Plan, Release, Reserve, Shrink, Start, StopJob
from scheduler.model.worker import Worker
from scheduler.model.world import World
from scheduler.policy.capacity.pools import owner_of, placed_by
from scheduler.policy.overlay.booking_feasible import workers_of
from scheduler.policy.overlay.booking_moment import kept_workers


class Entry(NamedTuple):
    """A job and where it gets slots."""

    job: Job
    action: Placing
    #: Whether others have to leave first.
    waits: bool

    def gets_at(self, now: float, gone: Mapping[NodeName, float]) -> float:
        """When it has these slots; `gone`: when those who leave nodes are."""
        nodes = (owner_of(name)[0] for name, _, _ in placed_by(self.job, self.action))
        return max((gone.get(name, now) for name in nodes), default=now) if self.waits else now


def entries(world: World, made: Plan, kept_to: Mapping[JobId, int]) -> Iterator[Entry]:
    """What jobs get by this plan, what is held for them once it is done, and what others leave to running ones.

    `kept_to`: the most workers of jobs for which the plan was made with less than their maximum.
    """
    placing = [action for action in made.actions if isinstance(action, Placing)]
    left_to = _left_to_running(world, made)
    grows = {job_id: Grow(job_id, ()) for job_id in left_to}
    grows |= {action.job_id: action for action in placing if isinstance(action, Grow)}
    for job_id, grow in grows.items():
        job = world.active[job_id]
        yield Entry(job, _grown_by(job, grow, left_to.get(job_id, {}), kept_to), job_id in left_to)
    for action in placing:
        if not isinstance(action, Grow) and action.job_id in world.queued:
            yield Entry(world.queued[action.job_id], action, isinstance(action, Reserve))
    settled = {action.job_id for action in made.actions if isinstance(action, Start | Reserve | Release)}
    for job in world.reserved.values():
        if job.id in world.queued and job.id not in settled:
            held = Reserve(job.id, job.reservation, job.reservation_shared, job.fixed_reservation)
            yield Entry(job, held, waits=True)


def gone_at(
    world: World, leaving: Iterable[tuple[Job, Worker]], now: float, settings: PolicySettings
) -> dict[NodeName, float]:
    """When all that leave each node are gone, in unix seconds, at the latest; `leaving`: those asked to leave now."""
    asked = ((w.node, w.stop_deadline or now) for job in world.leaving.values() for w in job.all_leaving)
    at: dict[NodeName, float] = {}
    for name, deadline in (*asked, *((w.node, now + job.spec.stop_seconds) for job, w in leaving)):
        at[name] = max(at.get(name, now), deadline + settings.booking_lead_seconds)
    return at


def leavers(world: World, made: Plan) -> Iterator[tuple[Job, Worker]]:
    """Workers that leave by this plan."""
    for action in made.actions:
        if isinstance(action, Shrink | StopJob):
            job = world.active[action.job_id]
            yield from ((job, worker) for worker in _leaving(job, action))


def _left_to_running(world: World, made: Plan) -> dict[JobId, Counter[NodeName]]:
    """Slots that others leave to running jobs, by node."""
    slots: dict[JobId, Counter[NodeName]] = {}
    for action in made.actions:
        if isinstance(action, Shrink | StopJob) and action.for_job is not None and action.for_job in world.active:
            left = slots.setdefault(action.for_job, Counter())
            for worker in _leaving(world.active[action.job_id], action):
                left[worker.node] += 0 if worker.shared else len(worker.slot_ids)
    return slots


def _grown_by(job: Job, action: Grow, left: Mapping[NodeName, int], kept_to: Mapping[JobId, int]) -> Grow:
    """All that the job grows by: at once, and at most, where others leave these slots to it."""
    most = min(job.max_workers, kept_to.get(job.id, job.max_workers))
    lacks = most - len(job.wanted_workers) - workers_of(action)
    placement = list(action.placement)
    for name, slots in sorted(left.items()):
        workers = max(min(math.ceil(slots / job.shape.slots), lacks), 0)
        placement.append((name, workers))
        lacks -= workers
    return replace(action, placement=tuple(placement))


def _leaving(job: Job, action: Shrink | StopJob) -> Iterator[Worker]:
    """The workers that leave by this action."""
    return (w for w in kept_workers(job) if isinstance(action, StopJob) or w.id in action.workers)
