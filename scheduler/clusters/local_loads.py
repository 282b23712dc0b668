"""Reads at intervals how busy this machine's slots are, so that no observation has to wait for that."""

import threading
from collections.abc import Callable

from scheduler.model.observation import SlotLoad

#: Between two readings: of GPUs, and of all processes.
GPU_SECONDS = 1.0
CPU_SECONDS = 5.0


class LoadReader:
    """The newest reading of a machine's slots, kept by a thread of its own."""

    def __init__(self, read: Callable[[], tuple[SlotLoad, ...]], interval_seconds: float) -> None:
        self._read = read
        self._interval_seconds = interval_seconds
        self._closing = threading.Event()
        self.loads = read()
        self._thread = threading.Thread(target=self._run, name="slot-loads", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(self._interval_seconds):
            self.loads = self._read()
