"""One database: engines, connections and transactions, for writers and for readers.

A writer's transaction takes the write lock at its beginning, so that it never fails half-way for having
read first. A reader sees one snapshot over all its statements and holds up nobody.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import QueuePool

from scheduler.errors import ConfigError, StoreUnavailable
from scheduler.store.sql.error_translation import translated
from scheduler.store.sql.write_turns import Turns

READERS = 8
POSTGRES_WRITERS = 4
CONNECT_TIMEOUT_SECONDS = 5
#: A log longer than this is cut back after a checkpoint.
WAL_BYTES_KEPT = 64 * 1024 * 1024
_RETRY_SECONDS = 0.01

# For what is no number, text or bytes the driver looks for an adapter, and finding none takes longer than writing it.
sqlite3.register_adapter(type(None), lambda nothing: nothing)
sqlite3.register_adapter(bool, int)


class Database:
    """Transactions on SQLite or PostgreSQL. Safe to share between threads.

    `durable=False` gives up the promise that a commit outlives a power failure (for simulations).
    """

    def __init__(self, url: str, *, busy_timeout_seconds: float = 5.0, durable: bool = True) -> None:
        self.url = parse_url(url)
        self.sqlite = self.url.get_backend_name() == "sqlite"
        self.where = describe(self.url)
        #: Surrounds every transaction, for whoever measures them; told of what kind it is.
        self.measured: Callable[[str], AbstractContextManager[None]] = lambda kind: nullcontext()
        self._busy_timeout_seconds = busy_timeout_seconds
        # SQLite has one writer at a time; waiting here is fair and prompt, waiting in SQLite is polling.
        self._turns = Turns() if self.sqlite else None
        if self.sqlite:
            self.writer = _sqlite_engine(self.url, "BEGIN IMMEDIATE", 1, busy_timeout_seconds, durable)
            self.reader = _sqlite_engine(self.url, "BEGIN", READERS, busy_timeout_seconds, durable)
            event.listen(self.reader, "connect", _forbid_writes)
        else:
            self.writer = _postgres_engine(self.url, POSTGRES_WRITERS, busy_timeout_seconds, durable)
            self.reader = _postgres_engine(self.url, READERS, busy_timeout_seconds, durable).execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )

    @contextmanager
    def write(self, *, urgent: bool = False) -> Iterator[Connection]:
        """A transaction that commits at the end of the block and rolls back on any exception.

        On SQLite, who is urgent goes before all others of this process that wait.
        """
        with (
            self.measured("urgent" if urgent else "write"),
            translated(self.where),
            self._turn(urgent=urgent),
            self.writer.begin() as connection,
        ):
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A read-only transaction: one snapshot."""
        with self.measured("read"), translated(self.where), self.reader.begin() as connection:
            try:
                yield connection
            except BaseException:
                # A half-read cursor would hold SQLite's snapshot for whoever gets this connection next.
                connection.invalidate()
                raise

    @contextmanager
    def _turn(self, *, urgent: bool) -> Iterator[None]:
        if self._turns is None:
            yield
            return
        with self._turns.taken(self._busy_timeout_seconds, urgent=urgent) as taken:
            if not taken:
                raise StoreUnavailable(f"database is busy: {self.where}: other writes took too long; try again")
            yield

    def close(self) -> None:
        """Close all idle connections; the database may be used again afterwards."""
        self.reader.dispose()
        self.writer.dispose()


def parse_url(url: str) -> URL:
    """The URL with its driver. Raises `ConfigError` for anything but a SQLite file or PostgreSQL."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ConfigError(f"database_url: not a database URL: {url.partition('@')[0].partition(':')[0]}:...") from None
    match parsed.drivername:
        case "sqlite" | "sqlite+pysqlite":
            if not parsed.database or parsed.database == ":memory:" or parsed.database.startswith("file:"):
                raise ConfigError("database_url: SQLite needs a file, such as sqlite:////var/lib/sched/sched.db")
            return parsed.set(drivername="sqlite+pysqlite")
        case "postgresql" | "postgres" | "postgresql+psycopg":
            return parsed.set(drivername="postgresql+psycopg")
        case other:
            raise ConfigError(f"database_url: {other} is not supported: use sqlite:///PATH or postgresql://...")


def describe(url: URL) -> str:
    """The database for messages: without its password."""
    if url.get_backend_name() == "sqlite":
        return str(Path(url.database or "").absolute())
    return url.set(drivername="postgresql", query={}).render_as_string(hide_password=True)


def create_private(_dialect: object, _record: object, arguments: Sequence[Any], _options: object) -> None:
    """Before SQLite makes a file: it will hold secrets, so only its owner may read it. Files beside it get its mode.

    A listener to `do_connect`, where the first argument is the path.
    """
    try:
        os.close(os.open(arguments[0], os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:
        return  # it exists, or SQLite will say what is wrong


def _use_wal(connection: sqlite3.Connection, patience_seconds: float) -> None:
    """Readers and a writer beside each other. For the lock that this may take, SQLite itself never waits."""
    waited_seconds = 0.0
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or waited_seconds >= patience_seconds:
                raise
        time.sleep(_RETRY_SECONDS)
        waited_seconds += _RETRY_SECONDS


def _sqlite_engine(url: URL, begin: str, connections: int, busy_timeout_seconds: float, durable: bool) -> Engine:
    engine = create_engine(
        url,
        poolclass=QueuePool,
        pool_size=connections,
        max_overflow=0,
        pool_timeout=busy_timeout_seconds,
        connect_args={"timeout": busy_timeout_seconds, "check_same_thread": False},
    )

    def prepare(connection: Any, _record: object) -> None:
        # The driver begins transactions late and by itself otherwise; here `begin` does.
        connection.isolation_level = None
        connection.text_factory = _text
        _use_wal(connection, busy_timeout_seconds)
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES_KEPT}")

    def start(connection: Connection) -> None:
        # Past SQLAlchemy's cursor, which takes longer than most statements: there is nothing to bind, and no rows.
        connection.connection.driver_connection.execute(begin)  # type: ignore[union-attr]

    event.listen(engine, "do_connect", create_private)
    event.listen(engine, "connect", prepare)
    event.listen(engine, "begin", start)
    return engine


def _text(stored: bytes) -> str:
    """A text as it is stored: one that is not UTF-8 fails no query, and is told where it is read."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored.decode(errors="surrogateescape")


def _forbid_writes(connection: Any, _record: object) -> None:
    connection.execute("PRAGMA query_only = ON")


def _postgres_engine(url: URL, connections: int, busy_timeout_seconds: float, durable: bool) -> Engine:
    options = f"-c lock_timeout={int(busy_timeout_seconds * 1000)} -c synchronous_commit={'on' if durable else 'off'}"
    defaults = {
        "connect_timeout": CONNECT_TIMEOUT_SECONDS,
        # A server that has vanished without a word is given up after this.
        "tcp_user_timeout": int(busy_timeout_seconds * 1000),
        "application_name": "sched",
    }
    given = {name: value for name, value in defaults.items() if name not in url.query}
    return create_engine(
        url,
        pool_size=connections,
        max_overflow=0,
        pool_timeout=busy_timeout_seconds,
        connect_args={**given, "options": f"{options} {url.query.get('options', '')}".strip()},
    )
