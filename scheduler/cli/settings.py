"""The daemon's settings as a command line gives them: options over environment over file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scheduler.cli.command import Session

if TYPE_CHECKING:
    from scheduler.config import Settings

ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="TOML file with the settings of the daemon.")
]
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        envvar="SCHED_DATABASE_URL",
        metavar="URL",
        help="sqlite:///PATH or postgresql://… (default: SQLite in the state directory).",
    ),
]


def settings_from(
    session: Session, config: Path | None, given: dict[str, Any], defaults: dict[str, Any] | None = None
) -> "Settings":
    """Settings with these fields over all others, nested as in the file; None: not given. Raises `ConfigError`.

    `defaults` take the place of those that the settings have by themselves.
    """
    from scheduler.config import load_settings

    return load_settings(config, _present({"state_dir": session.state_dir, **given}), defaults)


def _present(given: dict[str, Any]) -> dict[str, Any]:
    nested = {key: _present(value) if isinstance(value, dict) else value for key, value in given.items()}
    return {key: value for key, value in nested.items() if value is not None}
