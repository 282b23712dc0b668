"""Victims in preemption order, with all that they could free side by side in arrays.

The number of victims needed for a job to fit is found for all of them at once; only those that matter are then examined
one by one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from scheduler.policy.capacity.placement import FeasibleNodes
from scheduler.policy.capacity.resources import Rows
from scheduler.policy.snapshot.taking import AMOUNT, BEFORE, TOGETHER, WHERE, WORKER, Taking
from scheduler.policy.snapshot.victim_table import Ints, VictimTable, stable_order, surplus

Bools = npt.NDArray[np.bool_]
#: Number of victims in the first batch, and the factor by which each further batch grows.
_FIRST, _FACTOR = 32, 4


class Seeker(Protocol):
    """The job that looks for room, and what was taken for it so far."""

    count: int

    def fits_with(self, positions: Ints, freed: Rows) -> Ints:
        """Number of the job's workers that each of these nodes would take if `freed` were free there as well."""

    def totals_by_kind(self) -> Ints:
        """Number of workers that fit so far, by kind of node."""


@dataclass(frozen=True, slots=True)
class VictimOrder:
    """Jobs that may lose workers to another one, in preemption order."""

    victim_table: VictimTable
    #: Victims, by record.
    records: Ints
    #: By victim: whether it has the priority of the job that takes.
    equal: Bools
    #: Whether equals first give workers that are many (True) or few (False) on their node; None: they leave in their
    #: order, and only what that frees before position `own` counts.
    most_first: bool | None
    own: int

    def first(self, count: int) -> "VictimOrder":
        """The first `count` victims."""
        return replace(self, records=self.records[:count], equal=self.equal[:count])


class Asked(NamedTuple):
    """Takings that one victim could give, in the order in which its workers would leave."""

    #: Number of workers above its minimum.
    surplus: int
    #: Takings of workers that may leave alone, and of its fixed group.
    alone: list[Taking]
    fixed: list[Taking]


def growing(victim_order: VictimOrder, feasible: FeasibleNodes) -> Iterator["VictimBatch"]:
    """Batches of the first victims, ever larger, up to all of them."""
    size = _FIRST
    yield VictimBatch(victim_order.first(size), feasible)
    while size < len(victim_order.records):
        size *= _FACTOR
        yield VictimBatch(victim_order.first(size), feasible)


class VictimBatch:
    """What victims could give, a row per piece: the amount that one taking frees on one feasible node."""

    def __init__(self, victim_order: VictimOrder, feasible: FeasibleNodes) -> None:
        self._victim_order = victim_order
        table = victim_order.victim_table.table[victim_order.records]
        #: By victim: its job's id, and the number of its workers above the minimum.
        self.jobs, self.surplus = table["job"], surplus(table)
        counts = table["workers"] + table["fixed"]
        self._end = counts.cumsum()
        self._first = self._end - counts
        #: By taking: its victim, and which of the victim's workers.
        self._owner = np.arange(len(counts)).repeat(counts)
        self._worker = np.arange(len(self._owner)) - self._first[self._owner]
        #: By taking: whether it leaves with the whole job only.
        self.tied = self._worker >= table["workers"][self._owner]
        owner, pieces = victim_order.victim_table.pieces_of(table)
        taking = pieces[:, WORKER] + self._first[owner]
        if victim_order.most_first is not None and victim_order.equal.any():
            taking, order = self._by_company(taking, pieces[:, TOGETHER])
            owner, pieces = owner[order], pieces[order]
        where = pieces[:, WHERE]
        suits = feasible.kinds[where] >= 0
        if victim_order.most_first is None:
            suits &= ~victim_order.equal[owner] | (where < victim_order.own)
        if not suits.all():
            owner, taking, pieces, where = owner[suits], taking[suits], pieces[suits], where[suits]
        #: By piece: its victim, its taking, its node and the node's kind, and the amount that it frees.
        self.owner, self.taking, self.where, self.kind = owner, taking, where, feasible.kinds[where]
        self.frees = pieces[:, AMOUNT]
        #: By piece: number of earlier takings of its victim that free something there.
        self.before_there = pieces[:, BEFORE]
        #: By taking: whether it is among the first useful ones that the victim gives without going below its minimum.
        self.spared = (self._useful_before() < self.surplus[self._owner]) & ~self.tied

    def takings(self, which: Ints | list[int]) -> list[Taking]:
        """The takings at these indexes."""
        victim_order, owner = self._victim_order, self._owner[which]
        whose, workers = victim_order.records[owner].tolist(), self._worker[which].tolist()
        found = [victim_order.victim_table.victim(k).takings[worker] for k, worker in zip(whose, workers, strict=True)]
        if victim_order.most_first is None:
            for k in np.flatnonzero(victim_order.equal[owner]).tolist():
                found[k] = found[k]._replace(
                    freed=tuple(piece for piece in found[k].freed if piece[0] < victim_order.own)
                )
        return found

    def one_by_one(self) -> Iterator[Asked]:
        """The takings of each victim."""
        for first, end, above in zip(self._first.tolist(), self._end.tolist(), self.surplus.tolist(), strict=True):
            alone = first + np.flatnonzero(~self.tied[first:end])
            yield Asked(above, self.takings(alone), self.takings(np.arange(first + len(alone), end)))

    def spared_until_enough(self, search: Seeker) -> list[Taking] | None:
        """The takings above minimums that matter, in order until the job fits; None if all of them are too little."""
        pick = self.spared[self.taking]
        end, improved = self._until_enough(search, pick, self.taking[pick])
        if end is None:
            return None
        return self.takings(_distinct(self.taking[pick][:end], improved))

    def all_until_enough(self, search: Seeker) -> list[Taking] | None:
        """Takings above all minimums, then whole victims, until the job fits; None if all of them are too little."""
        spared = self.spared[self.taking]
        order = np.concatenate((np.flatnonzero(spared), np.flatnonzero(~spared)))
        step = np.where(spared, self.taking, len(self._owner) + self.owner)[order]
        end, improved = self._until_enough(search, order, step)
        if end is None:
            return None
        steps = _distinct(step[:end], improved)
        whole = [k - len(self._owner) for k in steps if k >= len(self._owner)]
        stopped = _among(self.owner[order][:end], np.array(whole, np.int64))
        shrunk = [k for k in _distinct(step[:end], improved | stopped) if k < len(self._owner)]
        return [*self.takings(shrunk), *map(self._rest, whole)]

    def by_node(self, search: Seeker) -> "ByNode":
        return ByNode(self, search)

    def _until_enough(self, search: Seeker, pick: Bools | Ints, step: Ints) -> tuple[int | None, Bools]:
        """Number of picked pieces needed, in whole steps, and which of them are where more workers fit then."""
        where = self.where[pick]
        gained = _gained(search, where, self.frees[pick])
        end = _enough_at(search, self.kind[pick], gained)
        if end is None:
            return None, np.zeros(0, np.bool_)
        end = int(step.searchsorted(step[end], side="right"))
        return end, _among(where[:end], where[:end][gained[:end] > 0])

    def _rest(self, owner: int) -> Taking:
        """The rest of the victim beyond what it gives above its minimum, as one taking."""
        mine = np.arange(self._first[owner], self._end[owner])
        useful = _among(mine, self.taking[self.owner == owner])
        rest = self.takings(mine[~(self.spared[mine] & useful)])
        workers = tuple(worker for taking in rest for worker in taking.workers)
        return Taking(rest[0].victim, workers, True, tuple(piece for taking in rest for piece in taking.freed))

    def _by_company(self, taking: Ints, together: Ints) -> tuple[Ints, Ints]:
        """Order takings of equals by the number of their workers on the node.

        Returns the new taking of each piece, and the permutation of pieces. Workers on one node keep their order.
        """
        company = np.zeros(len(self._owner), np.int64)
        company[taking] = together
        most = company.max(initial=0)
        if self._victim_order.most_first:
            company = most - company
        company[~self._victim_order.equal[self._owner]] = 0
        company[self.tied] = most + 1
        order = stable_order(self._owner * (most + 2) + company)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        self._worker = self._worker[order]
        order = stable_order(place[taking])
        return place[taking][order], order

    def _useful_before(self) -> Ints:
        """By taking: number of earlier takings of its victim that free something on a feasible node."""
        useful = np.zeros(len(self._owner) + 1, np.int64)
        useful[self.taking + 1] = 1
        before: Ints = useful.cumsum()[:-1]
        before -= before[self._first][self._owner]
        return before


class ByNode:
    """What the victims of a batch could give, node by node."""

    def __init__(self, batch: VictimBatch, search: Seeker) -> None:
        self._batch = batch
        alone = np.flatnonzero(~batch.tied[batch.taking])
        self._order = alone[stable_order(batch.where[alone])]
        self._where = batch.where[self._order]
        #: (number of takings that let one more worker fit, position), of nodes where that is possible.
        self.expected: list[tuple[int, int]] = []
        self._on: dict[int, list[Taking]] = {}
        #: Whether the takings above minimums can never be enough.
        self.hopeless = True
        # what each victim could give of a node without going below its minimum
        spared = self._order[(batch.before_there < batch.surplus[batch.owner])[self._order]]
        if len(spared):
            gained = _gained(search, batch.where[spared], batch.frees[spared])
            self.hopeless = _enough_at(search, batch.kind[spared], gained) is None
            self.expected = _first_gains(batch.where[spared], gained)

    @cached_property
    def left(self) -> dict[int, int]:
        """Number of workers that each victim may give, by job."""
        return dict(zip(self._batch.jobs.tolist(), self._batch.surplus.tolist(), strict=True))

    def on(self, i: int) -> list[Taking]:
        """All takings that free something on this node, in the order of their victims."""
        takings = self._on.get(i)
        if takings is None:
            first, last = self._where.searchsorted((i, i + 1)).tolist()
            takings = self._on[i] = self._batch.takings(self._batch.taking[self._order[first:last]])
        return takings


def _gained(search: Seeker, where: Ints, frees: Rows) -> Ints:
    """By piece: number of further workers that its node takes once it is free, after the pieces before it."""
    order = stable_order(where)
    where, frees = where[order], frees[order]
    begins = _begins(where)
    first = np.flatnonzero(begins)
    freed = frees.cumsum(axis=0)
    freed -= (freed - frees)[first][begins.cumsum() - 1]
    fit = search.fits_with(where, freed)
    before = np.roll(fit, 1)
    before[first] = search.fits_with(where[first], np.zeros((len(first), 3), np.int64))
    gained = np.empty_like(fit)
    gained[order] = fit - before
    return gained


def _enough_at(search: Seeker, kind: Ints, gained: Ints) -> int | None:
    """The first piece with which the job fits on nodes of one kind; None if there is none."""
    found = []
    for k, total in enumerate(search.totals_by_kind().tolist()):
        reached = total + np.where(kind == k, gained, 0).cumsum() >= search.count
        if len(reached) and reached[-1]:
            found.append(int(reached.argmax()))
    return min(found, default=None)


def _first_gains(where: Ints, gained: Ints) -> list[tuple[int, int]]:
    """(number of pieces until the node takes one more worker, position), of pieces by node."""
    first = np.flatnonzero(_begins(where))
    gains = np.flatnonzero(gained > 0)
    gains = gains[_begins(where[gains])]
    nodes = where[gains]
    needed = gains - first[where[first].searchsorted(nodes)] + 1
    return list(zip(needed.tolist(), nodes.tolist(), strict=True))


def _begins(where: Ints) -> Bools:
    """Whether each piece is the first of its node, of pieces by node."""
    begins = np.ones(len(where), np.bool_)
    begins[1:] = where[1:] != where[:-1]
    return begins


def _among(numbers: Ints, some: Ints) -> Bools:
    """Whether each of the numbers is among `some`."""
    marked = np.zeros(numbers.max(initial=0) + 1, np.bool_)
    marked[some] = True
    return marked[numbers]


def _distinct(steps: Ints, chosen: Bools) -> list[int]:
    """The chosen steps, each once, ascending."""
    return sorted(set(steps[chosen].tolist()))
