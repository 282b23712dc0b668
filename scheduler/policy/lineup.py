"""Victims in the order in which they are asked, with all that they could give side by side.

How far down the line one has to go until a job fits is found for all of it at once; only what then matters is looked at
one by one.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Protocol

import numpy as np
import numpy.typing as npt

from scheduler.policy.amounts import Rows
from scheduler.policy.place import Suited
from scheduler.policy.victim import Taking, Victim

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
#: Victims that are looked at first, and how many times as many each time after that.
_FIRST, _FACTOR = 32, 4


class Seeker(Protocol):
    """Knows the job that looks for room, and what was taken for it so far."""

    count: int

    def fits_with(self, positions: Ints, freed: Rows) -> Ints:
        """How many workers of the job each of these nodes would take if so much more were free there."""

    def totals_by_kind(self) -> Ints:
        """How many fit so far, by kind of node."""


def growing(victims: Iterable[Victim], suited: Suited) -> Iterator["Lineup"]:
    """The first of these victims, then ever more of them, up to all."""
    rest, known, size = iter(victims), list[Victim](), _FIRST
    while more := list(islice(rest, size)):
        known += more
        size = len(known) * (_FACTOR - 1)
        yield Lineup(known, suited)


class Lineup:
    """What victims could give, a row per piece: what one of their takings frees on one node that suits the job."""

    def __init__(self, victims: Iterable[Victim], suited: Suited) -> None:
        self.victims = [victim for victim in victims if victim.workers]
        counts = np.array([len(victim.workers) for victim in self.victims], np.int64)
        self._first = counts.cumsum() - counts
        #: By taking: whose it is.
        self._owner = np.arange(len(counts)).repeat(counts)
        parts = [victim.pieces for victim in self.victims]
        pieces = np.concatenate(parts) if parts else np.zeros((0, 6), np.int64)
        owner = np.arange(len(counts)).repeat([len(part) for part in parts])
        kind = suited.kinds[pieces[:, 1]]
        if not (kind >= 0).all():
            pieces, owner, kind = pieces[kind >= 0], owner[kind >= 0], kind[kind >= 0]
        #: By piece: its victim, its taking, its node and that one's kind, what it frees.
        self.owner, self.kind = owner, kind
        self.taking = pieces[:, 0] + self._first[owner]
        self.where, self.frees = pieces[:, 1], pieces[:, 2:5]
        #: By piece: how many takings of the same victim before it free something there.
        self.before_there = pieces[:, 5]
        self.surplus = np.array([victim.surplus for victim in self.victims], np.int64)
        #: By taking: whether it is among the first useful ones that the victim gives without going below its minimum.
        self.spared = self._useful_before() < self.surplus[self._owner]

    def __getitem__(self, k: int) -> Taking:
        owner = int(self._owner[k])
        return self.victims[owner].takings[k - int(self._first[owner])]

    def spared_until_enough(self, search: Seeker) -> list[Taking] | None:
        """What matters of all they can spare, in order until it is enough; None if all of it is too little."""
        pick = self.spared[self.taking]
        end, improved = self._until_enough(search, pick, self.taking[pick])
        if end is None:
            return None
        return [self[k] for k in _distinct(self.taking[pick][:end], improved)]

    def all_until_enough(self, search: Seeker) -> list[Taking] | None:
        """The same if first all is taken that can be spared, and then the rest of the victims, each as a whole."""
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
        return [*(self[k] for k in shrunk), *map(self._rest, whole)]

    def by_node(self, search: Seeker) -> "ByNode":
        return ByNode(self, search)

    def _until_enough(self, search: Seeker, pick: Bools | Ints, step: Ints) -> tuple[int | None, Bools]:
        """How many of the picked pieces it takes, whole steps only, and which of these are where more fit then."""
        where = self.where[pick]
        gained = _gained(search, where, self.frees[pick])
        end = _enough_at(search, self.kind[pick], gained)
        if end is None:
            return None, np.zeros(0, np.bool_)
        end = int(step.searchsorted(step[end], side="right"))
        return end, _among(where[:end], where[:end][gained[:end] > 0])

    def _rest(self, owner: int) -> Taking:
        """What is left of the victim when it has given what it can spare, as one taking."""
        victim, first = self.victims[owner], int(self._first[owner])
        useful = np.zeros(len(victim.workers), np.bool_)
        useful[self.taking[self.owner == owner] - first] = True
        spared = self.spared[first : first + len(useful)] & useful
        rest = [taking for taking, gone in zip(victim.takings, spared.tolist(), strict=True) if not gone]
        workers = tuple(worker for taking in rest for worker in taking.workers)
        return Taking(victim.job, workers, True, tuple(piece for taking in rest for piece in taking.freed))

    def _useful_before(self) -> Ints:
        """By taking: how many of the same victim's takings before it free anything that suits the job."""
        useful = np.zeros(len(self._owner) + 1, np.int64)
        useful[self.taking + 1] = 1
        before: Ints = useful.cumsum()[:-1]
        before -= before[self._first][self._owner]
        return before


class ByNode:
    """The same, node by node."""

    def __init__(self, lineup: Lineup, search: Seeker) -> None:
        self._lineup = lineup
        self._order = _in_order(lineup.where)
        self._where = lineup.where[self._order]
        #: (how many takings let one more worker fit, position), of nodes where that can be.
        self.expected: list[tuple[int, int]] = []
        #: Whether what can be spared is enough on no account.
        self.hopeless = True
        # what each victim could give of a node without going below its minimum
        spared = self._order[(lineup.before_there < lineup.surplus[lineup.owner])[self._order]]
        if len(spared):
            gained = _gained(search, lineup.where[spared], lineup.frees[spared])
            self.hopeless = _enough_at(search, lineup.kind[spared], gained) is None
            self.expected = _first_gains(lineup.where[spared], gained)

    def on(self, i: int) -> list[Taking]:
        """All takings that free something on this node, in the order of their victims."""
        first, last = self._where.searchsorted((i, i + 1)).tolist()
        return [self._lineup[k] for k in self._lineup.taking[self._order[first:last]].tolist()]


def _gained(search: Seeker, where: Ints, frees: Rows) -> Ints:
    """By piece: how many workers more its node takes once it is free, besides those before it."""
    order = _in_order(where)
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
    """The first piece at which it is enough on nodes of one kind; None if there is none."""
    found = []
    for k, total in enumerate(search.totals_by_kind().tolist()):
        reached = total + np.where(kind == k, gained, 0).cumsum() >= search.count
        if len(reached) and reached[-1]:
            found.append(int(reached.argmax()))
    return min(found, default=None)


def _first_gains(where: Ints, gained: Ints) -> list[tuple[int, int]]:
    """(how many pieces until the node takes one more, position) of pieces by node."""
    first = np.flatnonzero(_begins(where))
    gains = np.flatnonzero(gained > 0)
    nodes, at = np.unique(where[gains], return_index=True)
    needed = gains[at] - first[where[first].searchsorted(nodes)] + 1
    return list(zip(needed.tolist(), nodes.tolist(), strict=True))


def _in_order(where: Ints) -> Ints:
    """How to bring pieces into the order of their nodes, those of one node as they are; faster than a stable sort."""
    count = max(len(where), 1)
    order: Ints = np.sort(where * count + np.arange(len(where))) % count
    return order


def _begins(where: Ints) -> Bools:
    """Whether a node's pieces begin here, of pieces by node."""
    begins = np.ones(len(where), np.bool_)
    begins[1:] = where[1:] != where[:-1]
    return begins


def _among(numbers: Ints, some: Ints) -> Bools:
    """Which of these numbers are among some of them."""
    marked = np.zeros(numbers.max(initial=0) + 1, np.bool_)
    marked[some] = True
    return marked[numbers]


def _distinct(steps: Ints, chosen: Bools) -> list[int]:
    """Each of the chosen ones once, ascending."""
    found: list[int] = np.unique(steps[chosen]).tolist()
    return found
