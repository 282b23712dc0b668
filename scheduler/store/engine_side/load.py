"""What the engine reads: the whole world at its start, then what others commit; and the inbox at every tick."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, bindparam, exists, func, literal_column, select

from scheduler.engine.ports import Inbox, StoredNews, StoredWorld
from scheduler.model.budget import MonthSoFar
from scheduler.model.ids import JobId
from scheduler.model.intent import Intent, IntentKind
from scheduler.model.job import Job
from scheduler.model.job_state import TERMINAL_STATES, JobState
from scheduler.model.worker import Worker
from scheduler.store.codec.account_rows import holding_from_row, queue_usage_from_row
from scheduler.store.codec.job_reader import JOB_COLUMNS, jobs_from_rows
from scheduler.store.codec.job_rows import WORKER_COLUMNS, homeless, workers_by_job
from scheduler.store.codec.reading import Found, SetAside
from scheduler.store.codec.rows import NODE_COLUMNS, intent_from_row, node_from_row, read_nodes
from scheduler.store.engine_side import leadership
from scheduler.store.requests import bookings, queues
from scheduler.store.sql.engine_tables import budgets_told, holdings, jobs, nodes, queue_usage, usage, workers
from scheduler.store.sql.request_tables import intents
from scheduler.store.sql.sequences import highest_job_id

#: Rows that are held beside the values made of them.
ROWS_AT_ONCE = 1000

#: Slot-seconds of one account in an hour; what is more is no number that was written.
_HELD_MAX = 1e15
_OPEN_STATES = sorted(state.value for state in JobState if state not in TERMINAL_STATES)
#: Written out, since SQLite matches it with the condition of the index.
_SUBMITTED: ColumnElement[bool] = literal_column("intents.kind = 'SUBMIT'")
_IN_INBOX = exists().where(intents.c.job_id == jobs.c.id, _SUBMITTED)
_KNOWN_STATES = sorted(state.value for state in JobState)
_ADMITTED_OPEN_JOBS = select(*JOB_COLUMNS).where(jobs.c.state.in_(_OPEN_STATES), ~_IN_INBOX)
#: What is in no state that there is may be anything: it is looked at, and set aside.
_JOBS_IN_NO_STATE = select(*JOB_COLUMNS).where(jobs.c.state.not_in(_KNOWN_STATES) | jobs.c.state.is_(None))
_LIVE_WORKERS = select(*WORKER_COLUMNS).where(workers.c.live.is_not(None)).order_by(workers.c.job_id, workers.c.ordinal)

# Put together once: they are a part of every tick, or of every look of those that follow.
_OLDEST_INTENTS = (
    select(intents).where(intents.c.id > bindparam("after")).order_by(intents.c.id).limit(bindparam("most"))
)
_SUBMITTED_JOBS = (
    select(*JOB_COLUMNS).where(jobs.c.id.between(bindparam("first"), bindparam("last")), _IN_INBOX).order_by(jobs.c.id)
)
_FIRST_IN_INBOX = select(func.min(intents.c.job_id)).where(_SUBMITTED)
_NODES = select(*NODE_COLUMNS)

_CHANGED_JOBS = select(*JOB_COLUMNS).where(jobs.c.revision > bindparam("since")).order_by(jobs.c.id)
_THEIR_WORKERS = _LIVE_WORKERS.where(
    workers.c.job_id.in_(select(jobs.c.id).where(jobs.c.revision > bindparam("since")))
)
_HOLDINGS = select(holdings).where(holdings.c.held_slots != 0)
_CHANGED_HOLDINGS = select(holdings).where(holdings.c.revision > bindparam("since"))
_QUEUE_USAGE = select(queue_usage)
_CHANGED_QUEUE_USAGE = _QUEUE_USAGE.where(queue_usage.c.revision > bindparam("since"))
_NODE_COUNT = select(func.count()).select_from(nodes)
_CHANGED_NODES = select(*NODE_COLUMNS).where(nodes.c.revision > bindparam("since")).order_by(nodes.c.name)


def load_world(connection: Connection, aside: SetAside, went_on: Callable[[], None]) -> StoredWorld:
    """Jobs and bookings that no tick has taken yet are left out: they come through the inbox, once.

    `went_on` is called after every `ROWS_AT_ONCE` rows.
    """
    lease = leadership.read(connection)  # first: it begins the snapshot that all of it is read from
    highest_job_id, admitted_job_id = _job_ids(connection)
    found_nodes = read_nodes(connection.execute(_NODES), aside)
    went_on()
    live = workers_by_job(_rows(connection, _LIVE_WORKERS, went_on), aside)
    held = tuple(aside.read(holdings, connection.execute(_HOLDINGS), holding_from_row))
    used = tuple(aside.read(queue_usage, connection.execute(_QUEUE_USAGE), queue_usage_from_row))
    names = {node.name for node in found_nodes}
    rows = chain(_rows(connection, _ADMITTED_OPEN_JOBS, went_on), connection.execute(_JOBS_IN_NO_STATE))
    # Sorted here: the database would copy the whole rows to do it.
    open_jobs = tuple(sorted(jobs_from_rows(rows, live, aside, names), key=lambda job: job.id))
    _set_aside_homeless(live, open_jobs, aside)
    return StoredWorld(
        jobs=open_jobs,
        nodes=found_nodes,
        highest_job_id=highest_job_id,
        bookings=bookings.promised(connection, aside),
        queues=queues.present(connection, aside),
        admitted_job_id=admitted_job_id,
        revision=lease.revision,
        unreadable=tuple(aside.rows),
        ahead_seconds=lease.ahead_seconds,
        holdings=held,
        queue_usage=used,
    )


def _rows(connection: Connection, query: Select[Any], went_on: Callable[[], None]) -> Iterator[Row[Any]]:
    """What the query finds, of which few rows are there at a time."""
    with connection.execute(query, execution_options={"yield_per": ROWS_AT_ONCE}) as result:
        for part in result.partitions():
            yield from part
            went_on()


def _set_aside_homeless(live: Mapping[JobId, tuple[Worker, ...]], found: Iterable[Job], aside: SetAside) -> None:
    """Live workers whose job is none of those that were read hold their slots until somebody has looked at them."""
    known = {job.id for job in found} | {row.job_id for row in aside.rows}
    for job_id in live.keys() - known:
        aside.found.append(Found(homeless(job_id, live[job_id]), (job_id,)))


def load_news(connection: Connection, since: int, aside: SetAside) -> StoredNews:
    """What commits after that revision changed. What is in the inbox has no revision, so it is left out here too."""
    after = {"since": since}
    lease = leadership.read(connection)
    live = workers_by_job(connection.execute(_THEIR_WORKERS, after), aside)
    return StoredNews(
        jobs=tuple(jobs_from_rows(connection.execute(_CHANGED_JOBS, after), live, aside)),
        nodes=tuple(aside.read(nodes, connection.execute(_CHANGED_NODES, after), node_from_row)),
        holdings=tuple(aside.read(holdings, connection.execute(_CHANGED_HOLDINGS, after), holding_from_row)),
        queue_usage=tuple(
            aside.read(queue_usage, connection.execute(_CHANGED_QUEUE_USAGE, after), queue_usage_from_row)
        ),
        bookings=bookings.promised(connection, aside),
        queues=queues.present(connection, aside),
        highest_job_id=highest_job_id(connection),
        revision=lease.revision,
        node_count=connection.execute(_NODE_COUNT).scalar_one(),
        unreadable=tuple(aside.rows),
        ahead_seconds=lease.ahead_seconds,
    )


def month_so_far(connection: Connection, first_hour: int) -> MonthSoFar:
    """What queues are charged in the month that begins with this hour, and of which it was told in it.

    Rows without a number of a possible size do not count.
    """
    possible = usage.c.held_seconds.between(0, _HELD_MAX)
    held = select(usage.c.queue, func.sum(usage.c.held_seconds)).where(usage.c.hour >= first_hour, possible)
    told = select(budgets_told.c.queue).where(budgets_told.c.month == first_hour)
    return MonthSoFar(
        {path: float(sum_) for path, sum_ in connection.execute(held.group_by(usage.c.queue)) if isinstance(path, str)},
        frozenset(connection.execute(told).scalars()),
    )


def _job_ids(connection: Connection) -> tuple[int, int]:
    """The highest id that was given, and the highest that was taken out of the inbox: they are taken in their order."""
    highest = highest_job_id(connection)
    first_waiting = connection.execute(_FIRST_IN_INBOX).scalar_one()
    return highest, highest if first_waiting is None else first_waiting - 1


def take_inbox(connection: Connection, limit: int, aside: SetAside) -> Inbox:
    """The oldest intents with the jobs, bookings and queues that they are about; these jobs have no workers yet."""
    arrived = _arrived(connection, limit, aside)
    if not arrived:
        return Inbox((), (), unreadable=tuple(aside.rows))
    named = [intent.job_id for intent in arrived if intent.kind is IntentKind.SUBMIT and intent.job_id is not None]
    submitted = _submitted(connection, min(named), max(named), aside) if named else ()
    booked = any(intent.kind is IntentKind.BOOK for intent in arrived)
    requested = bookings.requested(connection, aside) if booked else ()
    set_anew = any(intent.kind is IntentKind.QUEUE for intent in arrived)
    present = queues.present(connection, aside) if set_anew else None
    return Inbox(tuple(arrived), submitted, requested, tuple(aside.rows), present)


def _arrived(connection: Connection, limit: int, aside: SetAside) -> list[Intent]:
    """The oldest intents that can be read; others stay where they are and keep none from being taken."""
    last = -1
    while True:
        rows = connection.execute(_OLDEST_INTENTS, {"after": last, "most": limit}).all()
        if arrived := list(aside.read(intents, rows, intent_from_row)):
            return arrived
        if len(rows) < limit:
            return []
        last = rows[-1].id


def _submitted(connection: Connection, first: int, last: int, aside: SetAside) -> tuple[Job, ...]:
    """Jobs of this range whose SUBMIT intent is pending: ids of jobs and of their intents ascend together."""
    rows = connection.execute(_SUBMITTED_JOBS, {"first": first, "last": last}).all()
    return tuple(jobs_from_rows(rows, {}, aside))
