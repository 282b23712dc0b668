"""Rows of nodes that cannot be read give way to what the cluster tells of the node; what they held is kept."""

import json
from collections.abc import Sequence

from sqlalchemy import Connection, select

from scheduler.model.ids import NodeName
from scheduler.store.codec.reading import Found, SetAside
from scheduler.store.codec.rows import NODE_COLUMNS, node_from_row
from scheduler.store.sql.engine_tables import nodes, replaced_rows


def replace_unreadable(connection: Connection, names: Sequence[NodeName], now: float) -> None:
    """Make room for these nodes where their row cannot be read."""
    if not names:
        return
    for row in connection.execute(select(*NODE_COLUMNS).where(nodes.c.name.in_(names))).all():
        aside = SetAside()
        for _ in aside.read(nodes, [row], node_from_row):
            pass
        for found in aside.found:
            _keep(connection, found, dict(zip(nodes.columns.keys(), row, strict=True)), now)
            connection.execute(nodes.delete().where(nodes.c.name == row.name))


def _keep(connection: Connection, found: Found, columns: dict[str, object], now: float) -> None:
    values = {
        "table_name": found.row.table,
        "row_key": found.row.key,
        "at": now,
        "reason": found.row.reason,
        "content": json.dumps(columns, default=repr),
    }
    connection.execute(replaced_rows.insert().values(values))
