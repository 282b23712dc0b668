"""`sched simulate --faults`: what a user says is to go wrong."""

from typing import TYPE_CHECKING

from scheduler.bounds import DURATION
from scheduler.cli.input.quantities import duration_seconds
from scheduler.errors import InvalidInput

if TYPE_CHECKING:
    from scheduler.simulate.faults import Faults

_OPTION = "--faults"
#: Names that users give, and the fields that they set.
_FIELDS = {
    "workers": "worker_seconds",
    "nodes": "node_seconds",
    "node_away": "node_away_seconds",
    "daemon": "daemon_seconds",
    "daemon_away": "daemon_away_seconds",
}
#: What is away for a time is lost at times, first.
_NEEDS = {"node_away": "nodes", "daemon_away": "daemon"}
_SECONDS_MIN = 1.0


def parse_faults(text: str | None, seed: int) -> "Faults | None":
    """`workers=24h,nodes=7d,node_away=30m`; None where nothing is to go wrong. Raises `InvalidInput`."""
    from scheduler.simulate.faults import Faults

    if text is None:
        return None
    given: dict[str, float] = {}
    for word in text.split(","):
        name, equals, value = (part.strip() for part in word.partition("="))
        if not equals or name not in _FIELDS:
            raise InvalidInput(_OPTION, f"{word!r} must have the form KEY=DURATION, with a key of {', '.join(_FIELDS)}")
        if name in given:
            raise InvalidInput(_OPTION, f"{name} is given more than once")
        given[name] = _seconds(name, value)
    for name, needed in _NEEDS.items():
        if name in given and needed not in given:
            raise InvalidInput(_OPTION, f"{name} needs {needed}: how often that is lost")
    return Faults(seed, **{_FIELDS[name]: seconds for name, seconds in given.items()})


def _seconds(name: str, value: str) -> float:
    seconds = duration_seconds(value, _OPTION)
    if not _SECONDS_MIN <= seconds <= DURATION.high:
        raise InvalidInput(_OPTION, f"{name}={value} is not between {_SECONDS_MIN:g} and {DURATION.high:g} seconds")
    return seconds
