"""The lease: one row that says who leads. Time is always the caller's; the term alone fences."""

from sqlalchemy import Connection, select

from scheduler.engine.ports import Lease
from scheduler.errors import LeaseLost, SchemaMismatch
from scheduler.store.schema import lease as table


def acquire(connection: Connection, holder: str, now: float, ttl_seconds: float) -> Lease | None:
    row = connection.execute(select(table).with_for_update()).one_or_none()
    if row is None:
        raise SchemaMismatch("the database has no row for the lease: it was not built by `sched db upgrade`")
    if row.holder == holder:
        term = row.term
    elif row.holder is None or row.expires_at <= now:
        term = row.term + 1
    else:
        return None
    expires_at = now + ttl_seconds
    connection.execute(table.update().values(holder=holder, term=term, expires_at=expires_at))
    return Lease(holder, term, expires_at)


def renew(connection: Connection, lease: Lease, now: float, ttl_seconds: float) -> Lease:
    expires_at = now + ttl_seconds
    renewed = connection.execute(
        table.update().where(table.c.holder == lease.holder, table.c.term == lease.term).values(expires_at=expires_at)
    )
    if renewed.rowcount != 1:
        raise LeaseLost(f"{lease.holder} no longer leads in term {lease.term}")
    return Lease(lease.holder, lease.term, expires_at)


def release(connection: Connection, lease: Lease) -> None:
    connection.execute(
        table.update()
        .where(table.c.holder == lease.holder, table.c.term == lease.term)
        .values(holder=None, expires_at=0.0)
    )


def check(connection: Connection, lease: Lease) -> None:
    """Raise `LeaseLost` unless this term still leads; nobody can take the lease until the transaction ends."""
    row = connection.execute(select(table.c.holder, table.c.term).with_for_update()).one_or_none()
    if row is None or row.holder != lease.holder or row.term != lease.term:
        leader = f": {row.holder} leads in term {row.term}" if row is not None and row.holder else ""
        raise LeaseLost(f"{lease.holder} no longer leads in term {lease.term}{leader}")
