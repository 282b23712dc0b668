"""Statements on many rows, compiled once: writing thousands of rows a second leaves no time to do so for each."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from operator import itemgetter
from typing import Any

from sqlalchemy import Column, Connection, Table, bindparam, false, insert, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.dml import UpdateBase

from scheduler.store.sql.engine_tables import (
    IS_CURRENT,
    SUBMITTED,
    budgets_told,
    events,
    generations,
    holdings,
    jobs,
    node_types,
    nodes,
    queue_usage,
    usage,
    workers,
)
from scheduler.store.sql.identity_tables import audit
from scheduler.store.sql.request_tables import data_queues, intents, shard_readers, shards_set_aside


class Bulk:
    """One statement for rows, each a mapping from the names of its parameters."""

    def __init__(self, dialect: Dialect, statement: UpdateBase, names: Sequence[str]) -> None:
        #: The columns, or other parameters, of which it takes values.
        self.names = names
        compiled = statement.compile(dialect=dialect, column_keys=list(names))
        self._sql = str(compiled)
        order: list[str] | None = compiled.positiontup
        self._values: Callable[[Mapping[str, Any]], Any] = _picker(order) if order else dict
        #: Values that are parts of the statement itself.
        self._own = {name: value for name, value in compiled.params.items() if value is not None}

    def row(self, connection: Connection, values: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """Execute it once; returns the first row of what it tells, if there is one."""
        with _cursor(connection) as cursor:
            cursor.execute(self._sql, self._values({**self._own, **values}))
            row: tuple[Any, ...] | None = cursor.fetchone()
            return row

    def run(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> int:
        """Execute it for every row; returns how many rows of the table it touched."""
        if not rows:
            return 0
        with _cursor(connection) as cursor:
            cursor.executemany(self._sql, [self._values(row) for row in rows])
            return int(cursor.rowcount)


class Insert(Bulk):
    """New rows of a table, which reach PostgreSQL by COPY: many in a sixth of the time, and a single one no later."""

    def __init__(self, dialect: Dialect, table: Table, names: Sequence[str]) -> None:
        super().__init__(dialect, insert(table), names)
        quoted = ", ".join(map(dialect.identifier_preparer.quote, names))
        self._copy = f"COPY {dialect.identifier_preparer.format_table(table)} ({quoted}) FROM STDIN"
        self._copied = _picker(names)
        self._copies = dialect.name == "postgresql"

    def run(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> int:
        if not (self._copies and rows):
            return super().run(connection, rows)
        with _cursor(connection) as cursor:
            with cursor.copy(self._copy) as copy:
                for row in rows:
                    copy.write_row(self._copied(row))
            return int(cursor.rowcount)


def _cursor(connection: Connection) -> closing[Any]:
    """One of the driver's: that of SQLAlchemy takes longer than most statements, and there is nothing to convert."""
    return closing(connection.connection.cursor())


def _picker(order: Sequence[str]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """Values of a mapping in this order."""
    if len(order) == 1:
        return lambda row: (row[order[0]],)  # itemgetter would give the bare value
    return itemgetter(*order)


class Statements:
    """The statements that submits and commits are made of, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self.insert_jobs = Insert(dialect, jobs, [column.name for column in jobs.columns if _is_of_new_jobs(column)])
        self.insert_intents = _insert(dialect, intents)
        self.insert_events = _insert(dialect, events)
        self.insert_nodes = Bulk(
            dialect, _dialect_insert(dialect)(nodes).on_conflict_do_nothing(), nodes.columns.keys()
        )
        self.update_jobs = _versioned_update(dialect, jobs.c.id, _all_but(jobs, SUBMITTED))
        self.update_progress = _versioned_update(dialect, jobs.c.id, [jobs.c.progress, jobs.c.version, jobs.c.revision])
        self.update_nodes = _versioned_update(dialect, nodes.c.name, _all_but(nodes))
        self.delete_nodes = _delete_nodes(dialect)
        self.upsert_workers = _upsert(dialect, workers)
        self.upsert_generations = _upsert(dialect, generations)
        self.retire_generations = Bulk(
            dialect,
            generations.update()
            .where(
                generations.c.job_id == bindparam("of_job"),
                IS_CURRENT,
                generations.c.generation != bindparam("but"),
            )
            .values(current=false()),
            ["of_job", "but"],
        )
        self.upsert_holdings = _upsert(dialect, holdings)
        self.upsert_queue_usage = _upsert(dialect, queue_usage)
        self.upsert_node_types = _upsert(dialect, node_types)
        self.upsert_budgets_told = _upsert(dialect, budgets_told)
        self.add_usage = _add_usage(dialect)
        self.insert_data_queues = _insert(dialect, data_queues)
        self.update_data_queues = _update_data_queues(dialect)
        self.upsert_shard_readers = _upsert(dialect, shard_readers)
        self.delete_shard_readers = _delete_shard_readers(dialect)
        self.insert_shards_set_aside = _insert(dialect, shards_set_aside)
        # The database gives them their ids.
        self.insert_audit = Insert(dialect, audit, [each.name for each in audit.columns if not each.primary_key])
        self.delete_intents = Bulk(dialect, intents.delete().where(intents.c.id == bindparam("done")), ["done"])


def _dialect_insert(dialect: Dialect) -> Callable[[Table], Any]:
    return sqlite.insert if dialect.name == "sqlite" else postgresql.insert


def _insert(dialect: Dialect, table: Table) -> Insert:
    return Insert(dialect, table, table.columns.keys())


def _is_of_new_jobs(column: Column[Any]) -> bool:
    """Whether a job may have something there when it is submitted: for a third of the columns none has."""
    return not column.nullable or column.name == "wait_reason" or column in SUBMITTED


def _upsert(dialect: Dialect, table: Table) -> Bulk:
    statement = _dialect_insert(dialect)(table)
    changed = {column.name: statement.excluded[column.name] for column in table.columns if not column.primary_key}
    return Bulk(
        dialect,
        statement.on_conflict_do_update(index_elements=list(table.primary_key.columns), set_=changed),
        table.columns.keys(),
    )


def _add_usage(dialect: Dialect) -> Bulk:
    """Add to what an account came to in an hour."""
    statement = _dialect_insert(dialect)(usage)
    sums = (column.name for column in usage.columns if not column.primary_key)
    added = {name: usage.c[name] + statement.excluded[name] for name in sums}
    return Bulk(
        dialect,
        statement.on_conflict_do_update(index_elements=list(usage.primary_key.columns), set_=added),
        usage.columns.keys(),
    )


def _all_but(table: Table, kept: Iterable[Column[Any]] = ()) -> list[Column[Any]]:
    """The columns of a table but its key and these."""
    names = {column.name for column in kept}
    return [column for column in table.columns if not column.primary_key and column.name not in names]


def _versioned_update(dialect: Dialect, key: Column[Any], changed: Iterable[Column[Any]]) -> Bulk:
    """Set these columns where the row still has the version `version_read`."""
    names = [column.name for column in changed]
    table = key.table
    statement = (
        update(table)
        .where(key == bindparam("key"), table.c.version == bindparam("version_read"))
        .values({name: bindparam(name) for name in names})
    )
    return Bulk(dialect, statement, [*names, "key", "version_read"])


def _delete_nodes(dialect: Dialect) -> Bulk:
    statement = nodes.delete().where(
        nodes.c.name == bindparam("forgotten"), nodes.c.version == bindparam("version_read")
    )
    return Bulk(dialect, statement, ["forgotten", "version_read"])


def _update_data_queues(dialect: Dialect) -> Bulk:
    names = [column.name for column in data_queues.columns if not column.primary_key]
    statement = data_queues.update().where(data_queues.c.job_id == bindparam("of_job"))
    return Bulk(dialect, statement.values({name: bindparam(name) for name in names}), [*names, "of_job"])


def _delete_shard_readers(dialect: Dialect) -> Bulk:
    statement = shard_readers.delete().where(
        shard_readers.c.job_id == bindparam("of_job"),
        shard_readers.c.ordinal == bindparam("of_worker"),
        shard_readers.c.name == bindparam("of_name"),
    )
    return Bulk(dialect, statement, ["of_job", "of_worker", "of_name"])
