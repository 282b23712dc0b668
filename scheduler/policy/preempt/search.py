"""Preemption: the least that must be taken from other jobs so that a more important one fits.

Takings are tried from the mildest to the harshest, until the job fits: reservations of less important jobs, workers of
elastic jobs above their minimum, whole jobs; each least important first, then in order of least cost (see
`estimate.lost_work`). Then every taking that turns out not to be needed is given back, harshest and latest first.
Nothing is touched unless the job then fits.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np

from scheduler.model.ids import JobId, WorkerId
from scheduler.model.job import Job
from scheduler.model.job_state import StopReason
from scheduler.model.worker import LeaveReason
from scheduler.policy.capacity.ledger import View
from scheduler.policy.capacity.placement import FeasibleNodes, Fits
from scheduler.policy.capacity.request import Request
from scheduler.policy.capacity.resources import NOTHING, Amount, Headroom, Rows, add, fit_in, fit_in_rows, least
from scheduler.policy.draft import Draft
from scheduler.policy.preempt.bulk_search import VictimBatch, VictimOrder, growing
from scheduler.policy.preempt.fixed_search import fixed_takings
from scheduler.policy.preempt.reservations import reservations
from scheduler.policy.preempt.victims import Victims
from scheduler.policy.snapshot.taking import Taking
from scheduler.policy.snapshot.victim_table import Ints


class Search:
    """Takings so far, and the number of the job's workers that fit after them; the ledger stays unchanged."""

    def __init__(self, draft: Draft, job: Job, feasible: FeasibleNodes, headroom: Headroom | None) -> None:
        self.draft = draft
        self.feasible = feasible
        self.types = feasible.types
        self.takings: list[Taking] = []
        self.count = job.min_workers
        self.need = feasible.need
        self.fits: Fits = feasible.fits(View.SOON, headroom)
        self._headroom = headroom
        #: Amounts on nodes that lose workers, and the number of the job's workers that they would take.
        self._room: dict[int, Amount] = {}
        self._fit: dict[int, int] = {}
        self._totals = self.fits.totals()
        self.enough = self._is_enough()

    def take(self, taking: Taking) -> None:
        self.takings.append(taking)
        self.put(taking, 1)

    def take_all(self, takings: Iterable[Taking]) -> None:
        for taking in takings:
            self.take(taking)

    def put(self, taking: Taking, sign: int) -> None:
        """Add what the taking frees to what is available, or with sign -1 subtract it."""
        for i, amount in taking.freed:
            if i in self.types:
                room = self._room[i] = add(self.room(i), amount, sign)
                fit, before = self._fit_in(i, room), self.fit(i)
                if fit != before:
                    self._fit[i] = fit
                    self._totals[self.types[i]] = self._totals.get(self.types[i], 0) + fit - before
                    self.enough = self._is_enough()

    def room(self, i: int) -> Amount:
        """The amount on the node after the takings, regardless of bounds on the job."""
        room = self._room.get(i)
        return self.draft.ledger.available(i, View.SOON) if room is None else room

    def fit(self, i: int) -> int:
        """Number of the job's workers that the node would take."""
        fit = self._fit.get(i)
        if fit is None:
            fit = self._fit[i] = self.fits.known(i)
        return fit

    def fit_with(self, i: int, amount: Amount) -> int:
        """Number of the job's workers that the node would take if `amount` were free as well."""
        return self._fit_in(i, add(self.room(i), amount))

    def fits_with(self, positions: Ints, freed: Rows) -> Ints:
        """Number of the job's workers that each node would take if `freed` were free there as well."""
        everywhere = self.draft.ledger.soon()
        if self._room:
            everywhere[list(self._room)] = list(self._room.values())
        room = everywhere.take(positions, 0)
        room += freed
        return fit_in_rows(self.need, room if self._headroom is None else self._headroom.within(room, positions))

    def totals_by_kind(self) -> Ints:
        """Number of workers that fit so far, by kind of node as in `FeasibleNodes.kinds`."""
        return np.array([self._totals.get(group, 0) for group in self.feasible.groups], np.int64)

    def improved(self) -> set[int]:
        """Nodes that take more workers of the job than they did before the takings."""
        return {i for i, fit in self._fit.items() if fit != self.fits.known(i)}

    def _fit_in(self, i: int, room: Amount) -> int:
        bound = self._headroom.bound(i) if self._headroom is not None else None
        return fit_in(self.need, room if bound is None else least(room, bound))

    def _is_enough(self) -> bool:
        return any(total >= self.count for total in self._totals.values())


#: Takes from victims until the job fits.
Step = Callable[[Search], None]


def find_takings(
    draft: Draft, job: Job, request: Request, victims: Victims, headroom: Headroom | None
) -> list[Taking] | None:
    """The fewest takings for the job to fit soon; None if all of them would not be enough."""
    if request.fixed is not None:
        return fixed_takings(draft, job, request, victims, headroom)
    feasible = request.workers.feasible

    def steps() -> Iterator[Step]:
        shrinkable = victims.of(job, shrinkable=True)
        yield partial(_take_in_turn, victim_order=shrinkable)
        yield partial(_take_by_node, victim_order=shrinkable)
        yield partial(_take_whole, victim_order=victims.of(job), shrinkable=shrinkable)

    return _first_enough(draft, job, feasible, headroom, steps())


def share_with(
    draft: Draft, job: Job, request: Request, victims: Victims, headroom: Headroom | None
) -> list[Taking] | None:
    """Takings above minimums, of less important jobs and then of equals, that let the job start; None if too few."""
    if request.fixed is not None:
        return fixed_takings(draft, job, request, victims, headroom)
    feasible = request.workers.feasible
    donors = victims.with_equals(job)
    steps = (partial(_take_in_turn, victim_order=donors), partial(_take_by_node, victim_order=donors))
    return _first_enough(draft, job, feasible, headroom, steps)


def _first_enough(
    draft: Draft, job: Job, feasible: FeasibleNodes, headroom: Headroom | None, steps: Iterable[Step]
) -> list[Taking] | None:
    """The needed takings of the first step that is enough, after reservations; None if no step is."""
    held = reservations(draft, job)
    for step in steps:
        search = Search(draft, job, feasible, headroom)
        for taking in held:
            if not search.enough:
                search.take(taking)
        step(search)
        if search.enough:
            return _give_back(search)
    return None


def apply(draft: Draft, job: Job, takings: list[Taking], victims: Victims) -> None:
    """Write the takings into the draft."""
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
            draft.stop(victim, StopReason.PREEMPTED, job.id)
        else:
            leaving = tuple(worker for taking in mine for worker in taking.workers)
            equals = victim.priority == job.priority
            draft.shrink(victim, leaving, LeaveReason.REBALANCED if equals else LeaveReason.PREEMPTED, job.id)
    victims.refresh(losing)


def _take_in_turn(search: Search, victim_order: VictimOrder) -> None:
    """Take job by job, the youngest useful workers first."""
    for batch in growing(victim_order, search.feasible):
        takings = batch.spared_until_enough(search)
        if takings is not None:
            search.take_all(takings)
            return


def _take_by_node(search: Search, victim_order: VictimOrder) -> None:
    """Take node by node, where fewest must leave: a worker with several slots needs them together."""
    by_node = VictimBatch(victim_order, search.feasible).by_node(search)
    if by_node.hopeless:
        return
    gone: set[WorkerId] = set()
    heap, left = by_node.expected, by_node.left
    heapq.heapify(heap)
    while heap and not search.enough:
        expected, i = heapq.heappop(heap)
        candidates = [taking for taking in by_node.on(i) if taking.workers[0].id not in gone]
        needed = _needed_on(search, i, candidates, left)
        if needed and len(needed) <= expected:
            for taking in needed:
                left[taking.victim.id] -= 1
                search.take(taking)
            gone.update(taking.workers[0].id for taking in needed)
            candidates = [taking for taking in candidates if taking.workers[0].id not in gone]
            needed = _needed_on(search, i, candidates, left)
        if needed:
            heapq.heappush(heap, (len(needed), i))


def _needed_on(search: Search, i: int, candidates: list[Taking], left: dict[int, int]) -> list[Taking]:
    """Takings on node `i` until one more of the job's workers fits there; none if that is impossible."""
    before = search.fit(i)
    used: dict[JobId, int] = {}
    together: Amount = NOTHING
    takings: list[Taking] = []
    for taking in candidates:
        victim = taking.victim
        if used.get(victim.id, 0) < left[victim.id]:
            used[victim.id] = used.get(victim.id, 0) + 1
            together = add(together, dict(taking.freed)[i])
            takings.append(taking)
            if search.fit_with(i, together) > before:
                return takings
    return []


def _take_whole(search: Search, victim_order: VictimOrder, shrinkable: VictimOrder) -> None:
    """Take all that shrinking gives, and then whole jobs; each part in order of its own costs."""
    takings = VictimBatch(victim_order, search.feasible).all_until_enough(search) or []
    ids = shrinkable.victim_table.table["job"][shrinkable.records].tolist()
    place = {job_id: k for k, job_id in enumerate(ids)}
    whole = len(place)
    search.take_all(sorted(takings, key=lambda taking: whole if taking.whole else place[taking.victim.id]))


def _give_back(search: Search) -> list[Taking]:
    """The takings that are really needed, in the order in which they were taken."""
    kept: list[Taking] = []
    stopped: set[JobId] = set()
    improved = search.improved()
    for taking in reversed(search.takings):
        if taking.victim.id in stopped:
            kept.append(taking)
        elif any(i in improved for i, _ in taking.freed):  # elsewhere it makes no difference
            search.put(taking, -1)
            if not search.enough:
                search.put(taking, 1)
                kept.append(taking)
                if taking.whole:
                    stopped.add(taking.victim.id)
    kept.reverse()
    return kept
