"""Ids. Taking some locks the row until the commit, so that whoever sees an id can also see all smaller ones."""

from typing import NamedTuple

from sqlalchemy import Connection, bindparam, select

from scheduler.errors import SchemaMismatch, StoreUnavailable
from scheduler.store.schema import counters


class Ids(NamedTuple):
    """The first id that was taken of each kind."""

    job: int
    intent: int
    event: int
    recurring: int


_TAKE = (
    counters.update()
    .values(
        jobs=counters.c.jobs + bindparam("add_jobs"),
        intents=counters.c.intents + bindparam("add_intents"),
        events=counters.c.events + bindparam("add_events"),
        recurring=counters.c.recurring + bindparam("add_recurring"),
    )
    .returning(counters.c.jobs, counters.c.intents, counters.c.events, counters.c.recurring)
)


def highest_job_id(connection: Connection) -> int:
    """The highest id that any job was given. Raises `StoreUnavailable` where it cannot be read."""
    found = connection.execute(select(counters.c.jobs)).scalar_one()
    if type(found) is not int:
        raise StoreUnavailable(
            f"the row of counters cannot be read: jobs: must be a whole number, not {found!r:.60}: restore a backup"
        )
    return found


def take_ids(connection: Connection, *, jobs: int = 0, intents: int = 0, events: int = 0, recurring: int = 0) -> Ids:
    """Take so many of each kind."""
    taken = {"add_jobs": jobs, "add_intents": intents, "add_events": events, "add_recurring": recurring}
    row = connection.execute(_TAKE, taken).one_or_none()
    if row is None:
        raise SchemaMismatch("the database has no row of counters: it was not created by `sched db upgrade`")
    return Ids(row.jobs - jobs + 1, row.intents - intents + 1, row.events - events + 1, row.recurring - recurring + 1)
