"""EASY backfill: the first blocked job gets a promise, and jobs that start or grow later must not break it.

The promise is a start time and nodes, computed from the time limits of running jobs. A later job may use anything if
the blocked one could take it back (strictly less important and preemptible) or if it ends before the promise falls
due; otherwise only what the blocked job will not need then. After D. Lifka, "The ANL/IBM SP Scheduling System" (1995).
While no promise date is known, running equals may grow, too: rebalancing takes that back. Nothing is promised where the
blocked job could not be even if no other job was there.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice
from operator import itemgetter

import numpy as np

from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.policy.capacity.request import Found, Request, gains
from scheduler.policy.capacity.resources import (
    Amount,
    Headroom,
    Held,
    Ints,
    Rows,
    fit_in_rows,
    pour,
    pour_rows,
)
from scheduler.policy.draft import Draft
from scheduler.policy.queues.shares import Shares
from scheduler.policy.queues.tree import TOP, Lane
from scheduler.policy.snapshot.order import end_of
from scheduler.policy.snapshot.standing import counts_of
from scheduler.policy.snapshot.usage import RESIZABLE_STATES

#: Number of moments that are looked at first, to find when a job fits; then twice as many each time.
FIRST_MOMENTS = 32
#: A moment at which time limits end jobs, and the amounts that these free, by position.
FreedAt = tuple[float, list[tuple[int, Amount]]]


@dataclass(frozen=True, slots=True)
class HeadReservation:
    """The first job that could not be placed, when it can be (infinite: unknown), and the headroom that it leaves."""

    job: Job
    promised_at: float
    headroom: Headroom
    lane: Lane
    #: What queues hold as the draft goes on; None: there are no queues.
    shares: Shares | None
    #: Numbers of levels that its queue may share with those from which it may stop jobs, as they have borrowed.
    guaranteed_at: frozenset[int]

    def bounds(self, draft: Draft, job: Job) -> Headroom | None:
        """The headroom that limits this job if it starts or grows now; None if nothing does."""
        if job.id == self.job.id:
            return None
        lane = draft.lane(job)
        gives_back = job.spec.shrinkable if job.state.active else job.spec.preemptible
        if gives_back and (draft.outranks(self.job, job) or self._takes_back(lane)):
            return None
        workers = 1 if job.state.active else job.min_workers
        if self._entitles(lane, workers * job.shape.slots):
            return None
        started = job.started_at if job.state in RESIZABLE_STATES else draft.now
        end = end_of(job, started)
        return None if end is not None and end <= self.promised_at else self.headroom

    def bounds_all(self, lane: Lane, priority: float, preemptible: bool) -> bool:
        """Whether it bounds every job of this lane and priority that does not end by then."""
        if self._entitles(lane, 1):
            return False
        if not preemptible:
            return True
        return priority >= self.job.priority if self.among(lane) else not self._takes_back(lane)

    def gets_back(self, lane: Lane, priority: int, preemptible: bool) -> bool:
        """Whether equals may grow: no promise date is known, and rebalancing takes it back."""
        equal = priority == self.job.priority and lane.own == self.lane.own
        return self.promised_at == math.inf and preemptible and equal

    def passes_on_at(self, lane: Lane) -> float | None:
        """The moment beyond which jobs must hold slots to pass them on to a job of this lane that it bounds.

        What moves inside queues around that job which are not around the blocked one changes nothing between these two.
        None: nothing is passed on, as both are in one queue.
        """
        return None if self.shares is None or self.among(lane) else self.promised_at

    def among(self, lane: Lane) -> bool:
        """Whether importance decides between the blocked job and those of the lane."""
        return self.lane is TOP or lane.own == self.lane.own

    def _entitles(self, lane: Lane, slots: int) -> bool:
        """Whether another queue is entitled to this many slots more, which nobody keeps from it."""
        if self.shares is None or lane is TOP or self.among(lane):
            return False
        return self.shares.within(lane, lane.shared_levels(self.lane), slots)

    def _takes_back(self, lane: Lane) -> bool:
        """Whether the blocked job could stop what the other queue starts now, since that would be borrowed."""
        depth = lane.shared_levels(self.lane)
        if self.shares is None or lane is TOP or self.among(lane) or depth not in self.guaranteed_at:
            return False
        return all(self.shares.beyond(account, 0) >= 0 for account in lane.path[depth:])


def promise(draft: Draft, job: Job, request: Request) -> HeadReservation | None:
    """The earliest start of a blocked job as far as time limits tell, and the headroom that it leaves to others.

    `request`: what it needs, where its queues let it have that. None: it could not start there whatever ends.
    """
    need = request.needs_within(draft.ledger.empty)
    if not need.any():
        return None
    room = reclaimable(draft, job)
    # It could take all it needs, only not in this plan: the jobs that hold it are being resized.
    when, found = draft.now, request.find(room)
    if found is None:
        when, found = _once_freed(draft, job, request, room)
    left = np.zeros_like(room) if found is None else request.rest(found)
    headroom, lane, shares = draft.ledger.headroom(left, need), draft.lane(job), draft.shares
    guaranteed_at = frozenset[int]()
    if shares is not None:
        slots = counts_of(shares.standing, job, job.min_workers)[0]
        guaranteed_at = shares.depths_within(lane, slots, guaranteed=True)
    return HeadReservation(job, when, headroom, lane, shares, guaranteed_at)


def _once_freed(draft: Draft, job: Job, request: Request, room: Rows) -> tuple[float, Found | None]:
    """When time limits will have freed enough for the job, and where it fits then; infinite if they never do."""
    moments = _by_moment(endings(draft, job))
    (when, later), found = _enough_for_workers(request, room, moments), None
    if when < math.inf:
        found = request.find(room)
        if found is None:  # not yet for a fixed group besides
            when, found = _first_enough(request, room, list(later))
    return max(when, draft.now), found


def _by_moment(ends: Iterator[tuple[float, Held]]) -> Iterator[FreedAt]:
    return ((when, [piece for _, held in each for piece in held]) for when, each in groupby(ends, key=itemgetter(0)))


def _enough_for_workers(request: Request, room: Rows, moments: Iterator[FreedAt]) -> tuple[float, Iterable[FreedAt]]:
    """The first of these moments at which the workers fit, and those behind it; the room gets what is freed until then.

    Negative infinity if they fit already, infinity if they never do.
    """
    feasible, count = request.workers
    fit = fit_in_rows(feasible.need, room)
    totals = [int(fit[positions].sum()) for positions in feasible.by_type.values()]
    if max(totals, default=0) >= count:
        return -math.inf, moments
    size = FIRST_MOMENTS
    while batch := list(islice(moments, size)):
        where, amounts, ends = _side_by_side(batch)
        gained = gains(lambda _, rows: fit_in_rows(feasible.need, rows), room, where, amounts)
        reached = len(where)
        for k, total in enumerate(totals):
            grown = total + np.where(feasible.kinds[where] == k, gained, 0).cumsum()
            reached = min(reached, int(grown.searchsorted(count)))
            totals[k] = int(grown[-1]) if len(grown) else total
        first = int(ends.searchsorted(reached, side="right"))
        end = ends[: first + 1].max()
        pour_rows(room, where[:end], amounts[:end])
        if first < len(batch):
            return batch[first][0], chain(batch[first + 1 :], moments)
        size *= 2
    return math.inf, ()


def _first_enough(request: Request, room: Rows, batch: list[FreedAt]) -> tuple[float, Found | None]:
    """The first of these moments at which the job fits, infinite if it never does; and where it fits then."""
    if not batch:
        return math.inf, None
    where, amounts, ends = _side_by_side(batch)

    def after(k: int) -> Rows:
        rows = room.copy()
        pour_rows(rows, where[: ends[k]], amounts[: ends[k]])
        return rows

    if request.find(after(-1)) is None:
        return math.inf, None
    k = bisect_left(range(len(batch)), True, key=lambda k: request.find(after(k)) is not None)
    return batch[k][0], request.find(after(k))


def _side_by_side(batch: Sequence[FreedAt]) -> tuple[Ints, Rows, Ints]:
    """Positions and amounts of all that these moments free, and the number of them up to the end of each moment."""
    pieces = [piece for _, freed in batch for piece in freed]
    where, amounts = zip(*pieces, strict=True) if pieces else ((), ())
    numbers = np.fromiter(chain.from_iterable(amounts), np.int64, 3 * len(pieces))
    return np.array(where, np.int64), numbers.reshape(-1, 3), np.cumsum([len(freed) for _, freed in batch])


def reclaimable(draft: Draft, job: Job) -> Rows:
    """Capacity that is free soon, and that the job could take from others once it is enough."""
    room = draft.ledger.soon()
    if draft.order.ages:
        for other in map(draft.world.active.__getitem__, draft.victim_table.less_than(job.priority)):
            if draft.outranks(job, other):
                pour(room, draft.offered(other))
    else:
        room += held_by_less_important(draft, job)
    for holder in draft.dominated_by(job):
        pour(room, draft.held_for(holder))
    return room


def held_by_less_important(draft: Draft, job: Job) -> Rows:
    """Amounts held by jobs of lower priority that this one may take from for it; those of other queues do not count."""
    lane = draft.lane(job)
    if lane is TOP:
        return draft.victim_table.below(job.priority)
    room = np.zeros((len(draft.ledger.nodes), 3), np.int64)
    for other in draft.active_in(lane.own):
        if other.priority < job.priority and other.id in draft.victim_table:
            pour(room, draft.offered(other))
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
        taken = draft.outranks(job, usage.job) and usage.takeable
        if not taken or not usage.job.spec.preemptible:
            yield when, draft.kept(usage.job) if taken else draft.held(usage.job)
