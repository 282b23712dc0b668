"""The daemon's clock: unix seconds that pass evenly, whatever is done to the machine's time.

It begins with the machine's time and goes on by the seconds since the machine's start. A process that starts goes on
from the anchor that the last leader stored, by the shortest time that any of its clocks claims to have passed: so no
duration ends early for a clock that was set, and at worst lasts longer by the time for which no daemon ran.
"""

from typing import Protocol

from scheduler.engine.ports import Anchor

#: Where only the machine's time tells how long no daemon ran, a longer time counts as a clock that was set, and nothing
#: counts as having passed.
AWAY_SECONDS_MAX = 7 * 86400.0


class Machine(Protocol):
    """The clocks of one machine."""

    def now(self) -> float:
        """Unix seconds, which may be set."""
        ...

    def monotonic(self) -> float:
        """Seconds that never jump; they stand still while the machine is suspended."""
        ...

    def booted(self) -> float:
        """Seconds since the machine started, suspended time included."""
        ...

    def boot(self) -> str:
        """Names this start of the machine."""
        ...


class SteadyClock:
    """Implements `EngineClock`. Any thread may read it; the engine's thread calls `follow`."""

    def __init__(self, machine: Machine, anchor: Anchor | None = None) -> None:
        """`anchor`: as stored by the last leader; None: there was none."""
        self._machine = machine
        self._boot = machine.boot()
        self._looked_at = machine.booted()
        self._anchor = anchor
        now = machine.now() if anchor is None else anchor.now + self._passed_since(anchor)
        self._ahead_of_boot = now - self._looked_at

    def now(self) -> float:
        """Unix seconds that pass evenly."""
        return self._machine.booted() + self._ahead_of_boot

    def wall(self) -> float:
        """Unix seconds as the machine has them."""
        return self._machine.now()

    def monotonic(self) -> float:
        """Seconds that never jump; they stand still while the machine is suspended."""
        return self._machine.monotonic()

    def anchor(self) -> Anchor:
        """The present moment."""
        booted = self._machine.booted()
        return Anchor(booted + self._ahead_of_boot, self._machine.now(), booted, self._boot)

    def follow(self, anchor: Anchor | None) -> None:
        """Keep in step with a leader elsewhere, whose present lies between its anchor and that plus our last pause."""
        booted, looked_at = self._machine.booted(), self._looked_at
        self._looked_at = booted
        if anchor is None or anchor == self._anchor:
            return
        self._anchor = anchor
        latest = anchor.now + booted - looked_at
        self._ahead_of_boot = min(max(booted + self._ahead_of_boot, anchor.now), latest) - booted

    def _passed_since(self, anchor: Anchor) -> float:
        """The shortest time that any clock claims to have passed; clocks that claim less than none are wrong."""
        by_wall, by_boot = self._machine.now() - anchor.wall, self._looked_at - anchor.booted
        if anchor.boot != self._boot or by_boot < 0:
            return by_wall if 0 <= by_wall <= AWAY_SECONDS_MAX else 0.0
        return min(by_wall, by_boot) if by_wall >= 0 else by_boot
