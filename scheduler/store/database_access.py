"""The database under the store: its address, its schema, and the rows in it that cannot be read."""

import secrets as random_source
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from sqlalchemy import Connection

from scheduler.model.unreadable import Unreadable
from scheduler.store.codec.reading import SetAside
from scheduler.store.queries import unreadable_rows
from scheduler.store.queries.unreadable_rows import Met
from scheduler.store.records import StoredRow
from scheduler.store.requests import shards
from scheduler.store.sql import migrate
from scheduler.store.sql.bulk_statements import Statements
from scheduler.store.sql.database import Database


class DatabaseAccess:
    """What the methods of the store share."""

    def __init__(
        self,
        url: str,
        *,
        busy_timeout_seconds: float = 5.0,
        durable: bool = True,
        random_bytes: Callable[[int], bytes] = random_source.token_bytes,
    ) -> None:
        """Opens nothing yet. Raises `ConfigError` for a URL that is neither a SQLite file nor PostgreSQL.

        `durable=False`: a commit may be lost by a power failure, for simulations only.
        """
        self._database = Database(url, busy_timeout_seconds=busy_timeout_seconds, durable=durable)
        self._statements = Statements(self._database.writer.dialect)
        self._random_bytes = random_bytes
        #: Tells what this process announces from what others do.
        self._name = random_bytes(8).hex()
        self._met = Met()
        self._queues = shards.DataQueues(self._statements, self._name)

    @property
    def where(self) -> str:
        """The database for people: a path, or a URL without its password."""
        return self._database.where

    @property
    def file(self) -> Path | None:
        """The database's file; None: it has none."""
        return Path(self._database.url.database or "").absolute() if self._database.sqlite else None

    def measure(self, measured: Callable[[str], AbstractContextManager[None]]) -> None:
        """Have every transaction from now on surrounded by this, which is told its kind: read, write or urgent."""
        self._database.measured = measured

    def close(self) -> None:
        """Close its connections."""
        self._database.close()

    # Rows that cannot be read

    @property
    def unreadable(self) -> tuple[Unreadable, ...]:
        """Those that this process has met, by table and key."""
        return self._met.rows

    def look_again(self) -> tuple[Unreadable, ...]:
        """Those of them that can be read by now, or are gone."""
        with self._database.read() as connection:
            return self._met.look_again(connection)

    def scan_unreadable(self, take: Callable[[StoredRow], None]) -> None:
        """Read every row of every table, and hand on those that cannot be read."""
        with self._database.read() as connection:
            for row in unreadable_rows.scan(connection):
                take(row)

    @contextmanager
    def _reading(self) -> Iterator[tuple[Connection, SetAside]]:
        """A snapshot, and where to put what cannot be read of it."""
        aside = SetAside()
        try:
            with self._database.read() as connection:
                yield connection, aside
        finally:
            self._met.add(aside.found)

    # The schema

    def upgrade(self) -> None:
        """Create or migrate the tables. Safe if several processes do it at once."""
        migrate.upgrade(self._database)

    def check_schema(self) -> None:
        """Raise `SchemaMismatch` unless the tables are those of this version."""
        migrate.check(self._database)
