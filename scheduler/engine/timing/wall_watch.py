"""Notices when the machine's time was set. Durations do not depend on it; bookings and purges do.

They go by the machine's time only once it has stayed as it was set for a while: a clock that is set back, or set right
again, moves nothing.
"""

from dataclasses import dataclass, replace

from scheduler.bounds import MOMENT
from scheduler.engine.changeset import Changeset
from scheduler.model.event import Cause, EventKind

#: Smaller differences are normal between two clocks that are set by a time server.
JUMP_SECONDS = 5.0
#: Seconds after which a time that was set is believed.
CONFIRM_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Jump:
    """A machine's time that has not been confirmed yet."""

    #: When it was noticed.
    at: float
    #: How far it was set; negative: back.
    seconds: float
    #: How far it is ahead of the engine's clock.
    ahead_seconds: float

    def __str__(self) -> str:
        direction = "forward" if self.seconds > 0 else "back"
        minutes = CONFIRM_SECONDS / 60
        return (
            f"the machine's clock was set {direction} by {abs(self.seconds):.0f} s: durations go on as before; "
            f"bookings follow it, and old jobs and nodes are removed, once it has stayed so for {minutes:.0f} minutes"
        )


class WallWatch:
    """Used by the engine's thread; `jump` may be read by others."""

    def __init__(self) -> None:
        #: None: the machine's time is as it was confirmed last.
        self.jump: Jump | None = None

    def look(self, changeset: Changeset, ahead_seconds: float) -> None:
        """Compare the clocks: `ahead_seconds` is the machine's time less the engine's."""
        jump, confirmed = self.jump, changeset.base.ahead_seconds
        if abs(ahead_seconds - confirmed) <= JUMP_SECONDS:
            self.jump = None
        elif jump is None or abs(ahead_seconds - jump.ahead_seconds) > JUMP_SECONDS:
            self.jump = Jump(changeset.now, ahead_seconds - confirmed, ahead_seconds)
            self._tell(changeset, EventKind.CLOCK_JUMPED, self.jump)
        elif changeset.now - jump.at >= CONFIRM_SECONDS:
            self.jump = None
            _move_bookings(changeset, ahead_seconds)
            self._tell(changeset, EventKind.CLOCK_CONFIRMED, jump)

    def _tell(self, changeset: Changeset, kind: EventKind, jump: Jump) -> None:
        detail = str(jump) if kind is EventKind.CLOCK_JUMPED else "bookings follow the machine's clock"
        changeset.event(kind, cause=Cause.OBSERVED, detail=detail, amount=jump.seconds)


def _move_bookings(changeset: Changeset, ahead_seconds: float) -> None:
    """Move the bookings, which are promised for times that people read off their clocks."""
    earlier_seconds = ahead_seconds - changeset.base.ahead_seconds
    changeset.ahead_seconds = ahead_seconds
    for booking in changeset.bookings():
        # a clock that was set by centuries moves none out of the times that can be stored
        seconds = min(max(earlier_seconds, booking.end_at - MOMENT.high), booking.start_at)
        changeset.put_booking(replace(booking, start_at=booking.start_at - seconds, end_at=booking.end_at - seconds))
