"""Cron expressions as Debian's cron reads them; weekdays may also be a range across the weekend, such as sat-mon."""

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from apscheduler.triggers.base import BaseTrigger
from cronsim import CronSim, CronSimError

from scheduler.errors import InvalidInput

_FORM = (
    "must have five fields: minute (0-59), hour (0-23), day of month (1-31), month (1-12 or jan-dec) and "
    "day of week (0-7 or sun-sat)"
)
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_RANGE = re.compile(r"([a-z0-9]+)-([a-z0-9]+)(?:/([0-9]+))?")


class Cron(BaseTrigger):  # type: ignore[misc]  # APScheduler publishes no types
    """The times that an expression of five fields names in a timezone; a trigger of APScheduler's timers."""

    def __init__(self, expression: str, timezone: str) -> None:
        """Raises `InvalidInput` for an invalid expression or timezone."""
        self._zone = _zone(timezone)
        fields = expression.lower().split()
        if len(fields) != 5:
            raise InvalidInput("cron", _FORM)
        day = "L" if fields[2] == "last" else fields[2]  # as earlier versions read it
        self._expression = " ".join((*fields[:2], day, fields[3], _RANGE.sub(_unwrapped, fields[4])))
        try:
            CronSim(self._expression, datetime.fromtimestamp(0, UTC))
        except CronSimError as error:
            raise InvalidInput(
                "cron", f"{expression[:100]!r} is not a valid cron expression: {error}: {_FORM}"
            ) from None

    def next_after(self, moment: float) -> float | None:
        """The first time after that moment, in unix seconds; None if there is none in the next 50 years."""
        try:
            times = CronSim(self._expression, datetime.fromtimestamp(moment, self._zone))
            # In the hour that is repeated when summer time ends, cronsim begins with the first pass: skip what is over.
            return next((at for at in (time.timestamp() for time in times) if at > moment), None)
        except (OverflowError, ValueError):
            return None  # beyond the calendar

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        """As APScheduler asks: the first time after the one that it fired at last, or from now on."""
        found = self.next_after((previous_fire_time or now).timestamp())
        return None if found is None else datetime.fromtimestamp(found, self._zone)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidInput("timezone", f"unknown time zone {name!r}: use a name such as UTC or Europe/Berlin") from None


def _unwrapped(days: re.Match[str]) -> str:
    """A range across the weekend as a list of weekdays; any other range as it is."""
    try:
        first, last = (_DAYS.index(day) if day in _DAYS else int(day) for day in days.group(1, 2))
        wrapped = range(first, last + 8, int(days[3] or 1))
    except ValueError:
        return days[0]
    return ",".join(str(day % 7) for day in wrapped) if last < first <= 7 else days[0]
