"""Pauses between tries that double from one failure to the next."""

from dataclasses import dataclass

#: Beyond this many, a pause of a second is longer than any machine lives.
_DOUBLINGS_MAX = 60


@dataclass(frozen=True, slots=True)
class Backoff:
    """The pause after a first failure in a row, and the longest one, in seconds."""

    first_seconds: float
    max_seconds: float

    def pause_seconds(self, failures: int) -> float:
        """How long to wait after this number of failures in a row; after none as after one."""
        doublings = min(max(failures - 1, 0), _DOUBLINGS_MAX)
        return min(self.first_seconds * 2.0**doublings, self.max_seconds)
