"""What a column may hold, checked row by row before a value is made of it.

SQLite stores any type in any column, PostgreSQL any double, and both what somebody wrote by hand. A row of the right
types is checked in a few steps over groups of its columns; only one that fails is looked at column by column.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from sqlalchemy import Boolean, Column, ColumnElement, Double, Integer, Table, Text, type_coerce

from scheduler import bounds

#: Longer texts are no job's: a request is smaller.
TEXT_LENGTH_MAX = 64 * 2**20
#: Most of a text that people read.
LINE_LENGTH_MAX = 64 * 1024
_SHOWN_MAX = 60

Range = tuple[float, float]
_MOMENT: Range = (0.0, 1e12)
_AMOUNT: Range = (-1e40, 1e40)
_CLOCK: Range = (-1e12, 1e12)
_COUNT: Range = (0, 2**62)
_SMALL: Range = (-(2**31), 2**31)
#: What counts from one.
_ORDINAL: Range = (1, 2**62)
_WORKERS: Range = (0, bounds.WORKERS.high)
_SOME_WORKERS: Range = (1, bounds.WORKERS.high)
_CPUS: Range = (0, bounds.CPUS_HELD.high)
_MEMORY: Range = (0, bounds.MEMORY_HELD_MIB.high)
_SLOTS: Range = (0, bounds.SLOTS.high)
_SOME_SLOTS: Range = (1, bounds.SLOTS.high)
#: Ranges of columns of this name, where they are not those of their type.
_RANGES: dict[str, Range] = {
    "served_slot_seconds": _AMOUNT,
    "amount": _AMOUNT,
    "ahead_seconds": _CLOCK,
    "anchor_now": _CLOCK,
    "anchor_wall": _CLOCK,
    "anchor_booted": _CLOCK,
    "priority": _SMALL,
    "spec_priority": _SMALL,
    "priority_min": _SMALL,
    "priority_max": _SMALL,
    "exit_code": _SMALL,
    "min_workers": _SOME_WORKERS,
    "max_workers": _SOME_WORKERS,
    "spec_min_workers": _SOME_WORKERS,
    "spec_max_workers": _SOME_WORKERS,
    "preferred_workers": _SOME_WORKERS,
    "published_size": _WORKERS,
    "slots_per_worker": _SOME_SLOTS,
    "next_ordinal": _ORDINAL,
    "ordinal": _ORDINAL,
    "slots": _SLOTS,
    "fixed_index": _WORKERS,
    "cpus_per_worker": _CPUS,
    "cpus": _CPUS,
    "memory_mib_per_worker": _MEMORY,
    "memory_mib": _MEMORY,
    "master_port": (0, 65535),
    "quarantines": _WORKERS,
    # Of a booking, which may be made before its nodes are there.
    "workers": (1, 10**9),
}
#: Columns that hold JSON, or a name of any length that was accepted.
_LONG = frozenset({"launch", "labels", "node_selector", "speedup", "data", "export", "spec", "members", "failures"})
_LONG_TOO = frozenset({"reservation", "fixed_reservation", "fixed_hosts", "progress", "slot_ids", "held", "failed"})
_LONG_TEXTS = _LONG | _LONG_TOO | {"returned", "tried", "refused", "closed_slots", "accepted_faults"}

#: What a row is made of: raw values in the order of its table's columns, and more behind them.
RawRow = Sequence[Any]


class BrokenColumn(ValueError):
    """A column holds what it must not; the message names it."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """What one column may hold."""

    name: str
    kinds: frozenset[type]
    noun: str
    range: Range
    length_max: int

    def broken(self, value: object) -> str | None:
        """The rule that a value of the column breaks."""
        if type(value) not in self.kinds:
            return "must not be NULL" if value is None else f"must be {self.noun}, not {_shown(value)}"
        if isinstance(value, str):
            return broken_text(value, self.length_max)
        if isinstance(value, int | float) and not self.range[0] <= value <= self.range[1]:
            return f"must be from {self.range[0]:g} to {self.range[1]:g}, not {_shown(value)}"
        return None

    def all_fit(self, values: Sequence[Any]) -> bool:
        """Whether all of these may be in the column."""
        kinds = {*map(type, values)}
        if not kinds <= self.kinds:
            return False
        if type(None) in kinds:
            values = [value for value in values if value is not None]
        if str in kinds:
            together = "".join(values)
            return max(map(len, values)) <= self.length_max and broken_text(together, len(together)) is None
        if not values or bytes in kinds:
            return True
        # What is not a number makes a sum that is none, wherever it stands.
        return bool(self.range[0] <= min(values) and max(values) <= self.range[1] and sum(values) < _INFINITE)


@dataclass(frozen=True, slots=True)
class _Plan:
    """How rows of certain types are checked."""

    #: Position and range of numbers that are the only ones of their range; several numbers of one range.
    single: tuple[tuple[int, float, float], ...]
    several: tuple[tuple[Callable[[RawRow], tuple[Any, ...]], float, float], ...]
    texts: Callable[[RawRow], tuple[Any, ...]]


class RowCheck:
    """Checks rows of these columns."""

    def __init__(self, columns: Iterable[Column[Any]]) -> None:
        self._rules = [_rule_of(column) for column in columns]
        self._plans: dict[tuple[type, ...], _Plan | None] = {}

    def __call__(self, row: RawRow) -> None:
        """Raise `BrokenColumn` unless every column holds what it may."""
        types = tuple(map(type, row))
        if types not in self._plans:
            self._plans[types] = self._plan(types)
        plan = self._plans[types]
        if plan is None or not _fits(plan, row):
            for name, broken in self.broken(row).items():
                raise BrokenColumn(f"{name}: {broken}")

    def all_fit(self, rows: Sequence[RawRow]) -> bool:
        """Whether every column of all these rows holds what it may; quicker than row by row."""
        return all(rule.all_fit(column) for rule, column in zip(self._rules, zip(*rows, strict=True), strict=False))

    def broken(self, row: RawRow) -> dict[str, str]:
        """The columns that hold what they must not, and the rule that each breaks."""
        told = ((rule.name, rule.broken(value)) for rule, value in zip(self._rules, row, strict=False))
        return {name: broken for name, broken in told if broken is not None}

    def _plan(self, types: tuple[type, ...]) -> _Plan | None:
        """None: one of the types is wrong."""
        texts: list[int] = []
        numbers: dict[Range, list[int]] = {}
        for position, (rule, kind) in enumerate(zip(self._rules, types, strict=False)):
            if kind not in rule.kinds:
                return None
            if kind is str:
                texts.append(position)
            elif kind in (int, float, bool):
                numbers.setdefault(rule.range, []).append(position)
        single = tuple((positions[0], *limits) for limits, positions in numbers.items() if len(positions) == 1)
        several = tuple((itemgetter(*each), *limits) for limits, each in numbers.items() if len(each) > 1)
        return _Plan(single, several, _picker(texts))


def raw_columns(table: Table) -> list[ColumnElement[Any]]:
    """The columns without the conversions of SQLAlchemy: one of them takes as long as reading the row."""
    return [type_coerce(c, Integer).label(c.name) if isinstance(c.type, Boolean) else c for c in table.columns]


def broken_text(text: str, length_max: int = LINE_LENGTH_MAX) -> str | None:
    """What makes it no text that can be shown: its length, NUL, or bytes that are not UTF-8."""
    if len(text) > length_max:
        return f"has {len(text):,} characters, more than {length_max:,}"
    if "\0" in text:
        return "must not contain NUL"
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return "is not UTF-8"
    return None


def _fits(plan: _Plan, row: RawRow) -> bool:
    for position, low, high in plan.single:
        if not low <= row[position] <= high:
            return False
    for pick, low, high in plan.several:
        values = pick(row)
        # What is not a number makes a sum that is none, wherever it stands.
        if not (low <= min(values) and max(values) <= high and sum(values) < _INFINITE):
            return False
    together = "".join(plan.texts(row))  # mostly all of them are short
    return len(together) <= LINE_LENGTH_MAX and together.isascii() and "\0" not in together


_INFINITE = float("inf")


def _rule_of(column: Column[Any]) -> _Rule:
    name, kind = column.name, column.type
    kinds: set[type] = {type(None)} if column.nullable else set()
    length_max = TEXT_LENGTH_MAX if name in _LONG_TEXTS else LINE_LENGTH_MAX
    match kind:
        case Boolean():
            kinds |= {bool, int}
            return _Rule(name, frozenset(kinds), "true or false", (0, 1), length_max)
        case Double():
            kinds.add(float)
            return _Rule(name, frozenset(kinds), "a number", _RANGES.get(name, _MOMENT), length_max)
        case Text():
            kinds.add(str)
            return _Rule(name, frozenset(kinds), "a text", _COUNT, length_max)
        case Integer():
            kinds.add(int)
            return _Rule(name, frozenset(kinds), "a whole number", _RANGES.get(name, _COUNT), length_max)
        case _:
            kinds.add(bytes)
            return _Rule(name, frozenset(kinds), "bytes", _COUNT, length_max)


def _picker(positions: Sequence[int]) -> Callable[[RawRow], tuple[Any, ...]]:
    """Values at these positions."""
    if not positions:
        return lambda row: ()
    if len(positions) == 1:
        only = positions[0]
        return lambda row: (row[only],)
    return itemgetter(*positions)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "…"
