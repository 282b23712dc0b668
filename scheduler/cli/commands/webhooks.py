"""`sched webhooks`: who is told of events, and how that goes."""

from typing import Any

import typer

from scheduler.cli.command import DAEMON, Session, command
from scheduler.cli.render.output import Cell, Column, emit_json, note, show, table
from scheduler.cli.render.times import ago, span

View = dict[str, Any]

_COLUMNS = (
    Column("WEBHOOK"),
    Column("RECEIVER", fold=True),
    Column("EVENTS", fold=True),
    Column("DELIVERED", right=True),
    Column("LAST"),
    Column("WAITING", right=True),
    Column("STATE", fold=True),
)


def webhooks(session: Session) -> None:
    """List webhooks with their deliveries, backlog and errors."""
    view = session.client.get("/v1/webhooks")
    if session.json:
        emit_json(view)
    elif view["webhooks"]:
        show(table(_COLUMNS, [_row(each, session.clock.now()) for each in view["webhooks"]]))
    else:
        note("no webhooks: configure one under [webhooks.NAME] in the settings of the daemon")


def _row(each: View, now: float) -> list[Cell]:
    return [
        each["name"],
        each["receiver"],
        " ".join(each["events"]) or "all",
        f"{each['delivered']:,}",
        ago(each["delivered_at"], now),
        f"{each['waiting']:,}",
        _state(each, now),
    ]


def _state(each: View, now: float) -> Cell:
    if each["position"] is None:
        return "starts when the leader has read the settings", "dim"
    if not each["attempts"]:
        return "ok", "green"
    again = "now" if each["next_try_at"] <= now else f"in {span(each['next_try_at'] - now)}"
    failing = f"failing for {span(now - each['failing_since'])}, {each['attempts']} tries"
    return f"{failing}: {each['error']}; next try {again}", "red"


def register(app: typer.Typer) -> None:
    command(app, "webhooks", DAEMON)(webhooks)
