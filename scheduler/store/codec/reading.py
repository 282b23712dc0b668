"""Rows made into values, one by one: a row that cannot be read is set aside, and the others are read."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Table

from scheduler.errors import UnreadableRow
from scheduler.model.ids import JobId
from scheduler.model.unreadable import Unreadable
from scheduler.store.codec.columns import PARSED
from scheduler.store.codec.row_check import BrokenColumn, RawRow, RowCheck
from scheduler.store.sql.schema import metadata

V = TypeVar("V")

_CHECKS = {table.name: RowCheck(table.columns) for table in metadata.sorted_tables}
_KEY_LENGTH_MAX = 200
_REASON_LENGTH_MAX = 500


@dataclass(frozen=True, slots=True)
class Found:
    """A row that could not be read, and the values of its table's primary key."""

    row: Unreadable
    key: tuple[Any, ...]


class SetAside:
    """The rows that one transaction could not read."""

    def __init__(self) -> None:
        self.found: list[Found] = []
        #: Why a job cannot be read, where it is not its own row that is to blame.
        self.jobs: dict[JobId, str] = {}

    @property
    def rows(self) -> list[Unreadable]:
        return [found.row for found in self.found]

    def add(self, table: Table, row: RawRow, error: Exception) -> None:
        """A row of the table, from its first column on."""
        key = tuple(row[k] for k, column in enumerate(table.columns) if column.primary_key)
        reason = reason_of(table, row, error)
        self.found.append(Found(Unreadable(table.name, _key_text(key), reason, _job_of(table, row)), key))

    def read(self, table: Table, rows: Iterable[RawRow], make: Callable[[Any], V]) -> Iterator[V]:
        """What is made of the rows, which begin with all columns of the table as they are stored."""
        check = _CHECKS[table.name]

        def checked(row: RawRow) -> V:
            check(row)
            return make(row)

        return self.read_unchecked(table, rows, checked)

    def read_unchecked(self, table: Table, rows: Iterable[RawRow], make: Callable[[Any], V]) -> Iterator[V]:
        """As `read`, of rows whose columns `make` checks by itself."""
        for row in rows:
            try:
                value = make(row)
            except Exception as error:  # whatever it is: nobody else's row is to suffer from it
                self.add(table, row, error)
                continue
            yield value

    def blame(self, job_id: JobId, reason: str) -> None:
        """The job cannot be read because of another row; the first reason counts."""
        self.jobs.setdefault(job_id, reason)


def only(table: Table, row: RawRow, make: Callable[[Any], V]) -> V:
    """What is made of the one row that was asked for. Raises `UnreadableRow`."""
    aside = SetAside()
    for value in aside.read(table, [row], make):
        return value
    raise unreadable(aside.rows[0])


def unreadable(row: Unreadable) -> UnreadableRow:
    """The error of whoever asks for this row."""
    return UnreadableRow(f"{row} (the row cannot be read, and is left as it is: see sched db unreadable)")


def check_row(table: Table, row: RawRow) -> None:
    """Raise `BrokenColumn` unless each column holds what it may."""
    _CHECKS[table.name](row)


def broken_columns(table: Table, row: RawRow) -> dict[str, str]:
    """The columns that hold what they must not, and the rule that each breaks."""
    return _CHECKS[table.name].broken(row)


def reason_of(table: Table, row: RawRow, error: Exception) -> str:
    """Why a row could not be read, in one line that names the column."""
    if isinstance(error, BrokenColumn):
        return plain(str(error))[:_REASON_LENGTH_MAX]
    for column, value in zip(table.columns, row, strict=False):
        parse = PARSED.get(column.name) or PARSED.get(f"{table.name}.{column.name}")
        if parse is None or value is None:
            continue
        try:
            parse(value)
        except Exception as wrong:  # the same as before, now that it is known where
            return f"{column.name}: {_told(wrong)}"
    return _told(error)


def _told(error: Exception) -> str:
    match error:
        case RecursionError():
            return "nested too deeply"
        case json.JSONDecodeError():
            return plain(f"not valid JSON: {error}")[:_REASON_LENGTH_MAX]
        case KeyError():
            return plain(f"has no {error.args[0]!r:.100}")
        case _:
            return plain(str(error) or type(error).__name__)[:_REASON_LENGTH_MAX]


def _key_text(key: tuple[Any, ...]) -> str:
    """What names a row in its table, for people."""
    return "/".join(map(plain, key))[:_KEY_LENGTH_MAX]


def plain(value: object) -> str:
    """In one line that can be shown and stored anywhere."""
    shown = value.encode(errors="backslashreplace").decode() if isinstance(value, str) else f"{value!r:.100}"
    return "".join(c if c.isprintable() else " " for c in shown)


def _job_of(table: Table, row: RawRow) -> JobId | None:
    """The job of which the row is, or that it is a part of."""
    name = "id" if table.name == "jobs" else "job_id"
    for position, column in enumerate(table.columns):
        if column.name == name:
            value = row[position]
            return JobId(value) if type(value) is int else None
    return None
