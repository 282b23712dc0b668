"""Preemption: the least that must be taken from other jobs so that a more important one fits.

Takings are tried from the mildest to the harshest, until the job fits: reservations of less important jobs, workers of
elastic jobs above their minimum, whole jobs; each least important first, then in order of least lost work (see
`VictimTable.in_turn`). Then every taking that turns out not to be needed is given back, harshest and latest first.
Nothing is touched unless the job then fits.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import NamedTuple

from scheduler.model.ids import JobId, WorkerId
from scheduler.model.job import Job
from scheduler.model.job_state import StopReason
from scheduler.model.worker import LeaveReason
from scheduler.policy.capacity.request import Request
from scheduler.policy.capacity.resources import NOTHING, Amount, Headroom, add
from scheduler.policy.draft import Draft
from scheduler.policy.preempt.claim import Claim, of_reservation
from scheduler.policy.preempt.quotas import Quotas
from scheduler.policy.preempt.trial import Trial
from scheduler.policy.preempt.victim_batch import FIRST_VICTIMS, ByNode, VictimBatch, growing
from scheduler.policy.preempt.victims import Victims
from scheduler.policy.queues.shares import Counts, Shares
from scheduler.policy.queues.tree import TOP
from scheduler.policy.snapshot.standing import counts_of
from scheduler.policy.snapshot.taking import Taking
from scheduler.policy.snapshot.victim_table import VictimOrder

#: Number of victims of other queues with which a taking is tried before all of them; mostly the first ones are enough.
MORE_VICTIMS = 8 * FIRST_VICTIMS
#: A way to take from victims until the job fits.
Way = Callable[[Trial], None]


class Taker(NamedTuple):
    """The job that takes, and what it has to fit into."""

    draft: Draft
    job: Job
    request: Request
    victims: Victims
    #: What a blocked job leaves to it; None: nothing bounds it.
    headroom: Headroom | None
    #: Where the headroom bounds it, jobs of other queues that would hold slots beyond this moment may pass them on to
    #: it: the blocked job does not count on these. None: nobody may.
    passes_on_at: float | None

    @property
    def promised_at(self) -> float | None:
        """Beyond which moment slots are passed on to it; None: they need not be, or may not."""
        return self.passes_on_at if self.headroom is not None else None

    @property
    def bound(self) -> Headroom | None:
        """The headroom that bounds all that it has in the end."""
        return self.headroom if self.passes_on_at is None else None


def find_takings(taker: Taker) -> list[Taking] | None:
    """The fewest takings of the mildest way that lets the waiting job fit soon; None if no way does."""
    shares, job, lane = taker.draft.shares, taker.job, taker.draft.lane(taker.job)
    if shares is None or lane is TOP:
        return _mildest(taker, chain(_ways_by_importance(taker), _ways_by_equals(taker)), None)
    counts = counts_of(shares.standing, job, job.min_workers)
    ways = chain(_ways_by_share(taker, shares, counts), _ways_by_equals(taker))
    return _mildest(taker, ways, lambda: Quotas(shares, shares.lacking(lane, counts)))


def find_takings_to_grow(taker: Taker) -> list[Taking] | None:
    """The fewest takings from other queues that let the running job have the workers of the request; None: none do."""
    shares, workers = taker.draft.shares, taker.request.workers
    if shares is None:
        return None
    counts = shares.standing.typed(workers.feasible.shape.gpu_type, workers.number * taker.job.shape.slots)
    return _mildest(taker, _ways_by_share(taker, shares, counts, by_importance=False), None)


class Attempt(NamedTuple):
    """One way to take, after reservations of others."""

    reservations: list[Taking]
    way: Way
    victim_order: VictimOrder
    #: Whether what it frees is passed on.
    passed_on: bool = False


def _mildest(taker: Taker, attempts: Iterable[Attempt], quotas: Callable[[], Quotas] | None) -> list[Taking] | None:
    """The takings of the first attempt that is enough, as far as they are needed."""
    for reservations, way, victim_order, passed_on in attempts:
        if not reservations and not len(victim_order.records):
            continue
        lacking = quotas() if quotas is not None else None
        trial = Trial(taker.request, taker.headroom, lacking, passed_on=passed_on)
        for taking in reservations:
            if not trial.enough:
                trial.take([taking])
        way(trial)
        if trial.fits and not trial.enough:
            _give_up(trial, victim_order)
        if trial.enough:
            return _give_back(trial)
    return None


def _by_importance(taker: Taker) -> list[Taking]:
    """Reservations of less important jobs, least important first."""
    return [of_reservation(taker.draft, holder) for holder in taker.draft.dominated_by(taker.job)]


def _ways_by_importance(taker: Taker) -> Iterator[Attempt]:
    """From less important jobs of its queue workers above minimums, then all."""
    _, job, request, victims, headroom, _ = taker
    feasible, count = request.workers
    if not _may_have_of_queue(taker) or victims.reach(job, feasible, headroom) < count:
        return
    held, shrinkable = _by_importance(taker), victims.of(job, shrinkable=True)
    yield Attempt(held, partial(_take_in_turn, victim_order=shrinkable), shrinkable)
    yield Attempt(held, partial(_take_by_node, victim_order=shrinkable), shrinkable)
    everything = victims.of(job)
    yield Attempt(held, partial(_take_whole, victim_order=everything, shrinkable_order=shrinkable), everything)


def _ways_by_equals(taker: Taker) -> Iterator[Attempt]:
    """From equals, too, workers above minimums; then all from less important jobs besides."""
    _, job, request, victims, headroom, _ = taker
    feasible, count = request.workers
    if _may_have_of_queue(taker, with_equals=True) and victims.reach_with_equals(job, feasible, headroom) >= count:
        held, donors = _by_importance(taker), victims.with_equals(job, shrinkable=True)
        yield Attempt(held, partial(_take_in_turn, victim_order=donors), donors)
        yield Attempt(held, partial(_take_by_node, victim_order=donors), donors)
        everything = victims.with_equals(job, shrinkable=False)
        yield Attempt(held, partial(_take_whole, victim_order=everything, shrinkable_order=donors), everything)


def _may_have_of_queue(taker: Taker, *, with_equals: bool = False) -> bool:
    """Whether jobs of its own queue might free enough; all jobs are in one where it is above all queues."""
    draft, job, request, victims, headroom, _ = taker
    if draft.lane(job) is TOP or draft.dominated_by(job):
        return True
    feasible, count = request.workers
    return victims.reach_in_queue(job, feasible, headroom, with_equals=with_equals) >= count


def _ways_by_share(taker: Taker, shares: Shares, counts: Counts, *, by_importance: bool = True) -> Iterator[Attempt]:
    """From queues above what they are entitled to, and by importance from jobs of the same queue.

    Beside a blocked job from one or the other: what is passed on is counted apart.
    """
    draft, job, request, victims, *_ = taker
    promised_at = taker.promised_at
    feasible, count = request.workers
    by_lane, lane = victims.by_lane, draft.lane(job)
    claim = Claim(draft, shares, lane, counts)
    if not claim.depths:  # it is entitled to no more
        yield from _ways_by_importance(taker) if by_importance else ()
        return
    if by_lane is None or victims.reach(job, feasible, taker.bound) < count:
        return
    useful, together = victims.useful(request), by_importance and promised_at is None
    if promised_at is not None:
        useful &= victims.holding_beyond(promised_at)
    if not claim.finds_any(by_lane, useful):
        yield from _ways_by_importance(taker) if by_importance else ()
        return

    def attempt(
        way: Callable[..., None],
        *,
        shrinkable: bool,
        most: int | None = None,
        stops_below: bool = False,
        **more: VictimOrder,
    ) -> Attempt:
        anew = claim.anew(stops_below=stops_below)
        reservations = list(claim.reservations)
        order = anew.victims(by_lane, useful, shrinkable=shrinkable, most=most)
        if together:
            reservations += _by_importance(taker)
            if len(order.records) != most:
                order = order.before(victims.of(job, shrinkable=shrinkable))
        return Attempt(reservations, partial(way, victim_order=order, **more), order, promised_at is not None)

    for most in (FIRST_VICTIMS, MORE_VICTIMS, None):
        first = attempt(_take_in_turn, shrinkable=True, most=most)
        yield first
        if len(first.victim_order.records) != most:  # there are no more
            break
    yield first._replace(way=partial(_take_by_node, victim_order=first.victim_order))
    for stops_below in (False, True) if claim.stops_for_a_guarantee else (False,):
        yield attempt(_take_whole, shrinkable=False, stops_below=stops_below, shrinkable_order=first.victim_order)
    if by_importance and not together:
        yield from _ways_by_importance(taker)


def _give_up(trial: Trial, victim_order: VictimOrder) -> None:
    """Take from jobs of queues at their limits, in order: workers that may leave alone, then whole jobs."""
    gone = {worker.id for taking in trial.takings for worker in taking.workers}
    whose = victim_order.victim_table.victims(victim_order.records.tolist())
    for victim, spare in zip(whose, victim_order.spare.tolist(), strict=True):
        left = spare - sum(taking.victim.id == victim.job.id for taking in trial.takings)
        for taking in victim.takings[: max(left, 0)]:
            if taking.workers[0].id not in gone and trial.gives_up(taking):
                trial.take([taking])
                gone.add(taking.workers[0].id)
    for victim, whole in zip(whose, victim_order.whole.tolist(), strict=True):
        rest = [taking for taking in victim.takings if taking.workers[0].id not in gone]
        if whole and rest and trial.gives_up(taking := Taking.of_all(rest)):
            trial.take([taking])


def _take_in_turn(trial: Trial, victim_order: VictimOrder) -> None:
    """Take job by job, the youngest useful workers first."""
    for batch in growing(victim_order, trial.request):
        takings = batch.spared_until_enough(trial)
        if takings is not None:
            trial.take(takings)
            return


def _take_by_node(trial: Trial, victim_order: VictimOrder) -> None:
    """Take node by node, where fewest must leave: a worker with several slots needs them together."""
    by_node = ByNode(VictimBatch(victim_order, trial.request), trial)
    heap, gone = by_node.expected, set[WorkerId]()
    heapq.heapify(heap)
    while heap and not trial.enough:
        expected, i = heapq.heappop(heap)
        candidates = [taking for taking in by_node.on(i) if taking.workers[0].id not in gone]
        needed = _needed_on(trial, i, candidates, by_node.left)
        if needed and len(needed) <= expected:
            for taking in needed:
                by_node.left[taking.victim.id] -= 1
            trial.take(needed)
            gone.update(taking.workers[0].id for taking in needed)
            candidates = [taking for taking in candidates if taking.workers[0].id not in gone]
            needed = _needed_on(trial, i, candidates, by_node.left)
        if needed:
            heapq.heappush(heap, (len(needed), i))


def _needed_on(trial: Trial, i: int, candidates: list[Taking], left: dict[int, int]) -> list[Taking]:
    """Takings on node `i` until more of the job fits there; none if that is impossible."""
    before = trial.fit(i)
    used: dict[JobId, int] = {}
    together: Amount = NOTHING
    takings: list[Taking] = []
    for taking in candidates:
        victim = taking.victim
        if used.get(victim.id, 0) < left[victim.id]:
            used[victim.id] = used.get(victim.id, 0) + 1
            together = add(together, dict(taking.freed)[i])
            takings.append(taking)
            if trial.fit_with(i, together) > before:
                return takings
    return []


def _take_whole(trial: Trial, victim_order: VictimOrder, shrinkable_order: VictimOrder) -> None:
    """Take all that shrinking gives, and then whole jobs; each part in order of its own costs."""
    batches = growing(victim_order, trial.request, VictimOrder.stopping_first)
    takings = next(filter(None, (batch.all_until_enough(trial) for batch in batches)), [])
    ids = shrinkable_order.victim_table.table["job"][shrinkable_order.records].tolist()
    place = {job_id: k for k, job_id in enumerate(ids)}
    whole = len(place)
    trial.take(sorted(takings, key=lambda taking: whole if taking.whole else place.get(taking.victim.id, whole)))


def _give_back(trial: Trial) -> list[Taking]:
    """The takings that are really needed, in the order in which they were taken."""
    useful = trial.useful()
    helping: list[Taking] = []
    needless: list[Taking] = []
    for taking in trial.takings:
        (helping if any(i in useful for i, _ in taking.freed) else needless).append(taking)
    trial.put(needless, -1)
    if not trial.enough:
        trial.put(needless, 1)
        helping = trial.takings
    kept: list[Taking] = []
    stopped: set[JobId] = set()
    for taking in reversed(helping):
        if taking.victim.id not in stopped:
            if trial.give_back(taking):
                continue
            if taking.whole:
                stopped.add(taking.victim.id)
        kept.append(taking)
    return kept[::-1]


def apply(draft: Draft, job: Job, takings: list[Taking], victims: Victims) -> None:
    """Write the takings into the draft."""
    draft.takers.add(job.id)
    losing: dict[JobId, list[Taking]] = {}
    for taking in takings:
        if taking.workers:
            losing.setdefault(taking.victim.id, []).append(taking)
        else:
            draft.unhold(taking.victim)
            draft.openings += 1
    for mine in losing.values():
        victim = mine[0].victim
        if any(taking.whole for taking in mine):
            borrowed = _leave_reason(draft, job, victim) is LeaveReason.RECLAIMED
            draft.stop(victim, StopReason.RECLAIMED if borrowed else StopReason.PREEMPTED, job.id)
        else:
            leaving = tuple(worker for taking in mine for worker in taking.workers)
            draft.shrink(victim, leaving, _leave_reason(draft, job, victim), job.id)
    victims.refresh(losing)


def _leave_reason(draft: Draft, job: Job, victim: Job) -> LeaveReason:
    """Why workers of the victim leave for the job."""
    if draft.outranks(job, victim):
        return LeaveReason.PREEMPTED
    return LeaveReason.REBALANCED if draft.lane(job).own == draft.lane(victim).own else LeaveReason.RECLAIMED
