"""`sched health`: whether jobs are being decided on, by whom, which nodes take no workers, and what cannot be read."""

from typing import Any

import typer

from scheduler.bounds import NAMED_MAX
from scheduler.cli.command import DAEMON, Session, command
from scheduler.cli.exits import Exit
from scheduler.cli.render.output import Cell, emit_json, fields, show

View = dict[str, Any]


def health(session: Session) -> None:
    """Show whether decisions are made, what troubles them, which replica leads, and what is out of order.

    Named are nodes that accept no workers, what is held, and rows of the database that cannot be read.

    A job, node or pod is held if the scheduler failed while it dealt with it: decisions leave it out, and its workers
    go on. "sched resume JOB" and "sched uncordon NODE" let decisions look at it again.

    The exit status is 7 while no decisions are made.
    """
    cluster = session.client.get("/v1/cluster")
    view = {name: cluster[name] for name in ("not_ready", "troubles", "term", "leader", "version", "held")}
    away = [node for node in cluster["nodes"] if node["health"] != "UP" or node["intent"] != "ACTIVE" or node["closed"]]
    view["nodes"] = len(cluster["nodes"])
    view |= {name: cluster[name] for name in ("unreadable", "unreadable_count")}
    view["nodes_away"] = {node["name"]: _why_away(node) for node in away}
    if session.json:
        emit_json(view)
    else:
        show(fields(_facts(view)))
    if view["not_ready"]:
        raise typer.Exit(Exit.UNAVAILABLE)


def _why_away(node: View) -> str:
    state = node["health"] if node["health"] != "UP" else node["intent"]
    return str(node["closed"] if state == "ACTIVE" else state)


def _facts(view: View) -> list[tuple[str, Cell]]:
    trouble, leader = view["not_ready"], view["leader"]
    decides: Cell = (f"no: {trouble}", "red") if trouble else ("yes", "green")
    leads = "none known"
    if leader is not None:
        leads = f"{leader['name']}, term {leader['term']}{'' if view['term'] else '; answered by a standby'}"
    named = [f"{name} ({why})" for name, why in sorted(view["nodes_away"].items())]
    listed = ", ".join(named[:NAMED_MAX]) + (", …" if len(named) > NAMED_MAX else "")
    nodes: Cell = (f"{len(named)} of {view['nodes']} accept no workers: {listed}", "red")
    if not named:
        nodes = f"{view['nodes']} of {view['nodes']} accept workers" if view["nodes"] else "none known"
    return [
        ("decides", decides),
        *(("trouble", (line, "yellow")) for line in view["troubles"]),
        ("leader", leads),
        ("nodes", nodes),
        *(("held", (f"{each['kind']} {each['name']}: {each['why']}", "red")) for each in view["held"]),
        *_unreadable(view),
        ("version", view["version"]),
    ]


def _unreadable(view: View) -> list[tuple[str, Cell]]:
    """Rows of the database that nothing is decided by; nothing where there are none."""
    if not view["unreadable_count"]:
        return []
    named = [f"{row['table']} {row['key']} ({row['reason']})" for row in view["unreadable"][:NAMED_MAX]]
    listed = ", ".join(named) + (", …" if view["unreadable_count"] > len(named) else "")
    told = f"{view['unreadable_count']} rows of the database cannot be read, see sched db unreadable: {listed}"
    return [("database", (told, "red"))]


def register(app: typer.Typer) -> None:
    command(app, "health", DAEMON)(health)
