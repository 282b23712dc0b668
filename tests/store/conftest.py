"""Stores on both databases. A test that takes `store` or `database_url` runs once on each."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scheduler.store import SqlStore
from tests import postgres
from tests.databases import migrated_sqlite

OpenStore = Callable[..., SqlStore]

BOTH = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(params=BOTH)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def database_url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A fresh database with all tables."""
    if backend == "sqlite":
        yield migrated_sqlite(tmp_path / "sched.db")
        return
    server: postgres.PostgresServer = request.getfixturevalue("postgres_server")
    url = server.new_database()
    yield url
    server.drop_database(url)


@pytest.fixture
def empty_url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database without tables."""
    if backend == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.db'}"
        return
    server: postgres.PostgresServer = request.getfixturevalue("postgres_server")
    url = server.new_database(empty=True)
    yield url
    server.drop_database(url)


@pytest.fixture
def open_store() -> Iterator[OpenStore]:
    """Opens stores that are closed at the end of the test."""
    opened: list[SqlStore] = []

    def open_one(url: str, busy_timeout_seconds: float = 60.0) -> SqlStore:
        opened.append(SqlStore(url, busy_timeout_seconds=busy_timeout_seconds))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(database_url: str, open_store: OpenStore) -> SqlStore:
    return open_store(database_url)
