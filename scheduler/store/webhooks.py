"""How far each webhook has got in the history, and how its last tries went."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, func, select
from sqlalchemy.dialects import postgresql, sqlite

from scheduler.model.event import Event
from scheduler.store.rows import event_from_row
from scheduler.store.schema import counters, events, jobs, webhooks
from scheduler.store.values import Delivery


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
    """The webhook's row; one that is new begins with the next event."""
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    newest = connection.execute(select(counters.c.events)).scalar_one()
    row = {"name": name, "position": newest, "delivered": 0, "attempts": 0}
    connection.execute(insert(webhooks).values(row).on_conflict_do_nothing())
    return Delivery(*connection.execute(select(webhooks).where(webhooks.c.name == name)).one())


def scan(connection: Connection, position: int, kinds: Sequence[str], limit: int) -> Scanned:
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
    found = [Outgoing(row.id, event_from_row(row), row.job_name, row.user_name) for row in rows]
    return Scanned(found, last, first - position - 1)


def save(connection: Connection, delivery: Delivery) -> None:
    """Write it down, unless another process has got further: what was delivered stays so."""
    values = {column.name: getattr(delivery, column.name) for column in webhooks.columns if column.name != "name"}
    mine = webhooks.c.name == delivery.name
    connection.execute(webhooks.update().where(mine, webhooks.c.position <= delivery.position).values(values))


def present(connection: Connection) -> list[Delivery]:
    """All that ever were, by name."""
    return [Delivery(*row) for row in connection.execute(select(webhooks).order_by(webhooks.c.name))]


def count_after(connection: Connection, position: int, kinds: Sequence[str], limit: int) -> int:
    """How many events of these kinds follow the position, at most `limit`."""
    query = select(events.c.id).where(events.c.id > position)
    if kinds:
        query = query.where(events.c.kind.in_(kinds))
    return int(connection.execute(select(func.count()).select_from(query.limit(limit).subquery())).scalar_one())
