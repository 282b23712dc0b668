"""The lease: one row that says who leads and counts commits. Time is always the caller's; the term alone fences."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row, bindparam, func, select

from scheduler.engine.ports import Anchor, Lease, Place, SeenLease
from scheduler.errors import LeaseLost, SchemaMismatch, StoreUnavailable, WorkersElsewhere
from scheduler.store.codec.reading import broken_columns
from scheduler.store.sql.engine_tables import lease as table
from scheduler.store.sql.engine_tables import workers

# Put together once: they are a part of every tick.
_SELECT = select(table)
_SELECT_LOCKED = _SELECT.with_for_update()
_HELD = (table.c.holder == bindparam("by"), table.c.term == bindparam("in_term"))
_ANCHOR = (table.c.anchor_now, table.c.anchor_wall, table.c.anchor_booted, table.c.anchor_boot)
# An anchor that is not given stays as it is.
_ANCHORED: Mapping[str, Any] = {c.name: func.coalesce(bindparam(f"new_{c.name}", type_=c.type), c) for c in _ANCHOR}
#: What a leader leaves for the next one: it can lead without.
_NOTES = frozenset({*(column.name for column in _ANCHOR), "ahead_seconds", "place", "place_name"})
_RENEW = table.update().where(*_HELD).values(expires_at=bindparam("until"), ttl_seconds=bindparam("ttl"), **_ANCHORED)
_RELEASE = table.update().where(*_HELD).values(holder=None, expires_at=0.0, url=None, **_ANCHORED)
_ADVANCE = table.update().where(*_HELD).values(revision=table.c.revision + 1).returning(table.c.revision)


def read(connection: Connection) -> SeenLease:
    return _seen(connection.execute(_SELECT).one_or_none())


def acquire(
    connection: Connection,
    holder: str,
    url: str | None,
    now: float,
    ttl_seconds: float,
    outlived: SeenLease | None,
    anchor: Anchor | None,
    place: Place | None,
) -> Lease | None:
    """The lease if it is free, ours, or still as the caller has outlived it; what others' clocks say is not asked.

    Raises `WorkersElsewhere` while workers live at another place.
    """
    seen = _seen(connection.execute(_SELECT_LOCKED).one_or_none())
    if seen.holder == holder:
        term = seen.term
    elif seen.holder is None or seen == outlived:
        term = seen.term + 1
    else:
        return None
    if place is not None:
        check_place(connection, seen, place)
    lease = Lease(holder, term, now + ttl_seconds)
    connection.execute(
        table.update().values(
            holder=holder,
            term=term,
            expires_at=lease.expires_at,
            ttl_seconds=ttl_seconds,
            url=url,
            ahead_seconds=seen.ahead_seconds,
            **_ANCHORED,
            **({} if place is None else {"place": place.identity, "place_name": place.name}),
        ),
        _anchor_values(anchor),
    )
    return lease


def check_place(connection: Connection, seen: SeenLease, place: Place) -> None:
    """Raise `WorkersElsewhere` while workers live at another place than this one."""
    if seen.place is not None and seen.place.identity != place.identity and live_workers(connection):
        raise WorkersElsewhere(seen.place.name)


def live_workers(connection: Connection) -> bool:
    """Whether any worker lives, as far as the database tells."""
    return connection.execute(select(workers.c.job_id).where(workers.c.live.is_not(None)).limit(1)).first() is not None


def leave_place(connection: Connection) -> None:
    """No place runs workers of this database, as far as anybody knows."""
    connection.execute(table.update().values(place=None, place_name=None))


def renew(connection: Connection, lease: Lease, now: float, ttl_seconds: float, anchor: Anchor | None) -> Lease:
    expires_at = now + ttl_seconds
    values = {**_held(lease), "until": expires_at, "ttl": ttl_seconds, **_anchor_values(anchor)}
    renewed = connection.execute(_RENEW, values)
    if renewed.rowcount != 1:
        raise _lost(connection, lease)
    return Lease(lease.holder, lease.term, expires_at)


def release(connection: Connection, lease: Lease, anchor: Anchor | None) -> None:
    connection.execute(_RELEASE, {**_held(lease), **_anchor_values(anchor)})


def put_ahead(connection: Connection, seconds: float) -> None:
    """Within a commit of the leader."""
    connection.execute(table.update().values(ahead_seconds=seconds))


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
    broken = broken_columns(table, row)
    for name in broken.keys() - _NOTES:
        raise StoreUnavailable(f"the row of the lease cannot be read: {name}: {broken[name]}: restore a backup")
    notes = {name: None if name in broken else value for name, value in row._mapping.items() if name in _NOTES}
    return SeenLease(
        row.holder,
        row.term,
        row.expires_at,
        row.ttl_seconds,
        row.url,
        row.revision,
        _anchor(notes),
        _place(notes),
        notes["ahead_seconds"] or 0.0,
    )


def _anchor(notes: Mapping[str, Any]) -> Anchor | None:
    """None where a part of it is missing."""
    parts = [notes[column.name] for column in _ANCHOR]
    return None if None in parts else Anchor(*parts)


def _place(notes: Mapping[str, Any]) -> Place | None:
    identity = notes["place"]
    return None if identity is None else Place(identity, notes["place_name"] or identity)


def _anchor_values(anchor: Anchor | None) -> dict[str, Any]:
    found = (None,) * len(_ANCHOR) if anchor is None else (anchor.now, anchor.wall, anchor.booted, anchor.boot)
    return {f"new_{column.name}": value for column, value in zip(_ANCHOR, found, strict=True)}
