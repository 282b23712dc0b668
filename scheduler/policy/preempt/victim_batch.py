"""Victims in preemption order, with all that they could free side by side in arrays.

The number of victims needed for a job to fit is found for all of them at once; only those that matter are then examined
one by one.
"""

from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np

from scheduler.policy.capacity.request import Request, begins_of
from scheduler.policy.capacity.resources import stable_order
from scheduler.policy.preempt.trial import Trial
from scheduler.policy.snapshot.taking import AMOUNT, BEFORE, TOGETHER, WHERE, WORKER, Taking
from scheduler.policy.snapshot.victim_table import Bools, Ints, VictimOrder

#: Number of victims in the first batch, and the factor by which each further batch grows.
FIRST_VICTIMS, _FACTOR = 32, 4


def growing(
    victim_order: VictimOrder,
    request: Request,
    first: Callable[[VictimOrder, int], VictimOrder] = VictimOrder.first,
) -> Iterator["VictimBatch"]:
    """Batches of the first victims, ever larger, up to all of them."""
    size = FIRST_VICTIMS
    yield VictimBatch(first(victim_order, size), request)
    while size < len(victim_order.records):
        size *= _FACTOR
        yield VictimBatch(first(victim_order, size), request)


class VictimBatch:
    """What victims could give, a row per piece: the amount that one taking frees on one feasible node."""

    def __init__(self, victim_order: VictimOrder, request: Request) -> None:
        self._victim_order = victim_order
        table = victim_order.victim_table.table[victim_order.records]
        #: By victim: its job's id, and the number of workers that it may lose without being stopped.
        self.jobs, self.surplus = table["job"], victim_order.spare
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
        suits = request.mask[where]
        if victim_order.most_first is None:
            without_slots = (where < victim_order.own) & (pieces[:, AMOUNT][:, 0] == 0)
            suits &= ~victim_order.equal[owner] | without_slots
        if not suits.all():
            owner, taking, pieces, where = owner[suits], taking[suits], pieces[suits], where[suits]
        #: By piece: its victim, its taking, its node, and the amount that it frees.
        self.owner, self.taking, self.where, self.frees = owner, taking, where, pieces[:, AMOUNT]
        #: By piece: number of earlier takings of its victim that free something there.
        self.before_there = pieces[:, BEFORE]
        #: By taking: whether it is among the first useful ones that the victim gives without going below its minimum.
        self.spared = (self._useful_before() < self.surplus[self._owner]) & ~self.tied

    def takings(self, which: Ints | list[int]) -> list[Taking]:
        """The takings at these indexes."""
        victim_order, owner = self._victim_order, self._owner[which]
        victims = victim_order.victim_table.victims(victim_order.records[owner].tolist())
        pairs = zip(victims, self._worker[which].tolist(), strict=True)
        found = [victim.takings[worker] for victim, worker in pairs]
        if victim_order.most_first is None:
            for k in np.flatnonzero(victim_order.equal[owner]).tolist():
                freed = ((i, amount) for i, amount in found[k].freed if i < victim_order.own and not amount[0])
                found[k] = found[k]._replace(freed=tuple(freed))
        return found

    def spared_until_enough(self, trial: Trial) -> list[Taking] | None:
        """The takings above minimums that matter, in order until the job fits; None if all of them are too little."""
        pick = self.spared[self.taking]
        end, improved = self._until_enough(trial, pick, self.taking[pick])
        if end is None:
            return None
        return self.takings(_distinct(self.taking[pick][:end], improved))

    def all_until_enough(self, trial: Trial) -> list[Taking] | None:
        """Takings above all minimums, then whole victims, until the job fits; None if all of them are too little."""
        spared = self.spared[self.taking]
        order = np.concatenate((np.flatnonzero(spared), np.flatnonzero(~spared & self._victim_order.whole[self.owner])))
        step = np.where(spared, self.taking, len(self._owner) + self.owner)[order]
        end, improved = self._until_enough(trial, order, step)
        if end is None:
            return None
        steps = _distinct(step[:end], improved)
        whole = [k - len(self._owner) for k in steps if k >= len(self._owner)]
        stopped = _among(self.owner[order][:end], np.array(whole, np.int64))
        shrunk = [k for k in _distinct(step[:end], improved | stopped) if k < len(self._owner)]
        return [*self.takings(shrunk), *map(self._rest, whole)]

    def _until_enough(self, trial: Trial, pick: Bools | Ints, step: Ints) -> tuple[int | None, Bools]:
        """Number of picked pieces needed, in whole steps, and which of them are where more workers fit then."""
        where, frees = self.where[pick], self.frees[pick]
        gained = trial.gained(where, frees)
        end = trial.first_enough(where, frees, gained)
        if end is None:
            return None, np.zeros(0, np.bool_)
        end = int(step.searchsorted(step[end], side="right"))
        return end, _among(where[:end], where[:end][gained[:end] > 0])

    def _rest(self, owner: int) -> Taking:
        """The rest of the victim beyond what it gives above its minimum, as one taking."""
        mine = np.arange(self._first[owner], self._end[owner])
        useful = _among(mine, self.taking[self.owner == owner])
        return Taking.of_all(self.takings(mine[~(self.spared[mine] & useful)]))

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

    def __init__(self, batch: VictimBatch, trial: Trial) -> None:
        self._batch = batch
        alone = np.flatnonzero(~batch.tied[batch.taking])
        self._order = alone[stable_order(batch.where[alone])]
        self._where = batch.where[self._order]
        #: (number of takings that let one more worker fit, position), of nodes where that is possible; none if the
        #: takings above minimums can never be enough.
        self.expected: list[tuple[int, int]] = []
        self._on: dict[int, list[Taking]] = {}
        # what each victim could give of a node without going below its minimum
        spared = self._order[(batch.before_there < batch.surplus[batch.owner])[self._order]]
        if len(spared) and trial.within_reach(
            batch.owner[alone], batch.where[alone], batch.frees[alone], batch.surplus
        ):
            where, frees = batch.where[spared], batch.frees[spared]
            gained = trial.gained(where, frees)
            if trial.first_enough(where, frees, gained) is not None:
                self.expected = _first_gains(where, gained)

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


def _first_gains(where: Ints, gained: Ints) -> list[tuple[int, int]]:
    """(number of pieces until the node takes one more worker, position), of pieces by node."""
    first = np.flatnonzero(begins_of(where))
    gains = np.flatnonzero(gained > 0)
    gains = gains[begins_of(where[gains])]
    nodes = where[gains]
    needed = gains - first[where[first].searchsorted(nodes)] + 1
    return list(zip(needed.tolist(), nodes.tolist(), strict=True))


def _among(numbers: Ints, some: Ints) -> Bools:
    """Whether each of the numbers is among `some`."""
    marked = np.zeros(numbers.max(initial=0) + 1, np.bool_)
    marked[some] = True
    return marked[numbers]


def _distinct(steps: Ints, chosen: Bools) -> list[int]:
    """The chosen steps, each once, ascending."""
    return sorted(set(steps[chosen].tolist()))
