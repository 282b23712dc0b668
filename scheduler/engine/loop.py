"""Runs ticks: at the latest when the last one said, at once when something happened, never too often."""

import threading
from collections.abc import Callable

from scheduler.config import EngineSettings
from scheduler.engine.ports import Clock
from scheduler.engine.tick import Engine, TickReport
from scheduler.model.job_state import JobState

#: Shortest pause after a tick that could not decide.
ERROR_PAUSE_SECONDS = 0.2
#: Longest of the pauses that double while ticks only put jobs into the queue.
BURST_PAUSE_SECONDS = 0.1


class EngineLoop:
    """Owns the thread that calls `run`; `wake` and `stop` may be called from any other."""

    def __init__(
        self,
        engine: Engine,
        settings: EngineSettings,
        clock: Clock,
        on_report: Callable[[TickReport], None],
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._clock = clock
        self._on_report = on_report
        self._pause_seconds = 0.0
        self._woken = threading.Event()
        self._stopped = threading.Event()

    def wake(self) -> None:
        """Run a tick soon: something happened that it should look at."""
        self._woken.set()

    def stop(self) -> None:
        """Let `run` return after the tick that is under way."""
        self._stopped.set()
        self._woken.set()

    def run(self) -> None:
        """Tick until stopped, then give the lease back."""
        while not self._stopped.is_set():
            self._woken.clear()  # before the tick: what happens during it wakes the next one
            report = self._engine.tick()
            self._on_report(report)
            self._wait(report)
        self._engine.release()

    def _wait(self, report: TickReport) -> None:
        """A pause that takes bursts together, then until the next deadline or wake-up."""
        self._pause_seconds = pause_after(report, self._pause_seconds, self._settings.tick_gap_seconds)
        self._stopped.wait(self._pause_seconds)
        # no tick asks for more than that, unless a follower's clock was put in step with the leader's since
        due_seconds = min(report.next_tick_at - self._clock.now(), self._settings.tick_interval_seconds)
        self._woken.wait(max(0.0, due_seconds))


def pause_after(report: TickReport, last_seconds: float, shortest_seconds: float) -> float:
    """Seconds until the next tick may begin, given the pause before this one.

    While submissions stream in that have to wait, each tick would only delay the next submission. The first tick that
    changes anything else ends that. After an error nothing that wakes the loop would let the next tick do better.
    """
    if report.error is not None:
        return ERROR_PAUSE_SECONDS
    if report.changed and all(job.state is JobState.QUEUED for job in report.changed):
        return max(shortest_seconds, min(2 * last_seconds, BURST_PAUSE_SECONDS))
    return shortest_seconds
