"""Views of rows of the database that cannot be read."""

from collections.abc import Iterable

from typing_extensions import TypedDict

from scheduler.model.unreadable import Unreadable


class UnreadableView(TypedDict):
    #: The table of the row.
    table: str
    #: Key of the row in its table: `12`, or `12/3` for a key of several columns.
    key: str
    #: Why it cannot be read, in one line.
    reason: str
    #: The job that is set aside because of it.
    job: int | None


def unreadable_views(rows: Iterable[Unreadable]) -> list[UnreadableView]:
    return [{"table": row.table, "key": row.key, "reason": row.reason, "job": row.job_id} for row in rows]
