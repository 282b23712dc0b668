"""`sched top`: the cluster, live."""

import sys
import time
from collections.abc import Callable
from typing import Annotated

import typer

from scheduler.cli.client import Client
from scheduler.cli.command import WATCH, Session, command
from scheduler.cli.exits import Unavailable, Unreachable
from scheduler.cli.output import console, emit_json, show
from scheduler.cli.topview import View, draw
from scheduler.clock import SystemClock


def top(
    session: Session,
    once: Annotated[bool, typer.Option("--once", help="Show it once; so do pipes and files.")] = False,
    interval: Annotated[float, typer.Option("--interval", "-d", min=0.1, help="Seconds between looks.")] = 1.0,
) -> None:
    """Show slots and jobs live, until Ctrl-C."""
    if session.json:
        emit_json(look(session.client))
    elif once or not sys.stdout.isatty():
        show(draw(look(session.client), session.clock.now()))
    else:
        watch(session.client, interval_seconds=interval, screen=True)


def look(client: Client) -> View:
    """The cluster's summary."""
    view: View = client.get("/v1/cluster")
    return view


def watch(
    client: Client,
    *,
    interval_seconds: float = 1.0,
    screen: bool = False,
    go_on: Callable[[], bool] = lambda: True,
    clock: SystemClock | None = None,
) -> None:
    """Redraw the live view on stdout while `go_on()` holds. `screen`: use the whole terminal and restore it at the end.

    While the daemon is away the last picture stays, under a line that says so.
    """
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    reading = clock or SystemClock()
    cluster = look(client)
    with Live(console=console(), screen=screen, auto_refresh=False, transient=screen) as live:
        away = ""
        while go_on():
            picture = draw(cluster, reading.now(), jobs_max=_rows_for_jobs(cluster, live.console.height))
            live.update(Group(Text(away, style="red"), picture) if away else picture, refresh=True)
            time.sleep(interval_seconds)
            try:
                cluster = look(client)
                away = ""
            except (Unreachable, Unavailable) as error:
                away = str(error)


def _rows_for_jobs(cluster: View, height: int) -> int:
    """How many jobs fit under the map of the nodes."""
    return max(5, height - len(cluster["nodes"]) - 5)


def register(app: typer.Typer) -> None:
    command(app, "top", WATCH)(top)
