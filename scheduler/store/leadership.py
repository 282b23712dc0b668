"""The lease: one row that says who leads and counts commits. Time is always the caller's; the term alone fences."""

from typing import Any

from sqlalchemy import Connection, Row, bindparam, select

from scheduler.engine.ports import Lease, SeenLease
from scheduler.errors import LeaseLost, SchemaMismatch, StoreUnavailable
from scheduler.store.reading import check_row
from scheduler.store.row_check import BrokenColumn
from scheduler.store.schema import lease as table

# Put together once: they are a part of every tick.
_SELECT = select(table)
_SELECT_LOCKED = _SELECT.with_for_update()
_HELD = (table.c.holder == bindparam("by"), table.c.term == bindparam("in_term"))
_RENEW = table.update().where(*_HELD).values(expires_at=bindparam("until"), ttl_seconds=bindparam("ttl"))
_RELEASE = table.update().where(*_HELD).values(holder=None, expires_at=0.0, url=None)
_ADVANCE = table.update().where(*_HELD).values(revision=table.c.revision + 1).returning(table.c.revision)


def read(connection: Connection) -> SeenLease:
    return _seen(connection.execute(_SELECT).one_or_none())


def acquire(
    connection: Connection, holder: str, url: str | None, now: float, ttl_seconds: float, outlived: SeenLease | None
) -> Lease | None:
    """The lease if it is free, ours, or still as the caller has outlived it; what others' clocks say is not asked."""
    seen = _seen(connection.execute(_SELECT_LOCKED).one_or_none())
    if seen.holder == holder:
        term = seen.term
    elif seen.holder is None or seen == outlived:
        term = seen.term + 1
    else:
        return None
    lease = Lease(holder, term, now + ttl_seconds)
    connection.execute(
        table.update().values(holder=holder, term=term, expires_at=lease.expires_at, ttl_seconds=ttl_seconds, url=url)
    )
    return lease


def renew(connection: Connection, lease: Lease, now: float, ttl_seconds: float) -> Lease:
    expires_at = now + ttl_seconds
    renewed = connection.execute(_RENEW, {**_held(lease), "until": expires_at, "ttl": ttl_seconds})
    if renewed.rowcount != 1:
        raise _lost(connection, lease)
    return Lease(lease.holder, lease.term, expires_at)


def release(connection: Connection, lease: Lease) -> None:
    connection.execute(_RELEASE, _held(lease))


def advance(connection: Connection, lease: Lease) -> int:
    """The number of the commit that begins here. Raises `LeaseLost` unless this term still leads.

    Nobody can take the lease until the transaction ends.
    """
    number = connection.execute(_ADVANCE, _held(lease)).scalar_one_or_none()
    if number is None:
        raise _lost(connection, lease)
    return int(number)


def _held(lease: Lease) -> dict[str, Any]:
    """Parameters of the statements that touch the row as long as this term leads."""
    return {"by": lease.holder, "in_term": lease.term}


def _lost(connection: Connection, lease: Lease) -> LeaseLost:
    seen = read(connection)
    leader = f": {seen.holder} leads in term {seen.term}" if seen.holder else ""
    return LeaseLost(f"{lease.holder} no longer leads in term {lease.term}{leader}")


def _seen(row: Row[Any] | None) -> SeenLease:
    if row is None:
        raise SchemaMismatch("the database has no row for the lease: it was not created by `sched db upgrade`")
    try:
        check_row(table, row)
    except BrokenColumn as error:
        raise StoreUnavailable(f"the row of the lease cannot be read: {error}: restore a backup") from None
    return SeenLease(row.holder, row.term, row.expires_at, row.ttl_seconds, row.url, row.revision)
