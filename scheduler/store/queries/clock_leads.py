"""By how much people's clocks were ahead of the engine's at each time, told by what is ahead now and the events of it.

Accounts are charged by the hours of people's clocks as they stood at the time. Where a clock was set since, the same
hours of workers are found by this alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from sqlalchemy import Connection, select

from scheduler.engine.timing.wall_watch import JUMP_SECONDS
from scheduler.model.account import HOUR_SECONDS, hourly
from scheduler.model.event import EventKind
from scheduler.store.queries.slot_usage import is_number
from scheduler.store.sql.engine_tables import events, lease


@dataclass(frozen=True, slots=True)
class Stretch:
    """An interval of the engine's clock in which people's clocks were not set, and how far they were ahead of it."""

    since: float
    until: float
    ahead_seconds: float

    def hours(self, since: float, until: float) -> Iterator[tuple[int, float]]:
        """The hours of people's clocks in what this has of an interval, and the seconds in each."""
        return hourly(max(self.since, since), min(self.until, until), self.ahead_seconds)


class Leads:
    """The leads of people's clocks, oldest first; there is one at least. An older one than is known was the same."""

    def __init__(self, ahead_seconds: float, changes: Sequence[tuple[float, float]] = ()) -> None:
        """`ahead_seconds` is the present lead; `changes` are when clocks were set, and how far, the oldest first."""
        moments = [-inf, *(at for at, _ in changes), inf]
        ahead = [ahead_seconds]
        for _, seconds in reversed(changes):
            ahead.append(ahead[-1] - seconds)
        self._stretches = [Stretch(*ends, lead) for ends, lead in zip(pairwise(moments), reversed(ahead), strict=True)]

    @property
    def present_seconds(self) -> float:
        """The present lead."""
        return self._stretches[-1].ahead_seconds

    @property
    def doubt_seconds(self) -> float:
        """How far a former lead may be off: an event tells how far a clock was set, and not where it stood later."""
        return JUMP_SECONDS if len(self._stretches) > 1 else 0.0

    def at(self, moment: float) -> float:
        """The lead by which accounts were charged at this moment; when a clock is set that is still the former one."""
        return next(each.ahead_seconds for each in self._stretches if moment <= each.until)

    def stretches(self, first: int, last: int, now: float) -> list[Stretch]:
        """When these hours of people's clocks were, the last one not included, as far as they are over."""
        found = []
        for each in self._stretches:
            begun, over = (hour * HOUR_SECONDS - each.ahead_seconds for hour in (first, last))
            since, until = max(each.since, begun), min(each.until, over, now)
            if since < until:
                found.append(Stretch(since, until, each.ahead_seconds))
        return found


def leads(connection: Connection) -> Leads:
    """The leads as far as they are known; events that retention removes take those before along."""
    found = connection.execute(select(lease.c.ahead_seconds)).scalar_one()
    if not isinstance(found, float):
        return Leads(0.0)  # no clock was ever set
    query = (
        select(events.c.at, events.c.amount)
        # An index finds the few events of no job.
        .where(events.c.job_id.is_(None), events.c.kind == EventKind.CLOCK_CONFIRMED.value)
        .where(is_number(events.c.at), is_number(events.c.amount))
        .order_by(events.c.at)
    )
    return Leads(found, [(at, seconds) for at, seconds in connection.execute(query)])
