"""Takings on trial: what is free after them, and whether the job that takes fits then. The ledger stays unchanged."""

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from scheduler.policy.capacity.ledger import View
from scheduler.policy.capacity.pools import Group
from scheduler.policy.capacity.request import Request, gains
from scheduler.policy.capacity.resources import Amount, Headroom, Rows, add, fit_in, least, pour_rows, together
from scheduler.policy.preempt.quotas import Quotas
from scheduler.policy.snapshot.taking import Taking
from scheduler.policy.snapshot.victim_table import Ints


class Trial:
    """Takings so far. The *fit* of a node is the number that `Request.fit` gives for it."""

    def __init__(
        self,
        request: Request,
        headroom: Headroom | None,
        quotas: "Quotas | None" = None,
        *,
        passed_on: bool = False,
    ) -> None:
        """`quotas`: what has to be given up besides, as queues are at their limits.

        `passed_on`: the headroom bounds what is free before the takings, and all that these free is for the job.
        """
        if headroom is not None and passed_on:
            headroom = headroom.without_loans()
        self.request = request
        self.quotas = quotas
        self.takings: list[Taking] = []
        self._ledger = request.ledger
        self._headroom_before = headroom if passed_on else None
        self._headroom = None if passed_on else headroom
        feasible, self._count = request.workers
        self._need, self._groups = feasible.need, feasible.groups
        self._types = request.types
        self._fits = feasible.fits(View.SOON, headroom)
        #: Amounts on nodes that lose workers, the fit of nodes, and the sum of it by group.
        self._room: dict[int, Amount] = {}
        self._fit: dict[int, int] = {}
        self._totals = self._fits.totals()

    @property
    def enough(self) -> bool:
        """Whether the job fits, in its nodes and in the limits of its queues."""
        return (self.quotas is None or not self.quotas.lacking) and self.fits

    @property
    def fits(self) -> bool:
        """Whether the job fits on its nodes."""
        if self.request.fixed is None:
            return any(total >= self._count for total in self._totals.values())
        return self.request.find(self._bounded(self._rows())) is not None

    def gives_up(self, taking: Taking) -> bool:
        """Whether the taking gives up something that queues at their limits lack."""
        return self.quotas is not None and self.quotas.helps(taking)

    def take(self, takings: list[Taking]) -> None:
        self.takings += takings
        self.put(takings, 1)

    def put(self, takings: Sequence[Taking], sign: int) -> None:
        """Add what these free to what is available, or with sign -1 subtract it."""
        if self.quotas is not None:
            for taking in takings:
                self.quotas.put(taking, sign)
        for i, amount in together(taking.freed for taking in takings):
            if i in self._types:
                room = self._room[i] = add(self._room_of(i), amount, sign)
                fit, before = self._fit_in(i, room), self.fit(i)
                if fit != before:
                    self._fit[i] = fit
                    self._totals[self._types[i]] = self._totals.get(self._types[i], 0) + fit - before

    def give_back(self, taking: Taking) -> bool:
        """Whether the job fits without this taking, too; it is given back then."""
        if not self._fits_without(taking):
            return False
        self.put([taking], -1)
        if not self.enough:
            self.put([taking], 1)
            return False
        return True

    def _fits_without(self, taking: Taking) -> bool:
        """Whether the workers would still fit on their nodes; a fixed group does not count."""
        if self.request.fixed is not None:
            return True
        lost: dict[Group, int] = {}
        for i, amount in taking.freed:
            group = self._types.get(i)
            if group is not None:
                less = self.fit(i) - self._fit_in(i, add(self._room_of(i), amount, -1))
                if less:
                    lost[group] = lost.get(group, 0) + less
        return any(total - lost.get(group, 0) >= self._count for group, total in self._totals.items())

    def fit(self, i: int) -> int:
        """The fit of node `i`."""
        fit = self._fit.get(i)
        if fit is None:
            fit = self._fit[i] = self._fit_before(i)
        return fit

    def fit_with(self, i: int, amount: Amount) -> int:
        """The fit of node `i` if `amount` were free there as well."""
        return self._fit_in(i, add(self._room_of(i), amount))

    def useful(self) -> set[int]:
        """Nodes on which the takings make a difference."""
        if self.request.fixed is None:
            return {i for i, fit in self._fit.items() if fit != self._fits.known(i)}
        room = self._bounded(self._rows())
        found = self.request.find(room)
        assert found is not None, "the takings are enough"
        return set(np.flatnonzero((self.request.rest(found) != room).any(axis=1)).tolist())

    def gained(self, where: Ints, frees: Rows) -> Ints:
        """By piece: how much the fit of its node grows once it is free, after the pieces before it."""
        return gains(self._fit_in_rows, self._rows(), where, frees)

    def first_enough(self, where: Ints, frees: Rows, gained: Ints) -> int | None:
        """The first piece after which the job fits; None if it does not fit after all of them."""
        if self.request.fixed is not None:
            return self._first_that_fits(where, frees)
        found, kinds = [], self.request.workers.feasible.kinds[where]
        for k, group in enumerate(self._groups):
            reached = self._totals.get(group, 0) + np.where(kinds == k, gained, 0).cumsum() >= self._count
            if len(reached) and reached[-1]:
                found.append(int(reached.argmax()))
        return min(found, default=None)

    def within_reach(self, owner: Ints, where: Ints, frees: Rows, spare: Ints) -> bool:
        """Whether the job might fit if each owner of pieces frees no more than `spare` of them, whichever these are."""
        if self.request.fixed is not None:
            return True
        # wherever a piece comes free, no more workers fit besides than it would hold, rounded up
        needed = [k for k, need in enumerate(self._need) if need]
        holds = -(-frees[:, needed] // np.array(self._need)[needed])
        gains = holds.max(axis=1, initial=0)
        kinds = self.request.workers.feasible.kinds[where]
        for k, group in enumerate(self._groups):
            most = np.zeros(len(spare), np.int64)
            np.maximum.at(most, owner[kinds == k], gains[kinds == k])
            if self._totals.get(group, 0) + int(most @ spare) >= self._count:
                return True
        return False

    def _first_that_fits(self, where: Ints, frees: Rows) -> int | None:
        rows, last = self._rows(), len(where) - 1

        def fits(k: int) -> bool:
            room = rows.copy(order="K")
            pour_rows(room, where[: k + 1], frees[: k + 1])
            return self.request.find(self._bounded(room)) is not None

        return bisect_left(range(last), True, key=fits) if last >= 0 and fits(last) else None

    def _rows(self) -> Rows:
        """What is free after the takings, a row per position, regardless of bounds on the job."""
        rows = self._ledger.soon()
        if self._headroom_before is not None:
            rows = self._headroom_before.within(rows)
        if self._room:
            rows[list(self._room)] = list(self._room.values())
        return rows

    def _bounded(self, rows: Rows) -> Rows:
        return rows if self._headroom is None else self._headroom.within(rows)

    def _room_of(self, i: int) -> Amount:
        room = self._room.get(i)
        return self._free_on(i) if room is None else room

    def _free_on(self, i: int) -> Amount:
        room, before = self._ledger.available(i, View.SOON), self._headroom_before
        bound = before.bound(i) if before is not None else None
        return room if bound is None else least(room, bound)

    def _fit_before(self, i: int) -> int:
        if self.request.fixed is None:
            return self._fits.known(i)
        return self._fit_in(i, self._free_on(i))

    def _fit_in(self, i: int, room: Amount) -> int:
        bound = self._headroom.bound(i) if self._headroom is not None else None
        room = room if bound is None else least(room, bound)
        if self.request.fixed is None:
            return fit_in(self._need, room)
        return int(self.request.fit(np.array([i]), np.array([room]))[0])

    def _fit_in_rows(self, positions: Ints, rows: Rows) -> Ints:
        return self.request.fit(positions, rows if self._headroom is None else self._headroom.within(rows, positions))
