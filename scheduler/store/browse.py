"""What users read: jobs, workers, events, nodes and published hosts, page by page."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, func, select, tuple_

from scheduler.model.event import Event, EventKind
from scheduler.model.hosts import HostList
from scheduler.model.ids import JobId, WorkerId, ordinal_of
from scheduler.model.job import Job, JobState
from scheduler.model.node import Node
from scheduler.model.worker import Worker
from scheduler.store.job_reader import jobs_from_rows
from scheduler.store.job_rows import worker_from_row, workers_by_job
from scheduler.store.rows import event_from_row, node_from_row
from scheduler.store.schema import events, generations, jobs, nodes, workers
from scheduler.store.text import label_needle, members_from_text
from scheduler.store.values import JobFilter


def get_job(connection: Connection, job_id: JobId) -> Job | None:
    found = _with_workers(connection, connection.execute(select(jobs).where(jobs.c.id == job_id)).all())
    return found[0] if found else None


def find_job(connection: Connection, client_key: str) -> JobId | None:
    """The job that was submitted under this key."""
    found = connection.execute(select(jobs.c.id).where(jobs.c.client_key == client_key)).scalar()
    return None if found is None else JobId(found)


def list_jobs(
    connection: Connection, wanted: JobFilter, after: int | None, limit: int, *, descending: bool
) -> list[Job]:
    query = _page(select(jobs), jobs.c.id, after, limit, descending=descending)
    if wanted.states:
        query = query.where(jobs.c.state.in_([state.value for state in wanted.states]))
    if wanted.name is not None:
        query = query.where(jobs.c.name == wanted.name)
    if wanted.user is not None:
        query = query.where(jobs.c.user_name == wanted.user)
    for key, value in wanted.labels:
        # LIKE would ignore case on SQLite, and its own name for "contains" each database has.
        query = query.where(func.replace(jobs.c.labels, label_needle(key, value), "") != jobs.c.labels)
    return _with_workers(connection, connection.execute(query).all())


def _with_workers(connection: Connection, rows: Sequence[Row[Any]]) -> list[Job]:
    active = [row.id for row in rows if row.active]
    live: dict[JobId, tuple[Worker, ...]] = {}
    if active:
        query = select(workers).where(workers.c.job_id.in_(active), workers.c.live.is_not(None))
        live = workers_by_job(connection.execute(query.order_by(workers.c.job_id, workers.c.ordinal)))
    return list(jobs_from_rows(rows, live))


def count_jobs(connection: Connection) -> dict[JobState, int]:
    rows = connection.execute(select(jobs.c.state, func.count().label("jobs")).group_by(jobs.c.state))
    counts = {JobState(row.state): row.jobs for row in rows}
    return {state: counts.get(state, 0) for state in JobState}


def list_workers(connection: Connection, job_id: JobId, after: int, limit: int) -> list[Worker]:
    query = select(workers).where(workers.c.job_id == job_id, workers.c.ordinal > after)
    return [worker_from_row(row) for row in connection.execute(query.order_by(workers.c.ordinal).limit(limit))]


def list_events(
    connection: Connection, after: int | None, job_id: JobId | None, limit: int, *, descending: bool
) -> list[tuple[int, Event]]:
    query = _page(select(events), events.c.id, after, limit, descending=descending)
    if job_id is not None:
        query = query.where(events.c.job_id == job_id)
    return [(row.id, event_from_row(row)) for row in connection.execute(query)]


def newest_of_job(
    connection: Connection, job_id: JobId, kinds: Collection[EventKind], limit: int
) -> list[tuple[int, Event]]:
    """The newest events of these kinds of the job, newest first."""
    return _newest(connection, kinds, limit, events.c.job_id == job_id)


def newest_for_job(
    connection: Connection, job_id: JobId, kinds: Collection[EventKind], limit: int, events_max: int
) -> list[tuple[int, Event]]:
    """What was done for the job, of these kinds, as far as so many newest events tell; newest first."""
    newest = connection.execute(select(func.max(events.c.id))).scalar() or 0
    return _newest(connection, kinds, limit, events.c.id > newest - events_max, events.c.for_job == job_id)


def _newest(
    connection: Connection, kinds: Collection[EventKind], limit: int, *wanted: ColumnElement[bool]
) -> list[tuple[int, Event]]:
    of_kind = events.c.kind.in_([kind.value for kind in kinds])
    query = select(events).where(*wanted, of_kind).order_by(events.c.id.desc()).limit(limit)
    return [(row.id, event_from_row(row)) for row in connection.execute(query)]


def ended_workers(connection: Connection, since: float, events_max: int) -> tuple[float, list[Worker]]:
    """Workers that ended from then on, as far as so many newest events tell; and from when on these are all."""
    newest = connection.execute(select(func.max(events.c.id))).scalar()
    if newest is None:
        return since, []
    looked_at = events.c.id > newest - events_max
    oldest = connection.execute(select(events.c.at).where(looked_at).order_by(events.c.id).limit(1)).scalar_one()
    # Events that are left out by their number are older than those.
    complete_since = max(since, oldest) if newest > events_max else since
    ended = select(events.c.job_id, events.c.worker_id).where(
        looked_at, events.c.kind == EventKind.WORKER_ENDED, events.c.at >= since
    )
    keys = [(row.job_id, ordinal_of(WorkerId(row.worker_id))) for row in connection.execute(ended)]
    found: list[Worker] = []
    for start in range(0, len(keys), _KEYS_MAX):
        chosen = tuple_(workers.c.job_id, workers.c.ordinal).in_(keys[start : start + _KEYS_MAX])
        found += map(worker_from_row, connection.execute(select(workers).where(chosen)))
    return complete_since, found


#: Variables that one statement may hold are limited.
_KEYS_MAX = 400


def list_nodes(connection: Connection) -> list[Node]:
    return sorted((node_from_row(row) for row in connection.execute(select(nodes))), key=lambda node: node.name)


def published_hosts(connection: Connection, job_id: JobId) -> HostList | None:
    query = select(generations).where(generations.c.job_id == job_id, generations.c.current)
    row = connection.execute(query).one_or_none()
    return None if row is None else HostList(job_id, row.generation, members_from_text(row.members))


def _page(query: Select[Any], key: Any, after: int | None, limit: int, *, descending: bool) -> Select[Any]:
    if after is not None:
        query = query.where(key < after if descending else key > after)
    return query.order_by(key.desc() if descending else key).limit(limit)
