"""When the engine's next tick is due in virtual time."""

import math

from scheduler.engine.tick import TickReport

#: Time passes between two ticks, whatever the settings say.
GAP_SECONDS_MIN = 0.001


class TickTimer:
    """As the daemon's loop: at the latest when the last tick said so, at once when something happened.

    With `every_seconds`, in rounds instead, as schedulers do that decide at intervals: at each multiple of it, ticks
    follow one another until nothing more happens at once; then the engine sleeps until the next round.
    """

    def __init__(self, gap_seconds: float, every_seconds: float, start: float) -> None:
        self._gap_seconds = max(gap_seconds, GAP_SECONDS_MIN)
        self._every_seconds = every_seconds
        self._start = start
        self._last = -math.inf
        self._next = start
        self._woken = False

    @property
    def woken(self) -> bool:
        return self._woken

    def wake(self, now: float) -> None:
        """Something happened that a tick should look at."""
        if not self._every_seconds or now <= self._last + self._gap_seconds:
            self._woken = True

    def due(self, now: float) -> float:
        """When the next tick is due, seen from now."""
        return max(self._last + self._gap_seconds, now if self._woken else self._next)

    def starts(self) -> None:
        """A tick is about to begin; what happens from now on wakes the next one."""
        self._woken = False

    def ended(self, report: TickReport) -> None:
        """A tick is over."""
        self._last = report.at
        self._next = self._next_round(report.at) if self._every_seconds else report.next_tick_at

    def _next_round(self, now: float) -> float:
        rounds = math.floor((now - self._start) / self._every_seconds + 1e-9)
        return self._start + (rounds + 1) * self._every_seconds
