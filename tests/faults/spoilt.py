"""Rows of the database that somebody has written into by hand, so that they cannot be read until they are mended."""

from dataclasses import dataclass

from sqlalchemy import Column, ColumnElement, and_, null, select, update

from scheduler.model.ids import JobId
from scheduler.store.sql.engine_tables import jobs, workers
from scheduler.store.sqlstore import SqlStore
from tests.faults.kinds import Spoil

_UNREADABLE = "[["


@dataclass(frozen=True, slots=True)
class _Spoilable:
    """A column that is spoilt, that of the job which cannot be read then, and one that is null in rows that matter."""

    column: "Column[str]"
    job: "Column[int]"
    ended: "Column[float]"

    def row(self, key: tuple[object, ...]) -> ColumnElement[bool]:
        return and_(*(column == value for column, value in zip(self.column.table.primary_key, key, strict=True)))


_SPOILABLE = {
    "jobs": _Spoilable(jobs.c.labels, jobs.c.id, jobs.c.finished_at),
    "workers": _Spoilable(workers.c.slot_ids, workers.c.job_id, workers.c.ended_at),
}


class SpoiltRows:
    """Of one run."""

    def __init__(self, store: SqlStore) -> None:
        self._writer = store._database.writer
        #: Table, row and what was there.
        self._before: list[tuple[str, tuple[object, ...], str]] = []
        #: Jobs that could not be read at some time: they are served again a while after somebody has mended them.
        self.jobs: set[JobId] = set()

    def spoil(self, fault: Spoil) -> object:
        """Write into one row; gives which, None where there is none."""
        spoilable = _SPOILABLE[fault.table]
        keys = list(spoilable.column.table.primary_key)
        matter = and_(spoilable.ended == null(), spoilable.column != _UNREADABLE)
        with self._writer.begin() as connection:
            rows = connection.execute(
                select(spoilable.column, spoilable.job, *keys).where(matter).order_by(*keys)
            ).all()
            if not rows:
                return None
            before, job_id, *key = rows[int(fault.pick * len(rows))]
            connection.execute(
                update(spoilable.column.table).where(spoilable.row(tuple(key))).values({spoilable.column: _UNREADABLE})
            )
        self._before.append((fault.table, tuple(key), before))
        self.jobs.add(JobId(job_id))
        return f"{fault.table} {key}"

    def mend(self) -> None:
        """Write back what was there, where nobody else has written meanwhile."""
        with self._writer.begin() as connection:
            for table, key, before in self._before:
                spoilable = _SPOILABLE[table]
                still = and_(spoilable.row(key), spoilable.column == _UNREADABLE)
                connection.execute(update(spoilable.column.table).where(still).values({spoilable.column: before}))
        self._before.clear()
