"""The rows that say which ids are free and who leads: where one is not what the store wrote, nothing is decided."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from scheduler.errors import StoreUnavailable
from scheduler.model.event import Event, EventKind
from scheduler.model.world import Changes
from scheduler.store import SqlStore
from scheduler.store.sql.schema import metadata
from tests.store import garbage
from tests.store.desk import NOW, SPEC, admitted, lead

STRANGE = {"sqlite": (None, "x", "7 of them", b"\xff", 0.5, -1, 2**63 - 1), "postgres": (None, -1, 2**63 - 1)}


@contextmanager
def spoilt(url: str, table: str, column: str, value: Any) -> Iterator[None]:
    """The one row of the table with this value, as long as the context lasts."""
    with garbage.connected(url) as session:
        (before,) = session.execute(f"SELECT {column} FROM {table}").fetchone()
        assert garbage.corrupt(session, metadata.tables[table], metadata.tables[table].c[column], value)
        yield
        assert garbage.corrupt(session, metadata.tables[table], metadata.tables[table].c[column], before)


def happened(store: SqlStore, lease: Any) -> None:
    store.commit(Changes(events=(Event(NOW, EventKind.NODE_UP, detail="8 slots"),)), lease, NOW)


@pytest.fixture
def loose_url(backend: str, database_url: str) -> str:
    """A database whose columns take what their types take."""
    if backend == "sqlite":
        garbage.without_not_null(database_url.removeprefix("sqlite:///"))
    else:
        with garbage.connected(database_url) as session:
            garbage.free_of_constraints(session)
    return database_url


@pytest.mark.parametrize("column", ["jobs", "intents", "events", "recurring"])
def test_a_broken_counter_gives_no_ids_until_it_is_repaired(
    column: str, backend: str, loose_url: str, store: SqlStore
) -> None:
    lease = lead(store)
    admitted(store, lease)
    for value in STRANGE[backend]:
        with spoilt(loose_url, "counters", column, value):
            with pytest.raises(StoreUnavailable, match=rf"counters cannot be read: {column}: must be a whole number"):
                happened(store, lease)
            with pytest.raises(StoreUnavailable, match="counters cannot be read"):
                store.submit([SPEC], NOW)
    happened(store, lease)
    assert [submitted.id for submitted in store.submit([SPEC], NOW)] == [2]


def test_a_counter_that_was_set_back_gives_no_id_twice(database_url: str, store: SqlStore) -> None:
    lease = lead(store)
    admitted(store, lease)
    happened(store, lease)
    before = store.list_events(0, None, 100)
    for column in ("events", "jobs"):
        with (
            spoilt(database_url, "counters", column, 0),
            pytest.raises(StoreUnavailable, match=rf"counters is behind its tables.*{column} 0"),
        ):
            store.submit([SPEC], NOW)
    assert store.list_events(0, None, 100) == before
    happened(store, lease)
    ids = [event_id for event_id, _ in store.list_events(0, None, 100)]
    assert ids == list(range(1, len(before) + 2))


def test_a_broken_lease_is_told_and_taken_again_when_it_is_repaired(
    backend: str, loose_url: str, store: SqlStore
) -> None:
    lease = lead(store)
    strange = {"term": STRANGE[backend], "expires_at": (None, math.inf, -1.0), "revision": STRANGE[backend]}
    for column, values in strange.items():
        for value in values:
            with spoilt(loose_url, "lease", column, value):
                with pytest.raises(StoreUnavailable, match=rf"row of the lease cannot be read: {column}: must"):
                    store.acquire_lease("engine", NOW, 3.0)
                with pytest.raises(StoreUnavailable, match="row of the lease cannot be read"):
                    store.load_world()
    again = store.acquire_lease("engine", NOW, 3.0)
    assert again is not None
    assert again.term == lease.term


def test_every_table_is_one_of_those_whose_rows_are_set_aside_or_of_these() -> None:
    assert {table.name for table in metadata.sorted_tables} == garbage.FOUNDATIONS | {
        table.name for table in garbage.CORRUPTED
    }
