"""The engine's thread: ticks until it is stopped, whatever happens, and tells how it goes."""

import threading
from collections import Counter
from collections.abc import Callable

import structlog

from scheduler.backoff import Backoff
from scheduler.engine.board import Board
from scheduler.engine.loop import EngineLoop
from scheduler.engine.ports import Clock
from scheduler.engine.tick import TICK_SECONDS_MAX, Engine, TickReport
from scheduler.model.event import EventKind

log = structlog.get_logger(__name__)

BACKOFF = Backoff(0.5, 30.0)
#: A tick that takes longer when the process is told to stop is not waited for.
STOP_SECONDS_MAX = 15.0
#: What is left out of decisions from now on.
_HELD = frozenset({EventKind.JOB_HELD, EventKind.NODE_HELD, EventKind.WITHHELD})


def _standing(report: TickReport) -> str:
    if report.error is not None:
        return "the scheduler is not making decisions"
    return "following: another replica leads" if report.following else "leading: making decisions"


class EngineThread:
    """Runs the loop. A defect in a tick is logged and counted; the engine goes on with a freshly loaded world."""

    def __init__(
        self,
        engine: Engine,
        board: Board,
        clock: Clock,
        loop_of: Callable[[Callable[[TickReport], None]], EngineLoop],
        on_report: Callable[[TickReport], None],
        on_crash: Callable[[], None],
        on_stuck: Callable[[], None],
    ) -> None:
        """`on_stuck`: the process is told to stop, and the present tick does not end."""
        self._engine = engine
        self._board = board
        self._clock = clock
        self._loop = loop_of(self._observe)
        self._on_report = on_report
        self._on_crash = on_crash
        self._on_stuck = on_stuck
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="engine")
        self._started_at = clock.now()
        self._report: TickReport | None = None
        self._crash: str | None = None
        #: Actions that have failed, and why, since all succeeded last.
        self._failing: frozenset[tuple[str, str]] = frozenset()
        self._crashes = 0

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Let it end after the present tick and give the lease back; does not wait for that."""
        self._stopping.set()
        self._loop.stop()

    def stop(self) -> None:
        """End after the present tick, give the lease back, and return then."""
        self.finish()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS_MAX)
            if self._thread.is_alive():
                self._on_stuck()

    def wake(self) -> None:
        self._loop.wake()

    def not_ready(self) -> str | None:
        """Why jobs are not being decided on now; None if they are.

        The world is loaded under the lease, so once it is there the first tick is being decided.
        """
        report, world = self._report, self._board.world
        if self._crash is not None:
            return f"the engine is restarting after an internal error: {self._crash}"
        # without nodes nothing can be told of what a job would find, and the first tick is about to observe them
        if report is None and (world is None or not world.nodes):
            return "the daemon is starting"
        if report is not None and report.error is not None:
            return report.error
        if world is None:
            return "the jobs are not loaded yet"
        silence_seconds = self._clock.now() - (self._started_at if report is None else report.at)
        if silence_seconds > TICK_SECONDS_MAX:
            return f"no tick for {silence_seconds:.0f} s: the engine hangs"
        return None

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._loop.run()
            except Exception as error:
                # Whatever it is, training and the queue must go on; the world in memory is not to be trusted.
                self._crashes += 1
                pause_seconds = BACKOFF.pause_seconds(self._crashes)
                log.exception("tick failed", retry_seconds=pause_seconds)
                self._crash = f"{type(error).__name__}: {error}".partition("\n")[0]
                self._engine.forget()
                self._on_crash()
                self._stopping.wait(pause_seconds)

    def _observe(self, report: TickReport) -> None:
        before = self._report
        self._report, self._crash, self._crashes = report, None, 0
        if report.error is not None and (before is None or before.error != report.error):
            log.warning("the scheduler is not making decisions", reason=report.error)
        elif report.error is None and (before is None or _standing(before) != _standing(report)):
            log.info(_standing(report))
        for violation in report.violations:
            log.error("an invariant is violated", invariant=violation.invariant, detail=violation.detail)
        for event in report.events:
            if event.kind in _HELD:
                what = {"job": event.job_id} if event.job_id is not None else {"node": event.node}
                log.error("held: ticks fail at it", cause=event.cause, detail=event.detail, **what)
        if report.leading and report.error is None:
            self._tell_failures(report)
        self._on_report(report)

    def _tell_failures(self, report: TickReport) -> None:
        """Once, however often they are asked again, until all succeed."""
        alike = Counter((type(failure.action).__name__, failure.error) for failure in report.action_failures)
        for (action, error), count in alike.items():
            if (action, error) not in self._failing:
                log.warning("worker actions failed, retrying", action=action, error=error, count=count)
        if self._failing and not alike:
            log.info("worker actions succeed again")
        self._failing = self._failing | alike.keys() if alike else frozenset()
