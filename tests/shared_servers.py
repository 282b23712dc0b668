"""What a process of tests starts once for all of them: each test has its own part, or finds it as it was at first."""

from collections.abc import Iterator

import pytest

from scheduler.store.sqlstore import SqlStore
from tests import postgres
from tests.clusters.control_plane import ControlPlane, control_plane
from tests.daemon import Daemon, SharedDaemon

SLOTS = 3


@pytest.fixture(scope="session")
def shared_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedDaemon]:
    shared = SharedDaemon(
        lambda: tmp_path_factory.mktemp("shared"),
        slots=SLOTS,
        # Nothing waits: failed workers are replaced at once, and reports are shown at once.
        engine={"backoff_seconds": 0.1, "progress_interval_seconds": 0.2},
    )
    yield shared
    shared.close()


@pytest.fixture
def daemon(shared_daemon: SharedDaemon) -> Iterator[Daemon]:
    """A daemon with three slots and no job."""
    with shared_daemon.lent() as daemon:
        yield daemon


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.PostgresServer]:
    """A server whose template database has all tables."""
    if reason := postgres.missing_reason():
        pytest.skip(reason)
    with postgres.running_server() as server:
        store = SqlStore(server.make_template())
        store.upgrade()
        store.close()
        yield server


@pytest.fixture
def database(postgres_server: postgres.PostgresServer) -> Iterator[str]:
    """The URL of a fresh PostgreSQL database with all tables."""
    url = postgres_server.new_database()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    """An API server of Kubernetes; each test takes a namespace of its own."""
    with control_plane() as plane:
        yield plane
