"""Sums over all that has a lower priority, for whatever priority is asked for."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scheduler.policy.capacity.resources import Held, Rows, pour

#: Priorities whose sums are kept.
SUMS_MAX = 64
#: Changes that are remembered between passes.
CHANGES_MAX = 5_000

#: Adds to rows all that has a priority from one to below another now, or with sign -1 takes it off.
PourBetween = Callable[[Rows, float, float, int], None]


@dataclass(slots=True)
class _Sum:
    rows: Rows
    #: How many changes are in it.
    read: int


class SumsBelow:
    """A row per position for each priority, made from the nearest one known, and brought up to date when asked for."""

    def __init__(self, count: int, pour_between: PourBetween) -> None:
        self._count = count
        self._pour_between = pour_between
        self._sums: dict[int, _Sum] = {}
        #: (priority, amounts, sign) of what came or went.
        self._changes: list[tuple[int, Held, int]] = []
        #: How many of them stay when the others are undone.
        self._kept = 0

    def note(self, priority: int, held: Held, sign: int) -> None:
        """This came (1) or went (-1)."""
        self._changes.append((priority, held, sign))

    def below(self, priority: int) -> Rows:
        """The sum over lower priorities; good until the next change, or until another priority is asked for."""
        known = self._sums.get(priority)
        if known is None:
            known = self._sums[priority] = self._made(priority)
        self._bring_to(len(self._changes), priority, known)
        return known.rows

    def keep(self) -> None:
        """What was noted so far is not to be undone."""
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
        """As if nothing had been noted since `keep`."""
        for priority, known in self._sums.items():
            if known.read > self._kept:
                self._bring_to(self._kept, priority, known)
        del self._changes[self._kept :]

    def _bring_to(self, end: int, priority: int, known: _Sum) -> None:
        """Put those changes in or out that lie between."""
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
