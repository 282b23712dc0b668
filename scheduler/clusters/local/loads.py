"""Reads the load of this machine's slots at intervals, so that no observation waits for it."""

from collections.abc import Callable

from scheduler.engine.timing.repeating import Repeating
from scheduler.model.observation import SlotLoad

#: Between two readings of all processes.
CPU_SECONDS = 5.0


class LoadReader:
    """The newest load of a machine's slots; unknown while it cannot be read."""

    def __init__(self, read: Callable[[], tuple[SlotLoad, ...]], interval_seconds: float) -> None:
        self._read = read
        self.loads: tuple[SlotLoad, ...] = ()
        self._repeating = Repeating("slot loads", self._renew, interval_seconds)
        self._repeating.once()
        self._repeating.start()

    @property
    def trouble(self) -> str | None:
        """Why the load cannot be read; None if it can."""
        return self._repeating.trouble

    def close(self) -> None:
        self._repeating.close()

    def _renew(self) -> None:
        try:
            self.loads = self._read()
        except BaseException:
            self.loads = (SlotLoad(),) * len(self.loads)
            raise
