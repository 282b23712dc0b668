"""`sched serve`: the daemon in the foreground."""

from pathlib import Path
from typing import Annotated

import typer

from scheduler.cli.client.connection import SYSTEM_SOCKET
from scheduler.cli.command import DAEMON, SILENT, Session, command
from scheduler.cli.settings import ConfigOption, DatabaseOption, settings_from
from scheduler.engine.timing import gc_pauses
from scheduler.errors import ConfigError

SYSTEM_CONFIG = Path("/etc/sched/sched.toml")
SYSTEM_DEFAULTS = {"state_dir": "/var/lib/sched", "http": {"socket": str(SYSTEM_SOCKET)}}


def serve(
    session: Session,
    slots: Annotated[
        int | None,
        typer.Option("--slots", help="Number of slots on a machine without GPUs (default: one per usable core)."),
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on (default: 127.0.0.1).")] = None,
    port: Annotated[
        int | None, typer.Option("--port", help="Port to listen on; 0 selects a free one (default: 8470).")
    ] = None,
    database_url: DatabaseOption = None,
    config: ConfigOption = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="File with the token of an administrator (http.token); required on any address except loopback.",
        ),
    ] = None,
    system: Annotated[
        bool,
        typer.Option(
            "--system",
            help="Serve all users of this machine, as root: each job runs as its user. Unless told otherwise, settings "
            "are in /etc/sched/sched.toml, the state in /var/lib/sched and the UNIX socket in /run/sched.",
        ),
    ] = False,
) -> None:
    """Run the daemon until SIGTERM or Ctrl-C; jobs keep running without it, and it finds them again when it restarts.

    Options override SCHED_GROUP__NAME environment variables, which override the --config file.
    """
    with gc_pauses.paused():  # what is imported stays
        from scheduler.daemon import run
        from scheduler.daemon.system import check_root

    if system:
        check_root()  # at first: the settings are for root to read
    given = {
        "database_url": database_url,
        "local": {"slots": slots},
        "http": {"host": host, "port": port, "token": _token(token_file)},
    }
    if not system:
        run(settings_from(session, config, given))
        return
    config = config or (SYSTEM_CONFIG if SYSTEM_CONFIG.exists() else None)
    run(settings_from(session, config, {**given, "system": {"enabled": True}}, SYSTEM_DEFAULTS))


def _token(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        token = path.read_text().strip()
    except OSError as error:
        raise ConfigError(f"--token-file: {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"--token-file: {path}: not a text file") from None
    if not token:
        raise ConfigError(f"--token-file: {path}: the file is empty")
    return token


def register(app: typer.Typer) -> None:
    command(app, "serve", DAEMON, common=SILENT)(serve)
