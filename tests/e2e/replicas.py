"""Two daemons over one PostgreSQL database that share the workers of this machine."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from scheduler.store.sqlstore import SqlStore
from tests.daemon import Daemon
from tests.postgres import PostgresServer, missing_reason, running_server


@contextmanager
def migrated_server() -> Iterator[PostgresServer]:
    """A server of one's own with the tables; the test is skipped where there is none."""
    if reason := missing_reason():
        pytest.skip(reason)
    with running_server() as server:
        store = SqlStore(server.url("postgres"))
        store.upgrade()
        store.close()
        yield server


@contextmanager
def leader_and_standby(
    directory: Path, server: PostgresServer, settings: Mapping[str, Any]
) -> Iterator[tuple[Daemon, Daemon]]:
    """Both run; the first leads."""
    workers = directory / "workers"
    both = {"local": {"slots": 4, "directory": str(workers)}, **settings}
    with ExitStack() as stack:
        pair = []
        for name in ("a", "b"):
            daemon = Daemon(directory / name, both, database_url=server.url("postgres"), workers_dir=workers)
            stack.callback(daemon.close)
            daemon.start()
            pair.append(daemon)
        yield pair[0], pair[1]
        for daemon in pair:  # before workers are ended through the supervisor, which one that lives on would take over
            daemon.kill()
