"""How times and durations read in tables."""

from datetime import UTC, datetime, timedelta, timezone

_STEPS = ((86400.0, "d"), (3600.0, "h"), (60.0, "m"))


def span(seconds: float) -> str:
    """A duration in at most two units: `4.2s`, `1m 5s`, `3h 12m`, `2d 4h`."""
    if seconds < 9.95:
        return f"{max(seconds, 0.0):.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, left = divmod(rest, 60)
    if days:
        return f"{days}d {hours}h" if hours else f"{days}d"
    if hours:
        return f"{hours}h {minutes}m" if minutes else f"{hours}h"
    return f"{minutes}m {left}s" if left else f"{minutes}m"


def rough(seconds: float) -> str:
    """A duration in one unit: `12s`, `3m`, `5h`, `2d`."""
    for step, unit in _STEPS:
        if seconds >= step:
            return f"{int(seconds // step)}{unit}"
    return f"{int(max(seconds, 0.0))}s"


def ago(at: float | None, now: float) -> str:
    """A unix time as seen from `now`: `3m ago`, `in 2h`, `-` for none."""
    if at is None:
        return "-"
    return f"in {rough(at - now)}" if at - now >= 1.0 else f"{rough(now - at)} ago"


def lost_work(slot_seconds: float | None) -> str:
    """What follows the words for a loss of workers: `, losing 3.2 slot-minutes`; empty where no work is lost."""
    if slot_seconds is None or slot_seconds < 0.05:
        return ""
    for step, unit in ((3600.0, "hours"), (60.0, "minutes")):
        if slot_seconds >= 2 * step:
            return f", losing {slot_seconds / step:,.1f} slot-{unit}"
    return f", losing {slot_seconds:.1f} slot-seconds"


def stamp(at: float) -> str:
    """A unix time in the local zone: `2030-05-01 13:04:05`."""
    return datetime.fromtimestamp(at, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def zone(at: float) -> str:
    """What the local zone is at a unix time: `UTC`, `UTC+01:00`."""
    return str(timezone(datetime.fromtimestamp(at, UTC).astimezone().utcoffset() or timedelta(0)))


def between(since: float, until: float) -> str:
    """A range of times in the local zone, with what that is; at both ends where clocks are set between them."""
    first, last = zone(since), zone(until)
    begun = stamp(since) if first == last else f"{stamp(since)} ({first})"
    return f"{begun} to {stamp(until)} ({last})"


def clock(at: float) -> str:
    """The time of day in the local zone: `13:04:05.123`."""
    return datetime.fromtimestamp(at, UTC).astimezone().time().isoformat("milliseconds")
