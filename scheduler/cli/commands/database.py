"""`sched db`: the database's schema. Works on the database itself, without a daemon."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scheduler.cli.command import LOCAL, Session, command
from scheduler.cli.render.output import emit_json, say
from scheduler.cli.settings import ConfigOption, DatabaseOption, settings_from
from scheduler.errors import Conflict, SchemaMismatch

if TYPE_CHECKING:
    from scheduler.store.records import StoredRow
    from scheduler.store.sqlstore import SqlStore


def upgrade(session: Session, config: ConfigOption = None, database_url: DatabaseOption = None) -> None:
    """Create the tables, or upgrade them to this version."""

    def act(store: "SqlStore") -> None:
        store.upgrade()
        _tell(session, store, "current", f"the database is up to date: {store.where}")

    _with_store(session, config, database_url, act)


def check(session: Session, config: ConfigOption = None, database_url: DatabaseOption = None) -> None:
    """Check that the tables match this version; exit with status 4 if they do not."""

    def act(store: "SqlStore") -> None:
        store.check_schema()
        _tell(session, store, "current", f"the database is up to date: {store.where}")

    _with_store(session, config, database_url, act)


def version(session: Session, config: ConfigOption = None, database_url: DatabaseOption = None) -> None:
    """Show the version of sched, its database, and whether the two match."""
    from scheduler import __version__

    def act(store: "SqlStore") -> None:
        try:
            store.check_schema()
        except SchemaMismatch as error:
            _tell(session, store, "other", f"sched {__version__}: {error}")
        else:
            _tell(session, store, "current", f"sched {__version__}: the database is up to date: {store.where}")

    _with_store(session, config, database_url, act)


def unreadable(session: Session, config: ConfigOption = None, database_url: DatabaseOption = None) -> None:
    """List rows of the database that cannot be read; with -o json each with all its columns, as an export.

    Such a row is left as it is: a job is not decided on and its workers continue, all others are not affected. Repair
    it with the tools of the database, or delete it. The daemon notices within 30 seconds.
    """

    def act(store: "SqlStore") -> None:
        store.check_schema()
        found: list[StoredRow] = []
        store.scan_unreadable(found.append)
        if session.json:
            emit_json({"unreadable": [_exported(each) for each in found]})
            return
        for each in found:
            say(f"{each.row}")
        say(f"{len(found)} rows cannot be read" if found else "all rows can be read")

    _with_store(session, config, database_url, act)


DirectoryOption = Annotated[
    Path | None,
    typer.Option(
        "--directory",
        metavar="DIR",
        help="Forget instead which database this directory of workers belongs to, if that database is lost.",
    ),
]


def disown(
    session: Session,
    config: ConfigOption = None,
    database_url: DatabaseOption = None,
    directory: DirectoryOption = None,
) -> None:
    """Forget at which state directory the workers of the database run, if that directory is lost.

    Only when these workers have ended: the next daemon counts them as lost and starts them again. With --directory,
    the next daemon that uses the directory, with whatever database, ends the workers that still run there.
    """
    if directory is not None:
        _disown_directory(session, directory.expanduser().absolute())
    else:
        _with_store(session, config, database_url, partial(_disown_place, session))


def _disown_directory(session: Session, directory: Path) -> None:
    from scheduler.daemon.directory_owner import disown

    disown(directory)
    if session.json:
        emit_json({"directory": str(directory)})
    else:
        say(f"any database may have its workers in {directory}")


def _disown_place(session: Session, store: "SqlStore") -> None:
    from scheduler.clock import SystemClock
    from scheduler.daemon.place import leader_lives

    store.check_schema()
    if leader_lives(store, SystemClock().monotonic):
        raise Conflict(f"a daemon, {store.read_lease().holder}, uses the database: stop it first")
    store.leave_place()
    _tell(session, store, "current", f"the workers of the database may run at any state directory: {store.where}")


def _exported(row: "StoredRow") -> dict[str, object]:
    """As JSON can hold it: bytes and numbers that are none as Python writes them."""
    kept: dict[str, object] = {}
    for name, value in row.columns.items():
        if isinstance(value, str):
            value = value.encode(errors="backslashreplace").decode()  # bytes that are not UTF-8
        strange = isinstance(value, bytes | memoryview) or (isinstance(value, float) and not math.isfinite(value))
        kept[name] = repr(bytes(value) if isinstance(value, memoryview) else value) if strange else value
    return {"table": row.row.table, "key": row.row.key, "reason": row.row.reason, "columns": kept}


def _tell(session: Session, store: "SqlStore", schema: str, line: str) -> None:
    from scheduler import __version__

    if session.json:
        emit_json({"version": __version__, "database": store.where, "schema": schema})
    else:
        say(line)


def _with_store(
    session: Session, config: Path | None, database_url: str | None, act: "Callable[[SqlStore], None]"
) -> None:
    from scheduler.store.sqlstore import SqlStore

    settings = settings_from(session, config, {"database_url": database_url})
    if settings.database_url is None:
        settings.state_path.mkdir(mode=0o700, parents=True, exist_ok=True)
    store = SqlStore(settings.store_url)
    try:
        act(store)
    finally:
        store.close()


def register(app: typer.Typer) -> None:
    command(app, "upgrade", common=LOCAL)(upgrade)
    command(app, "check", common=LOCAL)(check)
    command(app, "version", common=LOCAL)(version)
    command(app, "unreadable", common=LOCAL)(unreadable)
    command(app, "disown", common=LOCAL)(disown)
