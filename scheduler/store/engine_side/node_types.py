"""The GPU types that nodes have had, so that what their workers held is told by type once nodes are gone or changed."""

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, bindparam, select

from scheduler.model.node import Node
from scheduler.store.sql.bulk_statements import Statements
from scheduler.store.sql.engine_tables import node_types

#: Nodes looked up by one query; both databases limit the number of parameters.
NODES_PER_QUERY = 1000
_OF_NODES = (
    select(node_types.c.node, node_types.c.gpu_type)
    .where(node_types.c.node.in_(bindparam("names", expanding=True)))
    .order_by(node_types.c.since)
)


def note(connection: Connection, statements: Statements, nodes: Sequence[Node], now: float) -> None:
    """Remember the types of these nodes that differ from those before."""
    known = dict(_latest(connection, [node.name for node in nodes]))
    rows = [
        {"node": node.name, "since": now, "gpu_type": node.gpu_type or ""}
        for node in nodes
        if known.get(node.name) != (node.gpu_type or "")
    ]
    statements.upsert_node_types.run(connection, rows)


def _latest(connection: Connection, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Nodes with their types, the latest type of each last."""
    for start in range(0, len(names), NODES_PER_QUERY):
        for row in connection.execute(_OF_NODES, {"names": names[start : start + NODES_PER_QUERY]}):
            yield row.node, row.gpu_type
