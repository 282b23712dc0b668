"""Rows of the database that somebody has written into by hand, so that they cannot be read until they are mended."""

import sqlite3
from contextlib import closing
from pathlib import Path

from scheduler.model.ids import JobId
from tests.faults.kinds import Spoil

#: By table: the column that is spoilt, that of the job that cannot be read then, and which rows matter.
_COLUMNS = {
    "jobs": ("labels", "id", "finished_at IS NULL"),
    "workers": ("slot_ids", "job_id", "ended_at IS NULL"),
}
_UNREADABLE = "[["


class SpoiltRows:
    """Of one run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        #: Table, row and what was there.
        self._before: list[tuple[str, int, object]] = []
        #: Jobs that could not be read at some time: they are served again a while after somebody has mended them.
        self.jobs: set[JobId] = set()

    def spoil(self, fault: Spoil) -> object:
        """Write into one row; gives which, None where there is none."""
        column, job, where = _COLUMNS[fault.table]
        with closing(sqlite3.connect(self._path, isolation_level=None)) as session:
            rows = session.execute(f"SELECT rowid, {column}, {job} FROM {fault.table} WHERE {where}").fetchall()
            if not rows:
                return None
            row_id, before, job_id = rows[int(fault.pick * len(rows))]
            if before == _UNREADABLE:
                return None
            self._before.append((fault.table, row_id, before))
            session.execute(f"UPDATE {fault.table} SET {column} = ? WHERE rowid = ?", (_UNREADABLE, row_id))
        self.jobs.add(JobId(job_id))
        return f"{fault.table} {row_id}"

    def mend(self) -> None:
        """Write back what was there, where nobody else has written meanwhile."""
        with closing(sqlite3.connect(self._path, isolation_level=None)) as session:
            for table, row_id, before in self._before:
                column = _COLUMNS[table][0]
                statement = f"UPDATE {table} SET {column} = ? WHERE rowid = ? AND {column} = ?"
                session.execute(statement, (before, row_id, _UNREADABLE))
        self._before.clear()
