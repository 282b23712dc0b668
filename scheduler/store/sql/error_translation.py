"""From what a database driver raises to the project's errors: one line that says what, where, and what to do."""

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import PendingRollbackError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from scheduler.errors import InvalidInput, SchedulerError, SchemaMismatch, StoreError, StoreUnavailable

#: SQLite's primary result codes that pass without a change to the program, with what to do about each.
_SQLITE_PASSING = {
    sqlite3.SQLITE_BUSY: "database is locked: {where}: another process is writing to it; retrying until it is free",
    sqlite3.SQLITE_LOCKED: "database is locked: {where}: retrying until it is free",
    sqlite3.SQLITE_FULL: "database or disk is full: {where}: free some space; the daemon then continues by itself",
    sqlite3.SQLITE_READONLY: "database cannot be written: {where}: check the permissions of the file and its directory",
    sqlite3.SQLITE_IOERR: "disk error: {where}: {error}: check the disk and its free space",
    sqlite3.SQLITE_CANTOPEN: "database cannot be opened: {where}: check that its directory exists and is writable",
    sqlite3.SQLITE_PROTOCOL: "database is locked: {where}: retrying until it is free",
    sqlite3.SQLITE_NOMEM: "out of memory: {where}",
}

_NO_SCHEMA = "the database does not have the tables of this version: {where}: run `sched db upgrade`"


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Raise one of the project's errors for whatever the driver raises inside."""
    try:
        yield
    except StatementError as error:
        raise _translate(error.orig, where) from error
    except PoolTimeout as error:
        raise StoreUnavailable(f"database is busy: {where}: no connection became free in time") from error
    except (OverflowError, UnicodeError) as error:
        raise _unstorable(error) from error
    except PendingRollbackError as error:
        # The connection broke inside the transaction.
        raise StoreUnavailable(f"database connection lost: {where}: {_first_line(error)}") from error
    except Exception as error:
        if not (isinstance(error, sqlite3.Error) or _is_of_postgres(error)):
            raise
        raise _translate(error, where) from error


def _translate(error: BaseException | None, where: str) -> SchedulerError:
    if isinstance(error, sqlite3.Error):
        return _from_sqlite(error, where)
    if _is_of_postgres(error):
        return _from_postgres(error, where)
    if isinstance(error, OverflowError | UnicodeError):
        return _unstorable(error)
    return StoreError(f"{where}: {_first_line(error)}")


def _from_sqlite(error: sqlite3.Error, where: str) -> SchedulerError:
    # The lower byte of an extended result code is the primary one.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in _SQLITE_PASSING:
        return StoreUnavailable(_SQLITE_PASSING[code].format(where=where, error=_first_line(error)))
    if isinstance(error, sqlite3.DataError):
        return _unstorable(error)
    if code == sqlite3.SQLITE_ERROR and "no such table" in str(error):
        return SchemaMismatch(_NO_SCHEMA.format(where=where))
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return StoreError(f"not a database, or damaged: {where}: restore it from a backup")
    return StoreError(f"{where}: {_first_line(error)}")


def _is_of_postgres(error: BaseException | None) -> bool:
    """Its driver takes long to import, which is done with the first PostgreSQL database."""
    psycopg = sys.modules.get("psycopg")
    return psycopg is not None and isinstance(error, psycopg.Error)


def _from_postgres(error: BaseException | None, where: str) -> SchedulerError:
    import psycopg

    if isinstance(error, psycopg.errors.DataError):
        return _unstorable(error)
    if isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.UndefinedColumn):
        return SchemaMismatch(_NO_SCHEMA.format(where=where))
    if isinstance(error, psycopg.errors.DiskFull):
        return StoreUnavailable(
            f"database or disk is full: {where}: free some space; the daemon then continues by itself"
        )
    if isinstance(error, psycopg.errors.LockNotAvailable):
        return StoreUnavailable(
            f"database is locked: {where}: another session holds locks on its rows; retrying until they are free"
        )
    if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
        return StoreUnavailable(f"database cannot be written: {where}: the server is read-only (a standby?)")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return StoreUnavailable(f"database cannot be reached: {where}: {_first_line(error)}")
    return StoreError(f"{where}: {_first_line(error)}")


def _unstorable(error: BaseException) -> InvalidInput:
    return InvalidInput("value", f"the database rejected a value: {_first_line(error)}")


def _first_line(error: BaseException | None) -> str:
    return str(error).strip().partition("\n")[0]
