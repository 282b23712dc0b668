"""Rows that cannot be read: those that this process has met, and all of them with what they hold."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import BindParameter, Connection, Row, Select, Table, bindparam, select, tuple_
from sqlalchemy.types import NullType

from scheduler.model.ids import JobId
from scheduler.model.unreadable import Unreadable
from scheduler.store.codec.account_rows import holding_from_row, queue_usage_from_row
from scheduler.store.codec.job_reader import JOB_COLUMNS, jobs_from_rows
from scheduler.store.codec.job_rows import WORKER_COLUMNS, homeless, worker_from_row, workers_by_job
from scheduler.store.codec.json_text import members_from_text
from scheduler.store.codec.reading import Found, SetAside
from scheduler.store.codec.row_check import RawRow
from scheduler.store.codec.rows import (
    NODE_COLUMNS,
    audit_from_row,
    booking_from_row,
    event_from_row,
    intent_from_row,
    node_from_row,
    queue_from_row,
    recurring_from_row,
    token_from_row,
)
from scheduler.store.codec.shard_rows import READER_COLUMNS, data_queue_from_row, reader_from_row, set_aside_from_row
from scheduler.store.records import StoredRow
from scheduler.store.sql.engine_tables import (
    budgets_told,
    counters,
    events,
    generations,
    holdings,
    jobs,
    lease,
    node_types,
    nodes,
    queue_usage,
    usage,
    workers,
)
from scheduler.store.sql.identity_tables import audit, tokens
from scheduler.store.sql.request_tables import (
    bookings,
    data_queues,
    intents,
    queues,
    recurring,
    shard_readers,
    shards_set_aside,
    webhooks,
)

#: More are not remembered.
ROWS_KEPT = 1000
_ROWS_AT_ONCE = 1000

Make = Callable[[Any], object]


def _checked(row: RawRow) -> RawRow:
    return row


_DATA_QUEUES = select(*data_queues.columns, jobs.c.data).join(jobs, jobs.c.id == data_queues.c.job_id)
#: How rows of each table are read, but for those of jobs, which are read with their workers.
_READ: dict[str, tuple[Table, Select[Any], Make]] = {
    table.name: (table, query, make)
    for table, query, make in (
        (workers, select(*WORKER_COLUMNS), worker_from_row),
        (nodes, select(*NODE_COLUMNS), node_from_row),
        (node_types, select(node_types), _checked),
        (intents, select(intents), intent_from_row),
        (bookings, select(bookings), booking_from_row),
        (queues, select(queues), queue_from_row),
        (holdings, select(holdings), holding_from_row),
        (budgets_told, select(budgets_told), _checked),
        (queue_usage, select(queue_usage), queue_usage_from_row),
        (usage, select(usage), _checked),
        (recurring, select(recurring), recurring_from_row),
        (webhooks, select(webhooks), _checked),
        (generations, select(generations), lambda row: members_from_text(row.members)),
        (data_queues, _DATA_QUEUES, data_queue_from_row),
        (shard_readers, select(*READER_COLUMNS), reader_from_row),
        (shards_set_aside, select(shards_set_aside), set_aside_from_row),
        (tokens, select(tokens), token_from_row),
        (audit, select(audit), audit_from_row),
        (events, select(events), event_from_row),
        (lease, select(lease), _checked),
        (counters, select(counters), _checked),
    )
}


class Met:
    """The rows that this process has met, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[tuple[str, str], Found] = {}

    def add(self, found: Iterable[Found]) -> None:
        with self._lock:
            for each in found:
                key = (each.row.table, each.row.key)
                if key in self._found or len(self._found) < ROWS_KEPT:
                    self._found[key] = each

    @property
    def rows(self) -> tuple[Unreadable, ...]:
        """By table and key."""
        with self._lock:
            return tuple(self._found[key].row for key in sorted(self._found))

    def look_again(self, connection: Connection) -> tuple[Unreadable, ...]:
        """Those that can be read by now, or are gone; they are met no more."""
        with self._lock:
            known = dict(self._found)
        by_table: dict[str, list[Found]] = {}
        for each in known.values():
            by_table.setdefault(each.row.table, []).append(each)
        still = {(table, key) for table, found in by_table.items() for key in _still(connection, table, found)}
        over = known.keys() - still
        with self._lock:
            for key in over:
                self._found.pop(key, None)
        return tuple(known[key].row for key in sorted(over))


def _still(connection: Connection, name: str, found: Iterable[Found]) -> Iterator[str]:
    """Which of these rows of one table are there and cannot be read.

    One that cannot be asked for by its key counts as one of them as long as this process lives.
    """
    keys: list[tuple[Any, ...]] = []
    for each in found:
        if all(map(_can_be_asked_for, each.key)):
            keys.append(each.key)
        else:
            yield each.row.key
    aside = SetAside()
    if name == jobs.name:
        yield from (each.row.key for each in _unread_jobs(connection, aside, [job_id for (job_id,) in keys]))
        return
    table, query, make = _READ[name]
    rows = connection.execute(query.where(tuple_(*table.primary_key.columns).in_(_as_they_are(keys)))) if keys else ()
    for _ in aside.read(table, rows, make):
        pass
    yield from (each.key for each in aside.rows)


def _can_be_asked_for(part: object) -> bool:
    """Whether a query can have this part of a key; text that is not UTF-8 it cannot."""
    try:
        str(part).encode()
    except UnicodeEncodeError:
        return False
    return True


def _as_they_are(keys: Sequence[object]) -> BindParameter[Any]:
    """Keys of several types for one query, where SQLAlchemy would take the type of the first for all of them."""
    return bindparam("keys", keys, NullType(), expanding=True)


def scan(connection: Connection) -> Iterator[StoredRow]:
    """Every row of every table that cannot be read, with its columns as they are stored."""
    yield from _unread_jobs(connection, SetAside())
    for table, query, make in _READ.values():
        with connection.execute(query, execution_options={"yield_per": _ROWS_AT_ONCE}) as result:
            for row in result:
                aside = SetAside()
                for _ in aside.read(table, [row], make):
                    pass
                if aside.rows:
                    yield stored_row(aside.rows[0], table, row)


def _unread_jobs(connection: Connection, aside: SetAside, among: Sequence[JobId] | None = None) -> Iterator[StoredRow]:
    """All jobs that cannot be read, or those of these that cannot; of one that is gone, only its workers tell."""
    live_workers = select(*WORKER_COLUMNS).where(workers.c.live.is_not(None)).order_by(workers.c.ordinal)
    query = select(*JOB_COLUMNS)
    if among is not None:
        asked_for = _as_they_are(among)
        live_workers, query = live_workers.where(workers.c.job_id.in_(asked_for)), query.where(jobs.c.id.in_(asked_for))
    live = workers_by_job(connection.execute(live_workers), aside)
    gone = set(live)
    names = set(connection.execute(select(nodes.c.name)).scalars())
    with connection.execute(query, execution_options={"yield_per": _ROWS_AT_ONCE}) as result:
        for row in result:
            gone.discard(row[0])
            before = len(aside.rows)
            for _ in jobs_from_rows([row], live, aside, names):
                pass
            if len(aside.rows) > before:
                yield stored_row(aside.rows[-1], jobs, row)
    for each in sorted(gone):
        yield StoredRow(homeless(each, live[each]), {})


def stored_row(row: Unreadable, table: Table, columns: Row[Any]) -> StoredRow:
    """The row with its columns by name."""
    return StoredRow(row, {column.name: columns[k] for k, column in enumerate(table.columns)})
