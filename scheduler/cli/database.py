"""`sched db`: the database's schema. Works on the database itself, without a daemon."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scheduler.cli.command import Session, command
from scheduler.cli.output import emit_json, say
from scheduler.errors import SchemaMismatch

if TYPE_CHECKING:
    from scheduler.store.sqlstore import SqlStore

ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings of the daemon, a TOML file.")
]
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        envvar="SCHED_DATABASE_URL",
        metavar="URL",
        help="sqlite:///… or postgresql://… (default: SQLite in the state directory).",
    ),
]


def upgrade(session: Session, config: ConfigOption = None, database_url: DatabaseOption = None) -> None:
    """Create the tables, or bring them to what this version needs."""

    def act(store: "SqlStore") -> None:
        store.upgrade()
        _tell(session, store, "current", f"the database is up to date: {store.where}")

    _with_store(session, config, database_url, act)


def check(session: Session, config: ConfigOption = None, database_url: DatabaseOption = None) -> None:
    """Check that the tables are those of this version; exit 4 if not."""

    def act(store: "SqlStore") -> None:
        store.check_schema()
        _tell(session, store, "current", f"the database is up to date: {store.where}")

    _with_store(session, config, database_url, act)


def version(session: Session, config: ConfigOption = None, database_url: DatabaseOption = None) -> None:
    """Show which version this is, which database it would use, and whether they fit."""
    from scheduler import __version__

    def act(store: "SqlStore") -> None:
        try:
            store.check_schema()
        except SchemaMismatch as error:
            _tell(session, store, "other", f"sched {__version__}: {error}")
        else:
            _tell(session, store, "current", f"sched {__version__}: the database is up to date: {store.where}")

    _with_store(session, config, database_url, act)


def _tell(session: Session, store: "SqlStore", schema: str, line: str) -> None:
    from scheduler import __version__

    if session.json:
        emit_json({"version": __version__, "database": store.where, "schema": schema})
    else:
        say(line)


def _with_store(
    session: Session, config: Path | None, database_url: str | None, act: "Callable[[SqlStore], None]"
) -> None:
    from scheduler.config import load_settings
    from scheduler.store.sqlstore import SqlStore

    overrides = {"state_dir": session.state_dir, "database_url": database_url}
    settings = load_settings(config, {key: value for key, value in overrides.items() if value is not None})
    if settings.database_url is None:
        settings.state_path.mkdir(mode=0o700, parents=True, exist_ok=True)
    store = SqlStore(settings.store_url)
    try:
        act(store)
    finally:
        store.close()


def register(app: typer.Typer) -> None:
    command(app, "upgrade")(upgrade)
    command(app, "check")(check)
    command(app, "version")(version)
