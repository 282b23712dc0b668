"""Sums of amounts below a priority, for any priority."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from scheduler.policy.capacity.resources import Held, Rows, no_rows, pour

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

    def note(self, priority: int, held: Held, sign: int) -> None:
        """Record amounts that were added (sign 1) or removed (sign -1)."""
        self._changes.append((priority, held, sign))

    def below(self, priority: int) -> Rows:
        """The sum over lower priorities; valid until the next change, or a call with another priority."""
        known = self._sums.get(priority)
        if known is None:
            known = self._sums[priority] = self._made(priority)
        self._update(priority, known)
        return known.rows

    def trim(self) -> None:
        """Forget the changes once there are too many, and the sums that were not read recently."""
        if len(self._changes) > CHANGES_MAX:
            since = len(self._changes) - CHANGES_MAX // 10
            recent = {k: known for k, known in self._sums.items() if known.read > since}
            for priority, known in recent.items():
                self._update(priority, known)
                known.read = 0
            self._sums = recent
            self._changes.clear()

    def _update(self, priority: int, known: _Sum) -> None:
        """Apply the changes that the sum does not include yet."""
        for sign in (1, -1):
            changes = (c for c in self._changes[known.read :] if c[0] < priority and c[2] == sign)
            pour(known.rows, (piece for _, held, _ in changes for piece in held), sign)
        known.read = len(self._changes)

    def _made(self, priority: int) -> _Sum:
        nearest = min(self._sums, key=lambda other: abs(other - priority), default=None)
        if nearest is None:
            rows = no_rows(self._count)
            self._pour_between(rows, -math.inf, priority, 1)
            return _Sum(rows, len(self._changes))
        known = self._sums[nearest] if len(self._sums) < SUMS_MAX else self._sums.pop(nearest)
        self._update(nearest, known)
        rows = known.rows.copy(order="K") if nearest in self._sums else known.rows
        if nearest < priority:
            self._pour_between(rows, nearest, priority, 1)
        else:
            self._pour_between(rows, priority, nearest, -1)
        return _Sum(rows, known.read)
