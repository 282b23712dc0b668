"""How far each webhook has got in the history, and how its last tries went."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, select
from sqlalchemy.dialects import postgresql, sqlite

from scheduler.model.event import Event
from scheduler.store.codec.reading import SetAside, only
from scheduler.store.codec.row_check import RawRow, broken_text
from scheduler.store.codec.rows import events_from_rows
from scheduler.store.records import Delivery
from scheduler.store.sql.engine_tables import counters, events, jobs
from scheduler.store.sql.request_tables import webhooks


class Outgoing(NamedTuple):
    """An event that a webhook is told of, with what does not change about its job."""

    id: int
    event: Event
    job_name: str | None
    user: str | None


class Scanned(NamedTuple):
    """What was found in a stretch of the history."""

    events: list[Outgoing]
    #: The whole history up to this id has been looked at.
    seen: int
    #: How many events after the position had been removed before.
    missed: int


def begin(connection: Connection, name: str) -> Delivery:
    """The webhook's row; one that is new begins with the next event. Raises `UnreadableRow`."""
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    newest = connection.execute(select(counters.c.events)).scalar_one()
    row = {"name": name, "position": newest, "delivered": 0, "attempts": 0}
    connection.execute(insert(webhooks).values(row).on_conflict_do_nothing())
    return only(webhooks, connection.execute(select(webhooks).where(webhooks.c.name == name)).one(), _delivery)


def scan(connection: Connection, position: int, kinds: Sequence[str], limit: int, aside: SetAside) -> Scanned:
    """Events of these kinds (of all, if none is named) among the `limit` that follow the position."""
    stretch = select(events).where(events.c.id > position).order_by(events.c.id).limit(limit).subquery()
    first, last = connection.execute(select(func.min(stretch.c.id), func.max(stretch.c.id))).one()
    if last is None:
        return Scanned([], position, 0)
    query = select(stretch, jobs.c.name.label("job_name"), jobs.c.user_name).join_from(
        stretch, jobs, jobs.c.id == stretch.c.job_id, isouter=True
    )
    if kinds:
        query = query.where(stretch.c.kind.in_(kinds))
    rows = connection.execute(query.order_by(stretch.c.id)).all()
    found = [
        Outgoing(event_id, event, _line(row.job_name), _line(row.user_name))
        for row in rows
        for event_id, event in events_from_rows([row], aside)
    ]
    return Scanned(found, last, first - position - 1)


def save(connection: Connection, delivery: Delivery) -> None:
    """Write it down, unless another process has got further: what was delivered stays so."""
    values = {column.name: getattr(delivery, column.name) for column in webhooks.columns if column.name != "name"}
    mine = webhooks.c.name == delivery.name
    connection.execute(webhooks.update().where(mine, webhooks.c.position <= delivery.position).values(values))


def present(connection: Connection, aside: SetAside) -> list[Delivery]:
    """All that ever were, by name."""
    return list(aside.read(webhooks, connection.execute(select(webhooks).order_by(webhooks.c.name)), _delivery))


def _delivery(row: RawRow) -> Delivery:
    return Delivery(*row)


def count_after(connection: Connection, position: int, kinds: Sequence[str], limit: int) -> int:
    """How many events of these kinds follow the position, at most `limit`."""
    query = select(events.c.id).where(events.c.id > position)
    if kinds:
        query = query.where(events.c.kind.in_(kinds))
    return int(connection.execute(select(func.count()).select_from(query.limit(limit).subquery())).scalar_one())


def _line(text: Any) -> str | None:
    """A name of a job's row, which may be one that cannot be read."""
    return text if isinstance(text, str) and broken_text(text) is None else None
