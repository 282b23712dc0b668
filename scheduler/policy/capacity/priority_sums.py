"""Sums of amounts below a priority, for any priority."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scheduler.policy.capacity.resources import Held, Rows, pour

#: Priorities whose sums are kept.
SUMS_MAX = 64
#: Changes that are remembered between passes.
CHANGES_MAX = 5_000

#: Adds to rows the present amounts of priorities from one up to, but not including, another; with sign -1, subtracts.
PourBetween = Callable[[Rows, float, float, int], None]


@dataclass(slots=True)
class _Sum:
    rows: Rows
    #: Number of changes that the sum includes.
    read: int


class SumsBelow:
    """A sum per position for each priority, made from the nearest known one and updated on demand."""

    def __init__(self, count: int, pour_between: PourBetween) -> None:
        self._count = count
        self._pour_between = pour_between
        self._sums: dict[int, _Sum] = {}
        #: (priority, amounts, sign) of each change.
        self._changes: list[tuple[int, Held, int]] = []
        #: Number of changes that `undo` keeps.
        self._kept = 0

    def note(self, priority: int, held: Held, sign: int) -> None:
        """Record amounts that were added (sign 1) or removed (sign -1)."""
        self._changes.append((priority, held, sign))

    def below(self, priority: int) -> Rows:
        """The sum over lower priorities; valid until the next change, or a call with another priority."""
        known = self._sums.get(priority)
        if known is None:
            known = self._sums[priority] = self._made(priority)
        self._bring_to(len(self._changes), priority, known)
        return known.rows

    def keep(self) -> None:
        """Protect the changes recorded so far from `undo`."""
        self._kept = len(self._changes)
        if self._kept > CHANGES_MAX:
            recent = {k: known for k, known in self._sums.items() if self._kept - known.read < CHANGES_MAX // 10}
            for priority, known in recent.items():
                self._bring_to(self._kept, priority, known)
                known.read = 0
            self._sums = recent
            self._changes.clear()
            self._kept = 0

    def undo(self) -> None:
        """Drop the changes recorded since `keep`."""
        for priority, known in self._sums.items():
            if known.read > self._kept:
                self._bring_to(self._kept, priority, known)
        del self._changes[self._kept :]

    def _bring_to(self, end: int, priority: int, known: _Sum) -> None:
        """Apply or revert changes until the sum includes the first `end`."""
        first, last = sorted((known.read, end))
        forth = 1 if end >= known.read else -1
        for wanted in (1, -1):
            changes = (c for c in self._changes[first:last] if c[0] < priority and c[2] == wanted)
            pour(known.rows, (piece for _, held, _ in changes for piece in held), wanted * forth)
        known.read = end

    def _made(self, priority: int) -> _Sum:
        now = len(self._changes)
        nearest = min(self._sums, key=lambda other: abs(other - priority), default=None)
        if nearest is None:
            rows = np.zeros((self._count, 3), np.int64)
            self._pour_between(rows, -math.inf, priority, 1)
            return _Sum(rows, now)
        known = self._sums[nearest] if len(self._sums) < SUMS_MAX else self._sums.pop(nearest)
        self._bring_to(now, nearest, known)
        rows = known.rows.copy() if nearest in self._sums else known.rows
        if nearest < priority:
            self._pour_between(rows, nearest, priority, 1)
        else:
            self._pour_between(rows, priority, nearest, -1)
        return _Sum(rows, now)
