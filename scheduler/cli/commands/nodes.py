"""`sched nodes`, `cordon`, `uncordon`, `drain`."""

from typing import Annotated

import typer

from scheduler.cli.client.resolve import in_address
from scheduler.cli.command import NODES, Session, command
from scheduler.cli.commands.batch import ask_each
from scheduler.cli.completion import complete_node
from scheduler.cli.render.output import emit_json, note, show
from scheduler.cli.render.tables import closed_lines, node_table

NodesArgument = Annotated[
    list[str], typer.Argument(metavar="NODE...", help="Names of nodes.", autocompletion=complete_node)
]


def nodes(session: Session) -> None:
    """List nodes with their health, intent, slots, CPUs and memory."""
    view = session.client.get("/v1/nodes")
    if session.json:
        emit_json(view)
        return
    if view["not_ready"]:
        note(f"the scheduler is not making decisions: {view['not_ready']}")
    if view["nodes"]:
        show(node_table(view["nodes"], session.clock.now()))
        for line in closed_lines(view["nodes"]):
            note(line)
    else:
        note("no nodes known yet")


def cordon(session: Session, names: NodesArgument) -> None:
    """Start no new workers on nodes; running workers continue."""
    _ask(session, names, "cordon", "node {} cordoned: it accepts no new workers")


def uncordon(session: Session, names: NodesArgument) -> None:
    """Accept workers again after a cordon, drain or quarantine, also on slots that are unhealthy now."""
    _ask(session, names, "uncordon", "node {} accepts workers again")


def drain(session: Session, names: NodesArgument) -> None:
    """Start no new workers on nodes and move running workers to others."""
    _ask(session, names, "drain", "node {} cordoned: it accepts no new workers, and those it has are moved off")


def _ask(session: Session, names: list[str], verb: str, told: str) -> None:
    def ask(name: str) -> str:
        session.client.post(f"/v1/nodes/{in_address('node', name)}/{verb}")
        return name

    ask_each(session, names, ask, told.format)


def register(app: typer.Typer) -> None:
    command(app, "nodes", NODES)(nodes)
    command(app, "cordon", NODES)(cordon)
    command(app, "uncordon", NODES)(uncordon)
    command(app, "drain", NODES)(drain)
