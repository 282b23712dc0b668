"""What clients see of rows of the database that cannot be read."""

from collections.abc import Iterable

from typing_extensions import TypedDict

from scheduler.model.unreadable import Unreadable


class UnreadableView(TypedDict):
    #: The table of the row.
    table: str
    #: What names the row in its table: `12`, or `12/3` where several columns do.
    key: str
    #: Why it cannot be read, in one line.
    reason: str
    #: The job that is set aside by it.
    job: int | None


def unreadable_views(rows: Iterable[Unreadable]) -> list[UnreadableView]:
    return [{"table": row.table, "key": row.key, "reason": row.reason, "job": row.job_id} for row in rows]
