"""Time: read nowhere else. Standard library only; the supervisor of local workers starts with it."""

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.engine.ports import Anchor

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class SystemClock:
    """The machine's clocks."""

    def now(self) -> float:
        """Unix seconds, as the machine has them: somebody may set them."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never jump; since the machine started, so processes of one boot can compare them."""
        return time.monotonic()

    def booted(self) -> float:
        """Seconds since the machine started, those in which it was suspended too."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def boot(self) -> str:
        """Names this start of the machine."""
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read().strip()


class VirtualClock:
    """A clock that stands still until it is told to move: for simulation and tests."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        """Unix seconds."""
        return self._now

    def monotonic(self) -> float:
        """Equal to `now`: virtual time never jumps back."""
        return self._now

    def wall(self) -> float:
        """Equal to `now`: virtual time is never set."""
        return self._now

    def anchor(self) -> None:
        """None: virtual time goes on by itself."""
        return

    def follow(self, anchor: "Anchor | None") -> None:
        """Virtual time is the same for all."""

    def advance(self, seconds: float) -> float:
        """Move on by `seconds` and return the new time. Raises `ValueError` for a negative step."""
        return self.set(self._now + seconds)

    def set(self, now: float) -> float:
        """Move on to `now` and return it. Raises `ValueError` if that has passed already."""
        if not now >= self._now:
            raise ValueError(f"virtual time stands at {self._now} and cannot go back to {now}")
        self._now = now
        return now
