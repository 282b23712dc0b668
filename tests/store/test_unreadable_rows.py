"""Rows that cannot be read: those that a process has met, until they are repaired, and all that there are."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from scheduler.model.ids import JobId
from scheduler.model.unreadable import TABLES, Unreadable
from scheduler.store import SqlStore
from scheduler.store.codec.reading import Found
from scheduler.store.queries.unreadable_rows import ROWS_KEPT, Met
from scheduler.store.records import StoredRow
from scheduler.store.sql.schema import metadata
from tests.store import garbage
from tests.store.conftest import OpenStore
from tests.store.populated import populate
from tests.world import World

#: A column of each table, and what it must not hold.
SPOILT: dict[str, tuple[str, Any]] = {
    "jobs": ("labels", "[["),
    "workers": ("slot_ids", "[["),
    "node_types": ("since", "x"),
    "nodes": ("labels", "[["),
    "intents": ("kind", "NONSENSE"),
    "bookings": ("workers", 0),
    "queues": ("members", "[["),
    "holdings": ("lent_slots", -1.0),
    "usage": ("held_seconds", -1.0),
    "queue_usage": ("at", -1.0),
    "budgets_told": ("month", -1),
    "recurring": ("spec", "[["),
    "webhooks": ("name", "a\0b"),
    "generations": ("members", "[["),
    "data_queues": ("cursor", -1),
    "shard_readers": ("held", "[["),
    "tokens": ("created_at", -5.0),
    "audit": ("at", -5.0),
    "events": ("kind", "NONSENSE"),
    "lease": ("term", "x"),
    "counters": ("jobs", "x"),
}


@contextmanager
def spoilt(url: str, table: str, where: str = "TRUE") -> Iterator[None]:
    """Such rows of the table with what they must not hold, as long as the context lasts."""
    column, value = SPOILT[table]
    with garbage.connected(url) as session:
        before = session.execute(f"SELECT rowid, {column} FROM {table} WHERE {where}").fetchall()
        assert before
        session.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (value,))
        try:
            yield
        finally:
            for row_id, was in before:
                session.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (was, row_id))


def scanned(store: SqlStore) -> list[StoredRow]:
    found: list[StoredRow] = []
    store.scan_unreadable(found.append)
    return found


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Of a database with a row in nearly every table."""
    world = World(tmp_path)
    populate(world)
    world.close()
    return f"sqlite:///{tmp_path / 'world.db'}"


def test_of_every_table_rows_that_cannot_be_read_are_found_with_all_that_they_hold(
    url: str, open_store: OpenStore
) -> None:
    store = open_store(url)
    assert scanned(store) == []
    for table, (column, value) in SPOILT.items():
        keys = [key.name for key in metadata.tables[table].primary_key.columns]
        with spoilt(url, table):
            with garbage.connected(url) as session:
                count = session.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            found = [row for row in scanned(store) if row.row.table == table]
        assert len(found) == count, table
        for row in found:
            assert row.columns[column] == value
            assert row.columns.keys() == set(metadata.tables[table].columns.keys())
            if column not in keys:
                assert row.row.key == "/".join(str(row.columns[key]) for key in keys)
                assert row.row.reason.startswith(f"{column}: ")
    assert SPOILT.keys() == {*TABLES, "generations", "lease", "counters"} - {"shards_set_aside"}


def test_a_job_is_not_readable_where_one_of_its_workers_is_not(url: str, open_store: OpenStore) -> None:
    with spoilt(url, "workers", "job_id = 1 AND ordinal = 1"):
        found = scanned(open_store(url))
    assert {(row.row.table, row.row.key, row.row.job_id) for row in found} == {
        ("jobs", "1", 1),
        ("workers", "1/1", 1),
    }
    (job,) = (row for row in found if row.row.table == "jobs")
    assert job.row.reason.startswith("worker 1/1: slot_ids: ")
    assert (job.columns["id"], job.columns["name"]) == (1, "first")


def keys(rows: Iterable[Unreadable]) -> list[tuple[str, str]]:
    return [(row.table, row.key) for row in rows]


def test_rows_that_were_met_are_named_until_they_can_be_read_again(url: str, open_store: OpenStore) -> None:
    store = open_store(url)
    with spoilt(url, "nodes", "name = 'z'"):
        with spoilt(url, "jobs", "id = 1"), spoilt(url, "workers", "job_id = 2"):
            store.load_world()
            met = [("jobs", "1"), ("jobs", "2"), ("nodes", "z"), ("workers", "2/1")]
            assert keys(store.unreadable) == met
            assert store.look_again() == ()
            assert keys(store.unreadable) == met
        with spoilt(url, "workers", "job_id = 2"):
            assert keys(store.look_again()) == [("jobs", "1")]
            assert keys(store.unreadable) == met[1:]
        assert sorted(keys(store.look_again())) == [("jobs", "2"), ("workers", "2/1")]
        assert keys(store.unreadable) == [("nodes", "z")]
    assert keys(store.look_again()) == [("nodes", "z")]
    assert store.unreadable == store.look_again() == ()


def test_a_row_that_is_gone_is_met_no_more(url: str, open_store: OpenStore) -> None:
    store = open_store(url)
    with spoilt(url, "events", "id = 1"), garbage.connected(url) as session:
        store.list_events()
        assert keys(store.unreadable) == [("events", "1")]
        session.execute("DELETE FROM events WHERE id = 1")
        assert keys(store.look_again()) == [("events", "1")]
    assert store.unreadable == ()


@pytest.mark.parametrize("name", ["X'7A0061'", "X'FF61'"], ids=["NUL", "no UTF-8"])
def test_a_row_with_an_odd_key_is_no_reason_to_load_all_again(url: str, open_store: OpenStore, name: str) -> None:
    store = open_store(url)
    with garbage.connected(url) as session:
        session.execute(f"UPDATE nodes SET name = CAST({name} AS TEXT) WHERE name = 'z'")
    store.load_world()
    assert [row.table for row in store.unreadable] == ["jobs", "nodes"]
    assert store.look_again() == ()


@pytest.mark.parametrize(
    ("table", "column"), [("bookings", "name"), ("nodes", "name"), ("queues", "path"), ("workers", "job_id")]
)
def test_rows_whose_keys_are_of_many_types_are_looked_at_again(
    url: str, open_store: OpenStore, table: str, column: str
) -> None:
    """SQLite keeps whatever was put into a column."""
    store = open_store(url)
    others = ", ".join(f'"{each.name}"' for each in metadata.tables[table].columns if each.name != column)
    copied = f"INSERT INTO {table} ({column}, {others}) SELECT ?, {others} FROM {table} WHERE rowid = 1"
    with garbage.connected(url) as session:
        session.execute(copied, (b"\xff\xfe",))
    store.load_world()
    with garbage.connected(url) as session:
        session.executemany(copied, [("text",), (0.5,), ("",), (-(2**63),), ("\x01",)])
    with spoilt(url, table):
        store.load_world()
        met = store.unreadable
        assert len([row for row in met if row.table == table]) > 1
        assert store.look_again() == ()
        assert store.unreadable == met


def _note(statements: list[object], *call: object) -> None:
    statements.append(call)


def test_many_rows_are_looked_at_again_by_as_few_questions_as_one(url: str, open_store: OpenStore) -> None:
    store, counts = open_store(url), []
    with garbage.connected(url) as session:
        columns = ", ".join(column.name for column in metadata.tables["events"].columns if column.name != "id")
        session.execute(f"INSERT INTO events ({columns}) SELECT {columns} FROM events")
    for where in ("id = 1", "TRUE"):
        with spoilt(url, "events", where):
            store.list_events(limit=1000)
            statements: list[object] = []
            noted = partial(_note, statements)
            event.listen(Engine, "before_cursor_execute", noted)
            assert store.look_again() == ()
            event.remove(Engine, "before_cursor_execute", noted)
            counts.append((len(store.unreadable), len(statements)))
    (one, few), (many, as_few) = counts
    assert (one, many > 10, few == as_few) == (1, True, True), counts


def test_a_job_on_a_node_that_is_gone_is_told_until_the_node_is_there(url: str, open_store: OpenStore) -> None:
    store = open_store(url)
    with garbage.connected(url) as session:
        session.execute("UPDATE nodes SET name = 'elsewhere' WHERE name = 'z'")
    store.load_world()
    astray = Unreadable("jobs", "2", "worker 2-1: node: 'z' is not known", JobId(2))
    assert store.unreadable == (astray,)
    assert store.look_again() == ()
    assert [row.row for row in scanned(store)] == [astray]
    with garbage.connected(url) as session:
        session.execute("UPDATE nodes SET name = 'z' WHERE name = 'elsewhere'")
    assert store.look_again() == (astray,)


def test_workers_whose_job_is_gone_are_told_as_long_as_they_are_there(url: str, open_store: OpenStore) -> None:
    """Else the daemon would load everything again at each look, and the command that health names find nothing."""
    store = open_store(url)
    with garbage.connected(url) as session:
        session.execute("DELETE FROM jobs WHERE id = 1")
    store.load_world()
    gone = Unreadable("jobs", "1", "worker 1-1 lives, and the job has ended or is gone", JobId(1))
    assert store.unreadable == (gone,)
    assert store.look_again() == ()
    assert StoredRow(gone, {}) in scanned(store)
    with garbage.connected(url) as session:
        session.execute("DELETE FROM workers WHERE job_id = 1")
    assert store.look_again() == (gone,)
    assert gone not in [row.row for row in scanned(store)]


def test_so_many_rows_are_remembered_and_each_as_it_was_met_last() -> None:
    def found(n: int, reason: str) -> Found:
        return Found(Unreadable("events", f"{n:04}", reason), (n,))

    met = Met()
    met.add(found(n, "before") for n in range(ROWS_KEPT))
    met.add([found(7, "after"), found(ROWS_KEPT, "one too many")])
    assert [(row.key, row.reason) for row in met.rows] == [
        (f"{n:04}", "after" if n == 7 else "before") for n in range(ROWS_KEPT)
    ]
