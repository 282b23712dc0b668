"""`sched top`: the cluster, live."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from scheduler.cli.client.client import Client
from scheduler.cli.command import WATCH, Session, command
from scheduler.cli.render.live import redraw
from scheduler.cli.render.output import emit_json, show
from scheduler.cli.render.sparkline import Recent
from scheduler.cli.render.topview import View, draw
from scheduler.clock import SystemClock

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Of the nodes and of the jobs, however few lines there are.
ROWS_MIN = 5
#: The headline, the utilization, blank lines, the heads of the columns, and what says how many nodes are left out.
LINES_BESIDE = 8


def top(
    session: Session,
    once: Annotated[
        bool, typer.Option("--once", help="Print once and exit (the default if the output is not a terminal).")
    ] = False,
    interval: Annotated[float, typer.Option("--interval", "-d", min=0.1, help="Seconds between refreshes.")] = 1.0,
) -> None:
    """Show slots, jobs and the utilization of the last hour, live until Ctrl-C."""
    if session.json:
        emit_json(look(session.client))
    elif once or not sys.stdout.isatty():
        now = session.clock.now()
        show(_seen(session.client, Recent.asked(session.client, now), now))
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
    reading = clock or SystemClock()
    recent = Recent.asked(client, reading.now())
    redraw(
        lambda height: _seen(client, recent, reading.now(), height),
        interval_seconds=interval_seconds,
        screen=screen,
        go_on=go_on,
    )


def _seen(client: Client, recent: Recent, now: float, height: int | None = None) -> "RenderableType":
    cluster = look(client)
    recent.see(cluster, now)
    if height is None:
        return draw(cluster, now, recent.line())
    nodes_max, jobs_max = rows_for(len(cluster["nodes"]), len(cluster["jobs"]), height)
    return draw(cluster, now, recent.line(), nodes_max=nodes_max, jobs_max=jobs_max)


def rows_for(nodes: int, jobs: int, height: int) -> tuple[int, int]:
    """Numbers of nodes and jobs shown in `height` lines: half for each, and what the other half leaves free."""
    room = max(2 * ROWS_MIN, height - LINES_BESIDE)
    shown = min(nodes, max(room // 2, room - jobs))
    return shown, max(ROWS_MIN, room - shown)


def register(app: typer.Typer) -> None:
    command(app, "top", WATCH)(top)
