"""Back-off for requests that the API server refuses and may grant later: the pause grows with each refusal."""

from collections.abc import Callable
from dataclasses import dataclass

from scheduler.backoff import Backoff

_BACKOFF = Backoff(1.0, 30.0)
#: Limit on remembered names; the least recently refused are dropped.
_KNOWN_MAX = 10_000


@dataclass(frozen=True, slots=True)
class _Refusal:
    error: str
    #: When the first refusal in a row came, when to ask again, and how many there were.
    since: float
    again_at: float
    count: int


class RetryBackoff:
    """Refusals by the name of the object. Threads may use it at a time for different names."""

    def __init__(self, monotonic: Callable[[], float], limit_seconds: float) -> None:
        """`limit_seconds`: how long a request may be refused before it is given up."""
        self._monotonic = monotonic
        self._limit_seconds = limit_seconds
        self._known: dict[str, _Refusal] = {}

    def standing(self, name: str) -> str | None:
        """Why it was refused last, if it is too early to ask again."""
        known = self._known.get(name)
        return known.error if known is not None and self._monotonic() < known.again_at else None

    def add(self, name: str, error: str) -> bool:
        """Record one more refusal; return whether it is time to give up."""
        now, before = self._monotonic(), self._known.pop(name, None)
        since = now if before is None else before.since
        count = 1 if before is None else before.count + 1
        if len(self._known) >= _KNOWN_MAX:
            self._known.pop(next(iter(self._known)), None)
        self._known[name] = _Refusal(error, since, now + _BACKOFF.pause_seconds(count), count)
        return now - since >= self._limit_seconds

    def drop(self, name: str) -> None:
        """Forget a name: it was granted, or is no longer wanted."""
        self._known.pop(name, None)
