"""Removal of what is too old. Only ended jobs go, with their workers and generations; events go by their own age."""

from sqlalchemy import Connection, exists, select

from scheduler.model.job_state import TERMINAL_STATES
from scheduler.store.records import Purged
from scheduler.store.sql.engine_tables import events, jobs, node_types, nodes, workers


def purge(connection: Connection, before_jobs: float, before_events: float, limit: int) -> Purged:
    """Remove at most `limit` jobs that ended, and as many events that happened, before these times."""
    is_over = (jobs.c.finished_at < before_jobs) & jobs.c.state.in_(sorted(state.value for state in TERMINAL_STATES))
    ended = select(jobs.c.id).where(is_over).order_by(jobs.c.finished_at).limit(limit)
    removed = connection.execute(jobs.delete().where(jobs.c.id.in_(ended)))
    if removed.rowcount < limit:
        _purge_types(connection, limit)
    return Purged(removed.rowcount, _purge_events(connection, before_events, limit))


def _purge_types(connection: Connection, limit: int) -> None:
    """Remove at most `limit` GPU types of nodes that nothing stored names any more."""
    named = exists().where(nodes.c.name == node_types.c.node)
    gone = connection.execute(select(node_types.c.node).where(~named).distinct().limit(limit)).scalars().all()
    if gone:
        unnamed = node_types.c.node.in_(gone) & node_types.c.node.not_in(select(workers.c.node))
        connection.execute(node_types.delete().where(unnamed))


def _purge_events(connection: Connection, before: float, limit: int) -> int:
    """Ids follow time closely, so that looking at the lowest ones spares an index on time."""
    oldest = connection.execute(select(events.c.id, events.c.at).order_by(events.c.id).limit(limit)).all()
    last = 0
    for row in oldest:
        if isinstance(row.at, float) and row.at >= before:
            break
        last = row.id
    return connection.execute(events.delete().where(events.c.id <= last)).rowcount if last else 0
