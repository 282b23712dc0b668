"""Bookings: stored by users, decided on by the engine; the row of one that is over is removed."""

from collections.abc import Sequence

from sqlalchemy import Connection, insert, select

from scheduler.errors import Conflict, StaleWrite
from scheduler.model.booking import Booking, BookingState
from scheduler.model.intent import Intent, IntentKind
from scheduler.store.codec.reading import SetAside, only
from scheduler.store.codec.rows import booking_from_row, booking_values
from scheduler.store.requests.submit import add_intents
from scheduler.store.sql.bulk_statements import Statements
from scheduler.store.sql.request_tables import bookings

_REQUESTED = bookings.c.state == BookingState.REQUESTED.value
# Put together once: those that follow look at every commit.
_PROMISED = select(bookings).where(~_REQUESTED).order_by(bookings.c.name)


def add(connection: Connection, statements: Statements, booking: Booking) -> int:
    """Store it with its BOOK intent, whose id is returned. Raises `Conflict` if the name is taken."""
    # First, since whoever takes an id holds up all others that would look for the name.
    intent = Intent(0, IntentKind.BOOK, booking.created_at, booking=booking.name)
    [intent_id] = add_intents(connection, statements, [intent])
    if connection.execute(select(bookings.c.name).where(bookings.c.name == booking.name)).first() is not None:
        raise Conflict(f"booking {booking.name} already exists: use another name, or cancel it first")
    connection.execute(insert(bookings), booking_values(booking))
    return intent_id


def get(connection: Connection, name: str) -> Booking | None:
    """Raises `UnreadableRow`."""
    row = connection.execute(select(bookings).where(bookings.c.name == name)).one_or_none()
    return None if row is None else only(bookings, row, booking_from_row)


def present(connection: Connection, aside: SetAside) -> list[Booking]:
    """All of them by start."""
    rows = connection.execute(select(bookings).order_by(bookings.c.start_at, bookings.c.name))
    return list(aside.read(bookings, rows, booking_from_row))


def promised(connection: Connection, aside: SetAside) -> tuple[Booking, ...]:
    """Those that the engine has decided on, by name."""
    return tuple(aside.read(bookings, connection.execute(_PROMISED), booking_from_row))


def requested(connection: Connection, aside: SetAside) -> tuple[Booking, ...]:
    """Those that wait for the engine, by name."""
    rows = connection.execute(select(bookings).where(_REQUESTED).order_by(bookings.c.name))
    return tuple(aside.read(bookings, rows, booking_from_row))


def write(connection: Connection, changed: Sequence[Booking]) -> None:
    """States and times as the engine has decided. Raises `StaleWrite` where the row is gone."""
    for booking in changed:
        mine = bookings.c.name == booking.name
        over = booking.state is BookingState.OVER
        decided = {"state": booking.state.value, "start_at": booking.start_at, "end_at": booking.end_at}
        statement = bookings.delete() if over else bookings.update().values(**decided)
        if connection.execute(statement.where(mine)).rowcount != 1:
            raise StaleWrite(f"booking {booking.name} was removed concurrently")
