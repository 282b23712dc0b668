"""Ids. Taking some locks the row until the commit, so that whoever sees an id can also see all smaller ones.

No id is given twice: where the row is not what the store has written, none is given at all.
"""

from typing import NamedTuple

from sqlalchemy import Connection, and_, bindparam, exists, select
from sqlalchemy.engine import Dialect

from scheduler.errors import SchemaMismatch, StoreUnavailable
from scheduler.store.sql.bulk_statements import Bulk
from scheduler.store.sql.engine_tables import counters, events, jobs
from scheduler.store.sql.request_tables import intents, recurring

ID_MAX = 2**62


class Ids(NamedTuple):
    """The first id that was taken of each kind."""

    job: int
    intent: int
    event: int
    recurring: int


_COUNTED = {"jobs": jobs, "intents": intents, "events": events, "recurring": recurring}
_AFTER = {name: counters.c[name] + bindparam(f"add_{name}") for name in _COUNTED}
#: SQLite takes a text for a number where it adds something to it, and orders every text above all numbers.
_SOUND = and_(*(counters.c[name].between(0, ID_MAX) for name in _COUNTED))
_FREE = and_(
    *(
        ~exists().where(table.c.id.between(counters.c[name] + 1, _AFTER[name])).correlate(counters)
        for name, table in _COUNTED.items()
    )
)
_TAKE = (
    counters.update()
    .where(_SOUND, _FREE)
    .values(_AFTER)
    .returning(counters.c.jobs, counters.c.intents, counters.c.events, counters.c.recurring)
)
#: By the name of the dialect.
_COMPILED: dict[str, Bulk] = {}
# Put together once: those that follow look at every commit.
_HIGHEST_JOB = select(counters.c.jobs)


def highest_job_id(connection: Connection) -> int:
    """The highest id that any job was given. Raises `StoreUnavailable` where it cannot be read."""
    return _sound("jobs", connection.execute(_HIGHEST_JOB).scalar_one())


def take_ids(connection: Connection, *, jobs: int = 0, intents: int = 0, events: int = 0, recurring: int = 0) -> Ids:
    """Take the given number of ids of each kind. Raises `StoreUnavailable` where it is not known which are free."""
    taken = {"add_jobs": jobs, "add_intents": intents, "add_events": events, "add_recurring": recurring}
    row = _take(connection.dialect).row(connection, taken)
    if row is None:
        raise _refusal(connection)
    after = [_sound(name, number) for name, number in zip(_COUNTED, row, strict=True)]
    return Ids(*(number - add + 1 for number, add in zip(after, taken.values(), strict=True)))


def _take(dialect: Dialect) -> Bulk:
    """The statement, compiled once: each submission and each commit with events takes ids."""
    found = _COMPILED.get(dialect.name)
    if found is None:
        found = _COMPILED[dialect.name] = Bulk(dialect, _TAKE, [])
    return found


def _refusal(connection: Connection) -> SchemaMismatch | StoreUnavailable:
    """Why no ids can be taken."""
    row = connection.execute(select(*(counters.c[name] for name in _COUNTED))).one_or_none()
    if row is None:
        return SchemaMismatch("the database has no row of counters: it was not created by `sched db upgrade`")
    for name, number in zip(_COUNTED, row, strict=True):
        _sound(name, number)
    shown = ", ".join(f"{name} {number}" for name, number in zip(_COUNTED, row, strict=True))
    return StoreUnavailable(f"the row of counters is behind its tables, ids would be given twice: {shown}{_REPAIR}")


def _sound(name: str, number: object) -> int:
    if type(number) is int and 0 <= number <= ID_MAX:
        return number
    raise StoreUnavailable(
        f"the row of counters cannot be read: {name}: must be a whole number from 0 to {ID_MAX:g}, "
        f"not {number!r:.60}{_REPAIR}"
    )


_REPAIR = ": restore a backup"
