"""What the engine reads: the whole world at its start, then what others commit; and the inbox at every tick."""

from itertools import chain

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Connection,
    Integer,
    bindparam,
    exists,
    func,
    literal_column,
    select,
    type_coerce,
)

from scheduler.engine.ports import Inbox, StoredNews, StoredWorld
from scheduler.model.intent import IntentKind
from scheduler.model.job import TERMINAL_STATES, Job, JobState
from scheduler.store import bookings, leadership
from scheduler.store.job_reader import jobs_from_rows
from scheduler.store.job_rows import workers_by_job
from scheduler.store.rows import intent_from_row, node_from_row
from scheduler.store.schema import counters, intents, jobs, nodes, workers

#: Rows that are held beside the values made of them.
ROWS_AT_ONCE = 1000

_OPEN_STATES = sorted(state.value for state in JobState if state not in TERMINAL_STATES)
#: Written out, since SQLite matches it with the condition of the index.
_SUBMITTED: ColumnElement[bool] = literal_column("intents.kind = 'SUBMIT'")
_IN_INBOX = exists().where(intents.c.job_id == jobs.c.id, _SUBMITTED)
#: Booleans as they come: a row of which SQLAlchemy converts one value takes it as long as reading the row.
_RAW_COLUMNS = [type_coerce(c, Integer).label(c.name) if isinstance(c.type, Boolean) else c for c in jobs.columns]
_ADMITTED_OPEN_JOBS = select(*_RAW_COLUMNS).where(jobs.c.state.in_(_OPEN_STATES), ~_IN_INBOX)
_LIVE_WORKERS = select(workers).where(workers.c.live.is_not(None)).order_by(workers.c.job_id, workers.c.ordinal)

# Put together once: they are a part of every tick, or of every look of those that follow.
_OLDEST_INTENTS = select(intents).order_by(intents.c.id).limit(bindparam("most"))
_HIGHEST_JOB_ID = select(counters.c.jobs)
_FIRST_IN_INBOX = select(func.min(intents.c.job_id)).where(_SUBMITTED)
_NODES = select(nodes)

_CHANGED_JOBS = select(*_RAW_COLUMNS).where(jobs.c.revision > bindparam("since")).order_by(jobs.c.id)
_THEIR_WORKERS = _LIVE_WORKERS.where(
    workers.c.job_id.in_(select(jobs.c.id).where(jobs.c.revision > bindparam("since")))
)
_CHANGED_NODES = select(nodes).where(nodes.c.revision > bindparam("since")).order_by(nodes.c.name)


def load_world(connection: Connection) -> StoredWorld:
    """Jobs and bookings that no tick has taken yet are left out: they come through the inbox, once."""
    revision = leadership.read(connection).revision  # first: it begins the snapshot that all of it is read from
    highest_job_id, admitted_job_id = _job_ids(connection)
    live = workers_by_job(connection.execute(_LIVE_WORKERS))
    with connection.execute(_ADMITTED_OPEN_JOBS, execution_options={"yield_per": ROWS_AT_ONCE}) as result:
        # Sorted here: the database would copy the whole rows to do it.
        found = jobs_from_rows(chain.from_iterable(result.partitions()), live)
        open_jobs = tuple(sorted(found, key=lambda job: job.id))
    return StoredWorld(
        jobs=open_jobs,
        nodes=sorted((node_from_row(row) for row in connection.execute(_NODES)), key=lambda node: node.name),
        highest_job_id=highest_job_id,
        bookings=bookings.promised(connection),
        admitted_job_id=admitted_job_id,
        revision=revision,
    )


def load_news(connection: Connection, since: int) -> StoredNews:
    """What commits after that revision changed. What is in the inbox has no revision, so it is left out here too."""
    after = {"since": since}
    revision = leadership.read(connection).revision
    live = workers_by_job(connection.execute(_THEIR_WORKERS, after))
    return StoredNews(
        jobs=tuple(jobs_from_rows(connection.execute(_CHANGED_JOBS, after), live)),
        nodes=tuple(node_from_row(row) for row in connection.execute(_CHANGED_NODES, after)),
        bookings=bookings.promised(connection),
        highest_job_id=connection.execute(_HIGHEST_JOB_ID).scalar_one(),
        revision=revision,
    )


def _job_ids(connection: Connection) -> tuple[int, int]:
    """The highest id that was given, and the highest that was taken out of the inbox: they are taken in their order."""
    highest = connection.execute(_HIGHEST_JOB_ID).scalar_one()
    first_waiting = connection.execute(_FIRST_IN_INBOX).scalar_one()
    return highest, highest if first_waiting is None else first_waiting - 1


def take_inbox(connection: Connection, limit: int) -> Inbox:
    """The oldest intents with the jobs and bookings that they ask for; these jobs have no workers yet."""
    arrived = [intent_from_row(row) for row in connection.execute(_OLDEST_INTENTS, {"most": limit})]
    if not arrived:
        return Inbox((), ())
    named = [intent.job_id for intent in arrived if intent.kind is IntentKind.SUBMIT and intent.job_id is not None]
    submitted = _submitted(connection, min(named), max(named)) if named else ()
    booked = any(intent.kind is IntentKind.BOOK for intent in arrived)
    return Inbox(tuple(arrived), submitted, bookings.requested(connection) if booked else ())


def _submitted(connection: Connection, first: int, last: int) -> tuple[Job, ...]:
    """Jobs of this range whose SUBMIT intent is pending: ids of jobs and of their intents ascend together."""
    query = select(jobs).where(jobs.c.id.between(first, last), _IN_INBOX).order_by(jobs.c.id)
    return tuple(jobs_from_rows(connection.execute(query).all(), {}))
