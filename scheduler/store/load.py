"""What the engine reads: the whole world at its start, and the inbox at every tick."""

from sqlalchemy import ColumnElement, Connection, exists, literal_column, select

from scheduler.engine.ports import Inbox, StoredWorld
from scheduler.model.job import TERMINAL_STATES, JobState
from scheduler.store.job_rows import JobReader, jobs_from_rows, workers_by_job
from scheduler.store.rows import intent_from_row, node_from_row
from scheduler.store.schema import counters, intents, jobs, nodes, workers

#: Rows that are held beside the values made of them.
ROWS_AT_ONCE = 1000

_OPEN_STATES = sorted(state.value for state in JobState if state not in TERMINAL_STATES)
#: Written out, since SQLite matches it with the condition of the index.
_SUBMITTED: ColumnElement[bool] = literal_column("intents.kind = 'SUBMIT'")
_ADMITTED_OPEN_JOBS = (
    select(jobs)
    .where(jobs.c.state.in_(_OPEN_STATES), ~exists().where(intents.c.job_id == jobs.c.id, _SUBMITTED))
    .order_by(jobs.c.id)
)
_LIVE_WORKERS = select(workers).where(workers.c.live.is_not(None)).order_by(workers.c.job_id, workers.c.ordinal)


def load_world(connection: Connection) -> StoredWorld:
    """Jobs whose SUBMIT intent is pending are left out: they come through the inbox, once."""
    live = workers_by_job(connection.execute(_LIVE_WORKERS))
    rows = connection.execute(_ADMITTED_OPEN_JOBS, execution_options={"yield_per": ROWS_AT_ONCE})
    open_jobs = tuple(jobs_from_rows(rows, live))
    return StoredWorld(
        jobs=open_jobs,
        nodes=sorted((node_from_row(row) for row in connection.execute(select(nodes))), key=lambda node: node.name),
        highest_job_id=connection.execute(select(counters.c.jobs)).scalar_one(),
    )


def take_inbox(connection: Connection, limit: int) -> Inbox:
    """The oldest intents with the jobs that were submitted by them; these have no workers yet."""
    oldest = select(intents).order_by(intents.c.id).limit(limit)
    arrived = [intent_from_row(row) for row in connection.execute(oldest)]
    if not arrived:
        return Inbox((), ())
    submitted = (
        select(jobs)
        .join(intents, intents.c.job_id == jobs.c.id)
        .where(_SUBMITTED, intents.c.id <= arrived[-1].id)
        .order_by(jobs.c.id)
    )
    reader = JobReader()
    return Inbox(tuple(arrived), tuple(reader.job(row) for row in connection.execute(submitted)))
