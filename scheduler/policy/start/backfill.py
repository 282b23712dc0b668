"""EASY backfill: the first blocked job gets a promise, and jobs that start or grow later must not break it.

The promise is a start time and nodes, computed from the time limits of running jobs. A later job may use anything if
the blocked one could take it back (strictly less important and preemptible) or if it ends before the promise falls
due; otherwise only what the blocked job will not need then. After D. Lifka, "The ANL/IBM SP Scheduling System" (1995).
While no promise date is known, running equals may grow, too: rebalancing takes that back.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.policy.capacity.fixed_fit import request_of
from scheduler.policy.capacity.placement import FeasibleNodes
from scheduler.policy.capacity.pools import Group
from scheduler.policy.capacity.resources import Amount, Headroom, Held, Rows, add, fit_in, fit_in_rows, pour, row
from scheduler.policy.draft import Draft
from scheduler.policy.snapshot.order import end_of
from scheduler.policy.snapshot.usage import RESIZABLE_STATES


@dataclass(frozen=True, slots=True)
class HeadReservation:
    """The first job that could not be placed, when it can be (infinite: unknown), and the headroom that it leaves."""

    job: Job
    promised_at: float
    headroom: Headroom

    def bounds(self, draft: Draft, job: Job) -> Headroom | None:
        """The headroom that limits this job if it starts or grows now; None if nothing does."""
        if job.spec.preemptible and draft.order.more_important(self.job, job):
            return None
        started = job.started_at if job.state in RESIZABLE_STATES else draft.now
        end = end_of(job, started)
        return None if end is not None and end <= self.promised_at else self.headroom

    def bounds_all(self, priority: int, preemptible: bool) -> bool:
        """Whether it bounds every job of this priority that does not end by then."""
        return not preemptible or priority >= self.job.priority

    def gets_back(self, priority: int, preemptible: bool) -> bool:
        """Whether equals may grow: no promise date is known, and rebalancing takes it back."""
        return self.promised_at == math.inf and preemptible and priority == self.job.priority


def promise(draft: Draft, job: Job) -> HeadReservation:
    """The earliest start of a blocked job as far as time limits tell, and the headroom that it leaves to others."""
    return _promise(draft, job) if job.spec.fixed is None else _promise_with_fixed(draft, job)


def _promise(draft: Draft, job: Job) -> HeadReservation:
    """The earliest start of a blocked job as far as time limits tell, and the headroom that it leaves to others."""
    feasible = draft.places.feasible(job.shape)
    room = reclaimable(draft, job)
    enough = _enough_of(feasible, room, job.min_workers)
    if enough:
        # It could take all it needs, only not in this plan: the jobs that hold it are being resized.
        return HeadReservation(job, draft.now, _left_over(draft, job, feasible, room, enough[0]))
    fits = feasible.totals(room)
    freed: dict[int, Amount] = {}
    for when, together in groupby(endings(draft, job), key=lambda ending: ending[0]):
        for _, held in together:
            for i, amount in held:
                if i in feasible.types:
                    before = freed[i] if i in freed else row(room, i)
                    after = freed[i] = add(before, amount)
                    fits[feasible.types[i]] += fit_in(feasible.need, after) - fit_in(feasible.need, before)
        enough = [group for group, fit in fits.items() if fit >= job.min_workers]
        if enough:
            for i, amount in freed.items():
                room[i] = amount
            return HeadReservation(job, max(when, draft.now), _left_over(draft, job, feasible, room, enough[0]))
    return HeadReservation(job, math.inf, draft.ledger.headroom(np.zeros_like(room), feasible.mask, feasible.need))


def _promise_with_fixed(draft: Draft, job: Job) -> HeadReservation:
    """The promise for a job with a fixed group."""
    request = request_of(draft.places, job)
    room = reclaimable(draft, job)
    mask = draft.places.feasible(job.shape).mask | request.suits_fixed
    need = add(request.need, request.need_fixed)
    found = request.find(room)
    if found is not None:
        return HeadReservation(job, draft.now, draft.ledger.headroom(request.rest(room, found), mask, need))
    ends = list(endings(draft, job))

    def after(count: int) -> Rows:
        freed = room.copy()
        pour(freed, (piece for _, held in ends[:count] for piece in held))
        return freed

    few, enough = 0, len(ends) + 1
    while enough - few > 1:
        count = (few + enough) // 2
        few, enough = (few, count) if request.find(after(count)) is not None else (count, enough)
    if enough > len(ends):
        return HeadReservation(job, math.inf, draft.ledger.headroom(np.zeros_like(room), mask, need))
    freed = after(enough)
    found = request.find(freed)
    assert found is not None, "so many ends are enough"
    promised_at = max(ends[enough - 1][0], draft.now)
    return HeadReservation(job, promised_at, draft.ledger.headroom(request.rest(freed, found), mask, need))


def _enough_of(feasible: FeasibleNodes, room: Rows, count: int) -> list[Group]:
    """Groups in which `count` workers fit, by the position at which it is enough."""
    fit = fit_in_rows(feasible.need, room)
    enough_at: dict[Group, int] = {}
    for group, positions in feasible.by_type.items():
        so_far = fit[positions].cumsum()
        if len(so_far) and so_far[-1] >= count:
            enough_at[group] = int(positions[so_far.searchsorted(count)])
    return sorted(enough_at, key=lambda group: enough_at[group])


def _left_over(draft: Draft, job: Job, feasible: FeasibleNodes, room: Rows, group: Group) -> Headroom:
    """The headroom beside the blocked job, which takes the roomiest nodes first, so that it takes few."""
    positions = feasible.by_type[group]
    fit = fit_in_rows(feasible.need, room[positions])
    roomiest = np.argsort(-fit, kind="stable")
    before = fit[roomiest].cumsum() - fit[roomiest]
    workers = np.clip(job.min_workers - before, 0, fit[roomiest])
    room[positions[roomiest]] -= workers[:, None] * np.array(feasible.need)
    return draft.ledger.headroom(room, feasible.mask, feasible.need)


def reclaimable(draft: Draft, job: Job) -> Rows:
    """Capacity that is free soon, and that the job could take from others once it is enough."""
    room = draft.ledger.soon()
    if draft.order.ages:
        for other in map(draft.world.active.__getitem__, draft.victim_table.less_than(job.priority)):
            if draft.order.more_important(job, other):
                pour(room, draft.held(other))
    else:
        room += draft.victim_table.below(job.priority)
    for holder in draft.holders_below(job.priority):
        if draft.order.more_important(job, holder):
            pour(room, draft.held_for(holder))
    return room


def endings(draft: Draft, job: Job) -> Iterator[tuple[float, Held]]:
    """(time, freed amounts) of each time limit, soonest first, of jobs from which this one cannot take anyway."""
    started: list[tuple[float, JobId]] = []
    for job_id in draft.starts:
        end = end_of(draft.world.queued[job_id], draft.now)
        if end is not None:
            started.append((end, job_id))
    standing = draft.usages.endings
    for when, job_id in sorted([*standing, *started]) if started else standing:
        if job_id in draft.starts:
            yield when, tuple(draft.given_to(draft.world.queued[job_id]))
            continue
        usage = draft.usages[job_id]
        if not (usage.takeable and draft.order.more_important(job, usage.job)):
            yield when, draft.held(usage.job)
