"""Threads that repeat one action as long as the process lives: a failure ends one pass, not the thread."""

import threading
from collections.abc import Callable
from contextlib import suppress

import structlog

from scheduler.errors import SchedulerError

log = structlog.get_logger(__name__)


class Repeating:
    """Calls `act` at intervals by the monotonic clock, on a thread of its own."""

    def __init__(self, what: str, act: Callable[[], None], interval_seconds: float) -> None:
        """`what` names it in logs: slot loads, retention, …"""
        self._what = what
        self._act = act
        self._interval_seconds = interval_seconds
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=what.replace(" ", "-"), daemon=True)
        #: Why the last pass failed, in one line; None: it did not.
        self.trouble: str | None = None

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Return when the present pass has ended."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()

    def once(self) -> None:
        """Run one pass. Its failure is logged, and reported until a pass succeeds."""
        try:
            self._act()
        except Exception as error:
            before, self.trouble = self.trouble, f"{self._what}: {one_line(error)}"
            if self.trouble != before:
                told = isinstance(error, SchedulerError)  # it says all that there is to know
                with suppress(Exception):  # a trace is read from files, which there may be none left to open
                    log.warning("failed, trying again", what=self._what, error=one_line(error), exc_info=not told)
        else:
            if self.trouble is not None:
                log.info("succeeds again", what=self._what)
            self.trouble = None

    def _run(self) -> None:
        while not self._closing.wait(self._interval_seconds):
            self.once()


def one_line(error: BaseException) -> str:
    """The error in one line."""
    return (str(error) or type(error).__name__).partition("\n")[0]
