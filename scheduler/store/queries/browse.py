"""What users read: jobs, workers, events, nodes and published hosts, page by page."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, bindparam, func, select, tuple_

from scheduler.model.event import Event, EventKind
from scheduler.model.hosts import HostList
from scheduler.model.ids import JobId, WorkerId, ordinal_of
from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.model.node import Node
from scheduler.model.worker import Worker
from scheduler.store.codec.job_reader import JOB_COLUMNS, jobs_from_rows
from scheduler.store.codec.job_rows import WORKER_COLUMNS, worker_from_row, workers_by_job
from scheduler.store.codec.json_text import label_needle, members_from_text
from scheduler.store.codec.reading import SetAside, unreadable
from scheduler.store.codec.rows import NODE_COLUMNS, event_from_row, events_from_rows, read_nodes
from scheduler.store.records import JobFilter, JobPage, WorkerPage
from scheduler.store.sql.engine_tables import IS_CURRENT, IS_OF_A_QUEUE, events, generations, jobs, workers

# Put together once: its columns are many, and it is asked for often.
_JOB = select(*JOB_COLUMNS).where(jobs.c.id == bindparam("wanted"))


def get_job(connection: Connection, job_id: JobId, aside: SetAside) -> Job | None:
    """Raises `UnreadableRow`."""
    rows = connection.execute(_JOB, {"wanted": job_id}).all()
    for job in _with_workers(connection, rows, aside):
        return job
    for row in aside.rows:
        if row.table == jobs.name:
            raise unreadable(row)
    return None


def find_job(connection: Connection, client_key: str) -> JobId | None:
    """The job that was submitted under this key."""
    found = connection.execute(select(jobs.c.id).where(jobs.c.client_key == client_key)).scalar()
    return None if found is None else JobId(found)


def list_jobs(
    connection: Connection, wanted: JobFilter, after: int | None, limit: int, aside: SetAside, *, descending: bool
) -> JobPage:
    query = _page(select(*JOB_COLUMNS), jobs.c.id, after, limit, descending=descending)
    if wanted.states:
        query = query.where(jobs.c.state.in_([state.value for state in wanted.states]))
    if wanted.name is not None:
        query = query.where(jobs.c.name == wanted.name)
    if wanted.user is not None:
        query = query.where(jobs.c.user_name == wanted.user)
    if wanted.queue is not None:
        query = query.where(_within(wanted.queue))
        if wanted.states and not any(state.terminal for state in wanted.states):
            query = query.where(IS_OF_A_QUEUE)  # says nothing new, but opens the index of these jobs
    for key, value in wanted.labels:
        # LIKE would ignore case on SQLite, and its own name for "contains" each database has.
        query = query.where(func.replace(jobs.c.labels, label_needle(key, value), "") != jobs.c.labels)
    rows = connection.execute(query).all()
    found = _with_workers(connection, rows, aside)
    unread = tuple(row for row in aside.rows if row.table == jobs.name)
    return JobPage(tuple(found), unread, rows[-1].id if len(rows) == limit else None)


def _within(path: str) -> ColumnElement[bool]:
    """Holds for jobs of the queue and of those inside it, also of queues that do not exist any more."""
    inside = f"{path}/"
    # Neither a range nor LIKE: the first is a prefix in some collations only, the second ignores case on SQLite.
    return (jobs.c.queue == path) | (func.substr(jobs.c.queue, 1, len(inside)) == inside)


def _with_workers(connection: Connection, rows: Sequence[Row[Any]], aside: SetAside) -> list[Job]:
    active = [row.id for row in rows if row.active]
    live: dict[JobId, tuple[Worker, ...]] = {}
    if active:
        query = select(*WORKER_COLUMNS).where(workers.c.job_id.in_(active), workers.c.live.is_not(None))
        live = workers_by_job(connection.execute(query.order_by(workers.c.job_id, workers.c.ordinal)), aside)
    return list(jobs_from_rows(rows, live, aside))


def count_jobs(connection: Connection) -> dict[JobState, int]:
    rows = connection.execute(select(jobs.c.state, func.count().label("jobs")).group_by(jobs.c.state))
    counts = {row.state: row.jobs for row in rows}
    return {state: counts.get(state.value, 0) for state in JobState}


def list_workers(connection: Connection, job_id: JobId, after: int, limit: int, aside: SetAside) -> WorkerPage:
    query = select(*WORKER_COLUMNS).where(workers.c.job_id == job_id, workers.c.ordinal > after)
    rows = connection.execute(query.order_by(workers.c.ordinal).limit(limit)).all()
    found = tuple(aside.read(workers, rows, worker_from_row))
    # An ordinal that is no number sorts last.
    last = rows[-1].ordinal if len(rows) == limit and type(rows[-1].ordinal) is int else None
    return WorkerPage(found, tuple(aside.rows), last)


def list_events(
    connection: Connection, after: int | None, job_id: JobId | None, limit: int, aside: SetAside, *, descending: bool
) -> list[tuple[int, Event]]:
    query = _page(select(events), events.c.id, after, limit, descending=descending)
    if job_id is not None:
        query = query.where(events.c.job_id == job_id)
    return list(events_from_rows(connection.execute(query), aside))


def newest_of_job(
    connection: Connection, job_id: JobId, kinds: Collection[EventKind], limit: int, aside: SetAside
) -> list[tuple[int, Event]]:
    """The newest events of these kinds of the job, newest first."""
    return _newest(connection, kinds, limit, aside, events.c.job_id == job_id)


def newest_for_job(
    connection: Connection,
    job_id: JobId,
    kinds: Collection[EventKind],
    limit: int,
    events_max: int,
    aside: SetAside,
) -> list[tuple[int, Event]]:
    """Events of these kinds done for the job, among the newest `events_max` events; newest first."""
    newest = connection.execute(select(func.max(events.c.id))).scalar() or 0
    return _newest(connection, kinds, limit, aside, events.c.id > newest - events_max, events.c.for_job == job_id)


def _newest(
    connection: Connection, kinds: Collection[EventKind], limit: int, aside: SetAside, *wanted: ColumnElement[bool]
) -> list[tuple[int, Event]]:
    of_kind = events.c.kind.in_([kind.value for kind in kinds])
    query = select(events).where(*wanted, of_kind).order_by(events.c.id.desc()).limit(limit)
    rows = connection.execute(query)
    return list(aside.read(events, rows, lambda row: (row.id, event_from_row(row))))


def ended_workers(connection: Connection, since: float, events_max: int, aside: SetAside) -> tuple[float, list[Worker]]:
    """Workers that ended since then, among the newest `events_max` events; and since when these are all."""
    newest = connection.execute(select(func.max(events.c.id))).scalar()
    if newest is None:
        return since, []
    looked_at = events.c.id > newest - events_max
    oldest = connection.execute(select(events.c.at).where(looked_at).order_by(events.c.id).limit(1)).scalar_one()
    # Events that are left out by their number are older than those.
    complete_since = max(since, oldest) if newest > events_max and isinstance(oldest, float) else since
    ended = select(events.c.job_id, events.c.worker_id).where(
        looked_at, events.c.kind == EventKind.WORKER_ENDED, events.c.at >= since
    )
    keys = [key for row in connection.execute(ended) if (key := _key_of(row.job_id, row.worker_id)) is not None]
    found: list[Worker] = []
    for start in range(0, len(keys), _KEYS_MAX):
        chosen = tuple_(workers.c.job_id, workers.c.ordinal).in_(keys[start : start + _KEYS_MAX])
        found += aside.read(workers, connection.execute(select(*WORKER_COLUMNS).where(chosen)), worker_from_row)
    return complete_since, found


def _key_of(job_id: Any, worker_id: Any) -> tuple[int, int] | None:
    """Job and ordinal of the worker that an event names; None where that cannot be read."""
    try:
        return int(job_id), ordinal_of(WorkerId(worker_id))
    except (TypeError, ValueError, AttributeError):
        return None


#: Variables that one statement may hold are limited.
_KEYS_MAX = 400


def list_nodes(connection: Connection, aside: SetAside) -> list[Node]:
    return read_nodes(connection.execute(select(*NODE_COLUMNS)), aside)


def published_hosts(connection: Connection, job_id: JobId) -> HostList | None:
    query = select(generations).where(generations.c.job_id == job_id, IS_CURRENT)
    row = connection.execute(query).one_or_none()
    return None if row is None else HostList(job_id, row.generation, members_from_text(row.members))


def _page(query: Select[Any], key: Any, after: int | None, limit: int, *, descending: bool) -> Select[Any]:
    if after is not None:
        query = query.where(key < after if descending else key > after)
    return query.order_by(key.desc() if descending else key).limit(limit)
