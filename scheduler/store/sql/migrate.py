"""Bringing a database to this version's schema, and telling whether it is there.

Alembic is imported where it is needed: a database that is up to date, as at nearly every start, is seen without it.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine, create_engine, event, func, inspect, select, text
from sqlalchemy.pool import NullPool

import scheduler
from scheduler.errors import SchemaMismatch, StoreError
from scheduler.store.sql.database import Database, create_private
from scheduler.store.sql.error_translation import translated

if TYPE_CHECKING:
    from alembic.config import Config

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
    raise StoreError(f"no migrations found next to {package}: the installation is incomplete")


def newest_revision() -> str:
    """The revision that this version of the program works on: files of migrations begin with theirs, and ascend."""
    return max(path.name.partition("_")[0] for path in (migrations_path() / "versions").glob("[0-9]*.py"))


def alembic_config(connection: Connection | None = None) -> "Config":
    """Alembic's settings; with a connection, its commands run inside that connection's transaction."""
    from alembic.config import Config

    # Alembic's own default is what stdout was when its module was imported.
    config = Config(stdout=sys.stdout)
    config.set_main_option("script_location", str(migrations_path()).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def upgrade(database: Database) -> None:
    """Migrate to the newest revision. Concurrent upgrades wait for each other.

    Whoever leads is deposed, and cannot lead again unless it is of this version: see `check_on`.
    """
    if _is_up_to_date(database):
        return
    from alembic import command

    with locked(database) as connection:
        _refuse_newer(_revision(connection), database.where)
        command.upgrade(alembic_config(connection), "head")
        connection.execute(text("UPDATE lease SET holder = NULL"))


def downgrade(database: Database, revision: str) -> None:
    """Migrate back to a revision; `base` removes every table and all that is stored."""
    from alembic import command

    with locked(database) as connection:
        _refuse_newer(_revision(connection), database.where)
        command.downgrade(alembic_config(connection), revision)


def check(database: Database) -> None:
    """Raise `SchemaMismatch` unless the database is at the newest revision."""
    with database.read() as connection:
        check_on(connection, database.where)


def check_on(connection: Connection, where: str) -> None:
    """Raise `SchemaMismatch` unless the connected database is at the newest revision; `where` names it for people."""
    current = _revision(connection)
    if current is None:
        raise SchemaMismatch(f"the database has no tables yet: {where}: run `sched db upgrade`")
    _refuse_newer(current, where)
    if current != newest_revision():
        raise SchemaMismatch(f"the database has an older version: {where}: run `sched db upgrade`")


def _is_up_to_date(database: Database) -> bool:
    """False also where that cannot be told now: the upgrade itself says what is wrong, or makes the file."""
    if database.sqlite and not Path(database.url.database or "").is_file():
        return False
    try:
        with database.read() as connection:
            return _revision(connection) == newest_revision()
    except StoreError:
        return False


def _revision(connection: Connection) -> str | None:
    """The database's revision, None if it has no schema."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def _refuse_newer(current: str | None, where: str) -> None:
    """Raise `SchemaMismatch` for a revision that this version has no file for."""
    if current is None or current == newest_revision():
        return
    from alembic.script import ScriptDirectory

    if current not in {script.revision for script in ScriptDirectory.from_config(alembic_config()).walk_revisions()}:
        raise SchemaMismatch(f"the database has a newer version than this scheduler: {where}: install a newer version")


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
                raise StoreError(f"the migration would violate references: {database.where}: nothing was changed")
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
