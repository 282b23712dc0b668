"""Bringing a database to this version's schema, and telling whether it is there."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event, func, select
from sqlalchemy.pool import NullPool

import scheduler
from scheduler.errors import SchemaMismatch, StoreError
from scheduler.store.database import Database, create_private
from scheduler.store.failures import translated

#: Names the lock of migrations among a PostgreSQL database's advisory locks.
ADVISORY_LOCK = 7_163_842_005
#: How long one migration may wait for another.
LOCK_WAIT_SECONDS = 60.0

#: Alembic keeps the migration that runs in module-level names.
_one_at_a_time = threading.Lock()


def migrations_path() -> Path:
    """The migrations inside an installed package, else at the top of the source tree."""
    package = Path(scheduler.__file__).parent
    for path in (package / "_migrations", package.parent / "migrations"):
        if (path / "env.py").is_file():
            return path
    raise StoreError(f"no migrations found beside {package}: the installation is not complete")


def alembic_config(connection: Connection | None = None) -> Config:
    """Alembic's settings; with a connection, its commands run inside that connection's transaction."""
    config = Config()
    config.set_main_option("script_location", str(migrations_path()).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def upgrade(database: Database) -> None:
    """Migrate to the newest revision. Concurrent upgrades wait for each other."""
    with locked(database) as connection:
        _refuse_newer(connection, database.where)
        command.upgrade(alembic_config(connection), "head")


def downgrade(database: Database, revision: str) -> None:
    """Migrate back to a revision; `base` removes every table and all that is stored."""
    with locked(database) as connection:
        _refuse_newer(connection, database.where)
        command.downgrade(alembic_config(connection), revision)


def check(database: Database) -> None:
    """Raise `SchemaMismatch` unless the database is at the newest revision."""
    with database.read() as connection:
        current = _refuse_newer(connection, database.where)
    if current is None:
        raise SchemaMismatch(f"the database has no tables yet: {database.where}: run `sched db upgrade`")
    if current != _scripts().get_current_head():
        raise SchemaMismatch(f"the database is of an older version: {database.where}: run `sched db upgrade`")


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(alembic_config())


def _refuse_newer(connection: Connection, where: str) -> str | None:
    """The database's revision, None if it has no schema."""
    current = MigrationContext.configure(connection).get_current_revision()
    known = {script.revision for script in _scripts().walk_revisions()}
    if current is not None and current not in known:
        raise SchemaMismatch(f"this version is older than the database: {where}: install a newer version")
    return current


@contextmanager
def locked(database: Database) -> Iterator[Connection]:
    """A transaction that no other migration runs beside, neither in this process nor in another."""
    engine = _sqlite_engine(database) if database.sqlite else create_engine(database.url, poolclass=NullPool)
    try:
        with _one_at_a_time, translated(database.where), engine.begin() as connection:
            if not database.sqlite:
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = {int(LOCK_WAIT_SECONDS * 1000)}")
                connection.execute(select(func.pg_advisory_xact_lock(ADVISORY_LOCK)))
            yield connection
            if database.sqlite and connection.exec_driver_sql("PRAGMA foreign_key_check").first() is not None:
                raise StoreError(f"the migration would break references: {database.where}: nothing was changed")
    finally:
        engine.dispose()
    # Connections of before may know statements that were prepared for the former tables.
    database.close()


def _sqlite_engine(database: Database) -> Engine:
    """Without foreign keys, since rebuilding a table would delete what refers to it."""
    engine = create_engine(
        database.url, poolclass=NullPool, connect_args={"timeout": LOCK_WAIT_SECONDS, "check_same_thread": False}
    )

    def prepare(connection: Any, _record: object) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("PRAGMA synchronous = FULL")

    event.listen(engine, "do_connect", create_private)
    event.listen(engine, "connect", prepare)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN EXCLUSIVE"))
    return engine
