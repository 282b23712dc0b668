"""Cron expressions as cron reads them, on APScheduler's triggers.

APScheduler counts weekdays from Monday and wants day and weekday both to fit; cron counts from Sunday and takes days
that fit either, where neither field begins with *. As in Vixie cron, */2 does begin so, and both have to fit.
"""

from datetime import datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger

from scheduler.errors import InvalidInput

_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = ("minute", "hour", "day", "month", "day_of_week")


class Cron:
    """The times that an expression of five fields names in a timezone."""

    def __init__(self, expression: str, timezone: str) -> None:
        """Raises `InvalidInput` for an expression or timezone that is none."""
        self._zone = _zone(timezone)
        fields = expression.split()
        if len(fields) != len(_FIELDS):
            raise InvalidInput("cron", "must have five fields: minute, hour, day of month, month and day of week")
        values = dict(zip(_FIELDS, fields, strict=True))
        try:
            values["day_of_week"] = _weekdays(fields[4])
            variants = [values]
            if not fields[2].startswith("*") and not fields[4].startswith("*"):
                variants = [{**values, "day": "*"}, {**values, "day_of_week": "*"}]
            triggers = [CronTrigger(**variant, timezone=self._zone) for variant in variants]
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidInput("cron", f"{expression[:100]!r} is not a valid cron expression: {error}") from None
        #: For APScheduler.
        self.trigger: Any = triggers[0] if len(triggers) == 1 else OrTrigger(triggers)

    def next_after(self, moment: float) -> float | None:
        """The first time after that moment, in unix seconds; None if there is none any more."""
        try:
            later = datetime.fromtimestamp(moment, self._zone) + timedelta(microseconds=1)
            found = self.trigger.get_next_fire_time(None, later)
        except (OverflowError, ValueError):
            return None  # beyond the calendar
        return None if found is None else float(found.timestamp())


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidInput("timezone", f"unknown time zone {name!r}: use a name such as UTC or Europe/Berlin") from None


def _weekdays(field: str) -> str:
    """The weekdays by name, which means the same to everybody. Raises `ValueError`."""
    if field == "*":
        return field
    days: set[int] = set()
    for part in field.lower().split(","):
        span, slash, step_text = part.partition("/")
        step = int(step_text) if slash else 1
        if step < 1:
            raise ValueError("a step must be at least 1")
        first_text, dash, last_text = span.partition("-")
        if span == "*":
            first, last = 0, 6
        else:
            first = _weekday(first_text)
            last = _weekday(last_text) if dash else (6 if slash else first)
        if last < first:  # sat-mon
            last += 7
        days.update(day % 7 for day in range(first, last + 1, step))
    return ",".join(_DAYS[day] for day in sorted(days))


def _weekday(text: str) -> int:
    if text in _DAYS:
        return _DAYS.index(text)
    if not text.isascii() or not text.isdecimal() or int(text) > 7:
        raise ValueError(f"unknown weekday {text[:20]!r}")
    return int(text)
