"""Decayed usage: the slot-seconds that a queue or a user of it held, of which what lies back a half-life counts half.

Additive: the usage of two accounts together is the sum of theirs, and that of two spans of time, too.
"""

import math
from typing import NamedTuple

_LN2 = math.log(2.0)


def decayed(slot_seconds: float, at: float, now: float, half_life_seconds: float) -> float:
    """What usage of a moment `at` counts now. Without a half-life nothing counts."""
    if half_life_seconds <= 0:
        return 0.0
    return float(slot_seconds * 0.5 ** (max(0.0, now - at) / half_life_seconds))


def accrued(slots: float, at: float, now: float, half_life_seconds: float) -> float:
    """What it counts now that this number of slots has been held since a moment `at`."""
    if half_life_seconds <= 0:
        return 0.0
    return -slots * half_life_seconds / _LN2 * math.expm1(-_LN2 * max(0.0, now - at) / half_life_seconds)


class QueueUsage(NamedTuple):
    """Decayed usage of an account at a moment, and what it has held since."""

    slot_seconds: float
    #: By the engine's clock; unix seconds.
    at: float
    slots: int = 0

    @property
    def counts(self) -> bool:
        """Whether it is anything."""
        return self.slots > 0 or self.slot_seconds > 0

    def now(self, now: float, half_life_seconds: float) -> float:
        """The decayed usage now, with what was held since."""
        return decayed(self.slot_seconds, self.at, now, half_life_seconds) + accrued(
            self.slots, self.at, now, half_life_seconds
        )
