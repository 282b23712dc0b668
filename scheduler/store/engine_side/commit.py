"""The engine's commit: everything that one tick changed, in one transaction."""

from collections.abc import Sequence

from sqlalchemy import Connection

from scheduler.engine.ports import Lease
from scheduler.errors import StaleWrite
from scheduler.model.event import Event
from scheduler.model.hosts import HostList
from scheduler.model.ids import JobId, NodeName
from scheduler.model.node import Node
from scheduler.model.worker import Worker
from scheduler.model.world import Changes
from scheduler.store.codec.account_rows import charge_values, holding_values, queue_usage_values
from scheduler.store.codec.job_rows import Values, job_values, progress_values, worker_values
from scheduler.store.codec.json_text import members_to_text
from scheduler.store.codec.rows import event_values, node_values
from scheduler.store.engine_side import leadership, node_types
from scheduler.store.engine_side.replaced import replace_unreadable
from scheduler.store.requests import bookings
from scheduler.store.requests.shards import DataQueues
from scheduler.store.sql.bulk_statements import Statements
from scheduler.store.sql.engine_tables import jobs
from scheduler.store.sql.sequences import take_ids


def commit(
    connection: Connection, statements: Statements, queues: DataQueues, changes: Changes, lease: Lease, now: float
) -> None:
    """Raises `LeaseLost` or `StaleWrite`, after which the transaction must be rolled back."""
    revision = leadership.advance(connection, lease)
    _write_jobs(connection, statements, changes, revision)
    if changes.unread:
        connection.execute(jobs.update().where(jobs.c.id.in_(changes.unread)).values(revision=revision))
    statements.upsert_workers.run(connection, [worker_values(worker) for worker in changes.workers])
    told = queues.end_workers(connection, _gone_from_data(changes), now)
    _write_nodes(connection, statements, changes.nodes, revision, now)
    node_types.note(connection, statements, changes.nodes, now)
    _forget_nodes(connection, statements, changes.forgotten)
    bookings.write(connection, changes.bookings)
    if changes.ahead_seconds is not None:
        leadership.put_ahead(connection, changes.ahead_seconds)
    statements.upsert_holdings.run(connection, [holding_values(each, revision) for each in changes.holdings])
    statements.upsert_queue_usage.run(
        connection, [queue_usage_values(account, each, revision) for account, each in changes.queue_usage]
    )
    statements.upsert_budgets_told.run(
        connection, [{"queue": path, "month": month} for path, month in changes.budgets_told]
    )
    statements.add_usage.run(connection, [charge_values(each) for each in changes.charges])
    _publish(connection, statements, changes.published, now)
    statements.delete_intents.run(connection, [{"done": intent_id} for intent_id in changes.intents_done])
    _write_events(connection, statements, (*changes.events, *told))


def _gone_from_data(changes: Changes) -> list[Worker]:
    """Workers that have ended of jobs that have declared data."""
    readers = {job.id for job in changes.jobs if job.spec.data is not None}
    return [worker for worker in changes.workers if not worker.state.live and worker.job_id in readers]


def _write_jobs(connection: Connection, statements: Statements, changes: Changes, revision: int) -> None:
    changed, progressed = [], []
    for job in changes.jobs:
        if job.id in changes.progressed:
            progressed.append(_update(job.id, job.version, progress_values(job, job.version + 1, revision)))
        else:
            changed.append(_update(job.id, job.version, job_values(job, job.version + 1, revision)))
    written = statements.update_jobs.run(connection, changed) + statements.update_progress.run(connection, progressed)
    if written != len(changes.jobs):
        raise StaleWrite(f"{len(changes.jobs) - written} of {len(changes.jobs)} jobs changed since they were read")


def _update(key: JobId | NodeName, version: int, values: Values) -> Values:
    """The new values of the row that has this key and was read with this version."""
    return {**values, "key": key, "version_read": version}


def _write_nodes(
    connection: Connection, statements: Statements, nodes: Sequence[Node], revision: int, now: float
) -> None:
    """A node that was never stored, or whose row cannot be read, has version 0."""
    replace_unreadable(connection, [node.name for node in nodes if node.version == 0], now)
    new = [node_values(node, 1, revision) for node in nodes if node.version == 0]
    written = statements.insert_nodes.run(connection, new)
    rows = [
        _update(node.name, node.version, node_values(node, node.version + 1, revision))
        for node in nodes
        if node.version > 0
    ]
    written += statements.update_nodes.run(connection, rows)
    if written != len(nodes):
        raise StaleWrite(f"{len(nodes) - written} of {len(nodes)} nodes changed since they were read")


def _forget_nodes(connection: Connection, statements: Statements, nodes: Sequence[Node]) -> None:
    rows = [{"forgotten": node.name, "version_read": node.version} for node in nodes]
    removed = statements.delete_nodes.run(connection, rows)
    if removed != len(nodes):
        raise StaleWrite(f"{len(nodes) - removed} of {len(nodes)} nodes to be removed changed since they were read")


def _publish(connection: Connection, statements: Statements, published: Sequence[HostList], now: float) -> None:
    statements.retire_generations.run(
        connection, [{"of_job": hosts.job_id, "but": hosts.generation} for hosts in published]
    )
    rows = [
        {
            "job_id": hosts.job_id,
            "generation": hosts.generation,
            "published_at": now,
            "members": members_to_text(hosts.members),
            "current": True,
        }
        for hosts in published
    ]
    statements.upsert_generations.run(connection, rows)


def _write_events(connection: Connection, statements: Statements, events: Sequence[Event]) -> None:
    if events:
        first = take_ids(connection, events=len(events)).event
        statements.insert_events.run(connection, [event_values(first + n, event) for n, event in enumerate(events)])
