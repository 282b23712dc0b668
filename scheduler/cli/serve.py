"""`sched serve`: the daemon in the foreground."""

import typer

from scheduler.cli.command import DAEMON, Session, command


def serve(session: Session) -> None:
    """Run the daemon until SIGTERM or Ctrl-C; workers go on without it."""


def register(app: typer.Typer) -> None:
    command(app, "serve", DAEMON)(serve)
