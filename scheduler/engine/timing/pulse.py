"""Notices that this process stood still: then nobody was heard, and silence of that time proves nothing.

A thread of its own beats, since a tick that takes long is no standstill: other threads go on hearing reports meanwhile.
"""

from scheduler.engine.ports import Clock

#: Between two beats.
BEAT_SECONDS = 1.0
#: Without a beat for longer than that, the process stood still.
_GAP_SECONDS_MAX = 3 * BEAT_SECONDS


class Pulse:
    """Used by any thread. Without beats, nothing is noticed by itself."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._beat_at: float | None = None
        self._went_on_at = 0.0

    def beat(self) -> None:
        """The process is alive; called every `BEAT_SECONDS`."""
        self.went_on_at()
        self._beat_at = self._clock.now()

    def went_on_at(self) -> float:
        """When the process last went on after it had stood still, be it that its next beat is still to come."""
        if self._beat_at is not None and self._clock.now() - self._beat_at > _GAP_SECONDS_MAX:
            self.stood_still()
        return self._went_on_at

    def stood_still(self) -> None:
        """Record that it stood still until now."""
        self._went_on_at = self._clock.now()
