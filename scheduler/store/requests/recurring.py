"""Recurring jobs. A deleted one stays as history and is not listed."""

from sqlalchemy import Connection, select

from scheduler.errors import Conflict
from scheduler.model.event import Event, EventKind
from scheduler.model.identity import Identity
from scheduler.model.job import JobSpec
from scheduler.store.codec.json_text import spec_to_text, submitter_to_text
from scheduler.store.codec.reading import SetAside, only
from scheduler.store.codec.rows import event_values, recurring_from_row
from scheduler.store.records import Recurring
from scheduler.store.sql.bulk_statements import Statements
from scheduler.store.sql.request_tables import recurring
from scheduler.store.sql.sequences import take_ids

_PRESENT = recurring.c.deleted_at.is_(None)


def add(connection: Connection, cron: str, timezone: str, spec: JobSpec, now: float, submitter: Identity | None) -> int:
    """Store it; its id, or that of the present one with its client key. Raises `Conflict` if that is another user's."""
    take_ids(connection)  # none, but whoever adds one of the same key at the same time has to wait
    known = _of_key(connection, spec)
    if known is not None:
        return known
    new_id = take_ids(connection, recurring=1).recurring
    row = {
        "id": new_id,
        "cron": cron,
        "timezone": timezone,
        "spec": spec_to_text(spec),
        "created_at": now,
        "submitter": None if submitter is None else submitter_to_text(submitter),
    }
    connection.execute(recurring.insert().values(row))
    return new_id


def _of_key(connection: Connection, spec: JobSpec) -> int | None:
    if spec.client_key is None:
        return None
    for each in present(connection, SetAside()):
        if each.spec.client_key == spec.client_key:
            if each.spec.user and spec.user not in ("", each.spec.user):
                belongs = f"client_key {spec.client_key!r} belongs to recurring job r{each.id} of {each.spec.user}"
                raise Conflict(f"{belongs}: use a new one")
            return each.id
    return None


def get(connection: Connection, recurring_id: int) -> Recurring | None:
    """Raises `UnreadableRow`."""
    row = connection.execute(select(recurring).where(recurring.c.id == recurring_id, _PRESENT)).one_or_none()
    return None if row is None else only(recurring, row, recurring_from_row)


def present(connection: Connection, aside: SetAside) -> list[Recurring]:
    rows = connection.execute(select(recurring).where(_PRESENT).order_by(recurring.c.id))
    return list(aside.read(recurring, rows, recurring_from_row))


def naming(connection: Connection, queue: str) -> list[int]:
    """Ids of those whose jobs belong to the queue, as far as they can be read."""
    return [each.id for each in present(connection, SetAside()) if each.spec.queue == queue]


def delete(connection: Connection, recurring_id: int, now: float) -> bool:
    """Whether there was one to delete."""
    changed = recurring.update().where(recurring.c.id == recurring_id, _PRESENT).values(deleted_at=now)
    return connection.execute(changed).rowcount == 1


def mark_run(connection: Connection, recurring_id: int, fire_time: float) -> None:
    """Remember the newest run; an older time changes nothing."""
    newer = recurring.c.last_run_at.is_(None) | (recurring.c.last_run_at < fire_time)
    run = recurring.update().where(recurring.c.id == recurring_id, newer)
    connection.execute(run.values(last_run_at=fire_time, refusal=None))


def refuse(connection: Connection, statements: Statements, recurring_id: int, why: str, now: float) -> None:
    """Remember why its job is not submitted; another reason than before is an event."""
    take_ids(connection)  # none, but ids are locked before rows, so that no two wait for each other
    other = recurring.c.refusal.is_(None) | (recurring.c.refusal != why)
    changed = recurring.update().where(recurring.c.id == recurring_id, _PRESENT, other).values(refusal=why)
    if connection.execute(changed).rowcount:
        event_id = take_ids(connection, events=1).event
        event = Event(now, EventKind.RECURRING_REFUSED, detail=f"r{recurring_id}: {why}")
        statements.insert_events.run(connection, [event_values(event_id, event)])


def resume(connection: Connection, recurring_id: int, since: float) -> None:
    """Go on from this time, also where it has gone farther."""
    connection.execute(recurring.update().where(recurring.c.id == recurring_id).values(last_run_at=since))
