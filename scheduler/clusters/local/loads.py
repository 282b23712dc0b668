"""Reads at intervals how busy this machine's slots are, so that no observation has to wait for that."""

from collections.abc import Callable

from scheduler.engine.timing.repeating import Repeating
from scheduler.model.observation import SlotLoad

#: Between two readings of all processes.
CPU_SECONDS = 5.0


class LoadReader:
    """The newest reading of a machine's slots; nothing is known of them while they cannot be read."""

    def __init__(self, read: Callable[[], tuple[SlotLoad, ...]], interval_seconds: float) -> None:
        self._read = read
        self.loads: tuple[SlotLoad, ...] = ()
        self._repeating = Repeating("slot loads", self._renew, interval_seconds)
        self._repeating.once()
        self._repeating.start()

    @property
    def trouble(self) -> str | None:
        """Why they cannot be read; None: they can."""
        return self._repeating.trouble

    def close(self) -> None:
        self._repeating.close()

    def _renew(self) -> None:
        try:
            self.loads = self._read()
        except BaseException:
            self.loads = (SlotLoad(),) * len(self.loads)
            raise
