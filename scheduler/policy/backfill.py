"""EASY backfill: the first blocked job gets a promise, and whoever starts or grows later must not break it.

The promise is a start time and nodes, computed from the time limits of running jobs. A later job may use anything if
the blocked one could take it back (strictly less important and preemptible) or if it ends before the promise falls
due; otherwise only what the blocked job will not need then. After D. Lifka, "The ANL/IBM SP Scheduling System" (1995).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from scheduler.model.job import Job
from scheduler.model.node import workers_that_fit
from scheduler.policy.draft import RESIZABLE_STATES, Draft
from scheduler.policy.ledger import NOTHING, Amount, Spare, View, add, amount_of, needs
from scheduler.policy.place import Suited
from scheduler.policy.victims import may_take_from


@dataclass(frozen=True, slots=True)
class Blocked:
    """The first job that could not be placed, when it can be (infinite: unknown), and what it leaves to others."""

    job: Job
    shadow: float
    spare: Spare

    def bounds(self, draft: Draft, job: Job) -> Spare | None:
        """What limits this job if it starts or grows now; None if nothing does."""
        if job.spec.preemptible and draft.order.more_important(self.job, job):
            return None
        started = job.started_at if job.state in RESIZABLE_STATES else draft.now
        end = end_of(job, started)
        return None if end is not None and end <= self.shadow else self.spare


def end_of(job: Job, started_at: float | None) -> float | None:
    """When its time limit ends the attempt; None if it has none."""
    if job.spec.time_limit_seconds is None or started_at is None:
        return None
    return started_at + job.spec.time_limit_seconds


def promise(draft: Draft, job: Job) -> Blocked:
    """The earliest start of a blocked job as far as time limits tell, and what others may use without delaying it."""
    suited = draft.places.suited(job.shape)
    room = {i: draft.ledger.available(i, View.SOON) for i in suited.types}
    for i, amount in _reclaimable(draft, job):
        if i in room:
            room[i] = add(room[i], amount)
    fits: dict[str | None, int] = {}
    for i, amount in room.items():
        fits[suited.types[i]] = fits.get(suited.types[i], 0) + workers_that_fit(job.shape, *amount)
        if fits[suited.types[i]] >= job.min_workers:
            # It could take all it needs, only not in this plan: those who hold it are being resized.
            return Blocked(job, draft.now, _left_over(job, suited, room, suited.types[i]))
    endings = sorted(ending for ending in _endings(draft, job) if ending[1] in room)
    for when, together in groupby(endings, key=lambda ending: ending[0]):
        for _, i, amount in together:
            before = workers_that_fit(job.shape, *room[i])
            room[i] = add(room[i], amount)
            fits[suited.types[i]] += workers_that_fit(job.shape, *room[i]) - before
        for gpu_type, fit in fits.items():
            if fit >= job.min_workers:
                return Blocked(job, max(when, draft.now), _left_over(job, suited, room, gpu_type))
    return Blocked(job, math.inf, Spare(dict.fromkeys(suited.types, NOTHING)))


def _left_over(job: Job, suited: Suited, room: dict[int, Amount], gpu_type: str | None) -> Spare:
    """The room without what the blocked job takes of it: roomiest nodes first, so that it takes few."""
    spare = Spare(dict(room))
    count = job.min_workers
    fit = {i: workers_that_fit(job.shape, *room[i]) for i in room if suited.types[i] == gpu_type}
    for i in sorted(fit, key=lambda i: (-fit[i], i)):
        workers = min(count, fit[i])
        spare.take(i, job.shape, workers)
        count -= workers
    return spare


def _reclaimable(draft: Draft, job: Job) -> Iterator[tuple[int, Amount]]:
    """What the job could take from others once it is enough."""
    for other in draft.world.active.values():
        if may_take_from(draft, job, other):
            yield from _held_by(draft, other)
    for holder, placement in draft.holding.items():
        other = draft.world.queued[holder]
        if draft.order.more_important(job, other):
            yield from draft.places.amounts(placement, other.shape)


def _endings(draft: Draft, job: Job) -> Iterator[tuple[float, int, Amount]]:
    """(time, node, amount) of what time limits free and the job cannot take anyway."""
    for other in draft.world.active.values():
        end = end_of(other, other.started_at)
        if end is not None and not may_take_from(draft, job, other):
            for i, amount in _held_by(draft, other):
                yield end, i, amount
    for job_id, spots in draft.starts.items():
        other = draft.world.queued[job_id]
        end = end_of(other, draft.now)
        if end is not None:
            for i, count in spots.items():
                yield end, i, needs(other.shape, count)


def _held_by(draft: Draft, job: Job) -> Iterator[tuple[int, Amount]]:
    """What workers that stay hold; those who leave are counted as coming."""
    if job.state not in RESIZABLE_STATES:
        return
    for worker in draft.staying(job):
        i = draft.ledger.position.get(worker.node)
        if i is not None:
            yield i, amount_of(worker, draft.ledger.nodes[i])
