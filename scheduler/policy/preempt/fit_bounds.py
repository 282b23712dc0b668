"""Upper bounds on the room for a job, quick to compute for any shape."""

from collections.abc import Callable

import numpy as np

from scheduler.policy.capacity.placement import FeasibleNodes
from scheduler.policy.capacity.resources import Rows, fit_in_rows
from scheduler.policy.snapshot.victim_table import Ints

#: Returns the amounts at these positions, a row each.
At = Callable[[Ints | slice], Rows]


class FitBounds:
    """Upper bounds on the amounts of nodes; follows logs of the positions at which these change."""

    def __init__(self, at: At, *logs: list[int]) -> None:
        self._at = at
        self._logs = logs
        self._rows = at(slice(None))
        self._read = [len(log) for log in logs]
        #: Changed positions, one array per update.
        self._changes: list[Ints] = []
        #: By shape: the number of changes applied, the workers that each node would take, and the totals by kind.
        self._fits: dict[FeasibleNodes, tuple[int, Ints, Ints]] = {}

    def most(self, feasible: FeasibleNodes) -> int:
        """The most workers that would fit on nodes of one kind."""
        self._follow()
        if feasible in self._fits:
            seen, fit, totals = self._fits[feasible]
            if seen < len(self._changes):
                changed = np.zeros(len(fit), np.bool_)
                changed[np.concatenate(self._changes[seen:])] = True
                self._update(feasible, fit, totals, np.flatnonzero(changed))
        else:
            fit = fit_in_rows(feasible.need, self._rows)
            totals = np.array([fit[positions].sum() for positions in feasible.by_type.values()], np.int64)
        self._fits[feasible] = (len(self._changes), fit, totals)
        return int(totals.max(initial=0))

    def _update(self, feasible: FeasibleNodes, fit: Ints, totals: Ints, changed: Ints) -> None:
        changed = changed[feasible.mask[changed]]
        now = fit_in_rows(feasible.need, self._rows[changed])
        np.add.at(totals, feasible.kinds[changed], now - fit[changed])
        fit[changed] = now

    def _follow(self) -> None:
        read = [len(log) for log in self._logs]
        if read != self._read:
            news = zip(self._logs, self._read, strict=True)
            positions = np.array(sorted({i for log, seen in news for i in log[seen:]}), np.int64)
            self._rows[positions] = self._at(positions)
            self._changes.append(positions)
            self._read = read
