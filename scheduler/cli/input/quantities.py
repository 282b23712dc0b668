"""How people write durations, times, sizes and `key=value` pairs on the command line."""

import math
import re
from datetime import UTC, datetime, time, timedelta

from scheduler.errors import InvalidInput

_UNIT_MIB = {"": 1.0, "m": 1.0, "g": 1024.0, "t": 1024.0 * 1024.0}
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")
_CLOCK = re.compile(r"(\d+):([0-5]\d)(?::([0-5]\d))?")
_DATE = re.compile(r"\d{4}-")
#: What would be an age, and is more likely meant as a date.
_DATE_IN_DIGITS = re.compile(r"\d{8}")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([mgt]?)(?:i?b)?")


def duration_seconds(text: str, option: str) -> float:
    """Seconds in `90`, `90s`, `1h30m`, `2d`, `1:30` (hours, minutes) or `1:30:00`. Raises `InvalidInput`."""
    value = text.strip().lower()
    clock, units = _CLOCK.fullmatch(value), _DURATION.fullmatch(value)
    try:
        if clock:
            seconds = int(clock[1]) * 3600.0 + int(clock[2]) * 60.0 + int(clock[3] or 0)
        elif value and units:
            seconds = sum(
                float(part) * scale for part, scale in zip(units.groups("0"), (86400, 3600, 60, 1), strict=True)
            )
        else:
            seconds = float(value)
    except (ValueError, OverflowError):
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds >= 0):
        raise InvalidInput(
            option, f"{text!r} is not a valid duration: use seconds, or units such as 90s, 45m, 1h30m or 2d"
        )
    return seconds


def moment(text: str, option: str, now: float) -> float:
    """Unix seconds of `now`, `in 30m`, `18:00` (the next one), or an ISO date or time, in the local zone.

    Raises `InvalidInput`.
    """
    value = text.strip()
    if value.lower() == "now":
        return now
    if value.lower().startswith("in "):
        return now + duration_seconds(value[3:], option)
    clock = _CLOCK.fullmatch(value)
    try:
        if clock is None:
            return datetime.fromisoformat(value).astimezone().timestamp()
        return _next_on_the_clock(time(int(clock[1]), int(clock[2]), int(clock[3] or 0)), now)
    except (ValueError, OverflowError):
        rule = f'{text!r} is not a valid time: use 18:00, "in 30m", 2030-05-01T18:00 or now'
        raise InvalidInput(option, rule) from None


def past_moment(text: str, option: str, now: float) -> float:
    """Unix time of `7d` (seven days ago), of `now`, or of a text that begins with a year. Raises `InvalidInput`."""
    value = text.strip()
    if value.lower() == "now" or _DATE.match(value):
        return max(0.0, moment(text, option, now))
    if _CLOCK.fullmatch(value) or _DATE_IN_DIGITS.fullmatch(value):
        rule = f"{text!r} may be an age or a time: use an age such as 7d or 12h, or 2030-05-01T18:00"
        raise InvalidInput(option, rule)
    return max(0.0, now - duration_seconds(text, option))


def _next_on_the_clock(wanted: time, now: float) -> float:
    """When local clocks show this time next; where they skip it, the same time after they were put forward."""
    today = datetime.fromtimestamp(now, UTC).astimezone().date()
    times = []
    for day in (today, today + timedelta(days=1)):
        # without a zone, so that a day has the hours that the local zone gives it; shown twice, it has two folds
        both = [datetime.combine(day, wanted).replace(fold=fold).astimezone() for fold in (0, 1)]
        shown = [each for each in both if each.time() == wanted] or [max(both)]
        times += [each.timestamp() for each in shown]
    return min(each for each in times if each >= math.floor(now))


def memory_mib(text: str, option: str) -> int:
    """MiB in `512`, `512MiB`, `4G`, `1.5GiB`. Raises `InvalidInput`."""
    size = _SIZE.fullmatch(text.strip().lower())
    mib = float(size[1]) * _UNIT_MIB[size[2]] if size else math.inf
    if not math.isfinite(mib):
        raise InvalidInput(
            option, f"{text!r} is not a valid size: use a number of MiB, or units such as 512MiB or 4GiB"
        )
    return math.ceil(mib)


def pairs(items: list[str], option: str) -> dict[str, str]:
    """`["a=1", "b=x=y"]` as a mapping; the last one of a key counts. Raises `InvalidInput`."""
    found = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise InvalidInput(option, f"{item!r} must have the form KEY=VALUE")
        found[key] = value
    return found


def workers_range(text: str, option: str) -> tuple[int, int]:
    """Bounds in `4` or `1-4`. Raises `InvalidInput`."""
    bounds = re.fullmatch(r"(\d{1,9})(?:\s*(?:-|\.\.|:)\s*(\d{1,9}))?", text.strip())
    if not bounds:
        raise InvalidInput(option, f"{text!r} is not a valid number of workers: use 4, or 1-4 for an elastic job")
    return int(bounds[1]), int(bounds[2] or bounds[1])
