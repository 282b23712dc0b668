"""One daemon of a run: an engine with its board and its reports, which may die, stand still, and come back."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from scheduler.clock import VirtualClock
from scheduler.clusters.simulated import SimulatedCluster
from scheduler.config import Settings
from scheduler.engine.board import Board
from scheduler.engine.launch import LaunchContext
from scheduler.engine.reports import ReportBox
from scheduler.engine.tick import Engine, Step
from tests.faults.links import Line, Reach
from tests.faults.plan import Die, Freeze, Stop

_LAUNCH = LaunchContext("http://127.0.0.1:1", lambda job_id: f"token-{job_id}", Path("jobs"))


@dataclass(slots=True)
class Daemon:
    """`holder` stays over restarts, as that of a real daemon does; everything else is lost when it dies."""

    holder: str
    line: Line
    cluster: SimulatedCluster
    clock: VirtualClock
    settings: Settings
    board: Board = field(init=False)
    reports: ReportBox = field(init=False)
    engine: Engine = field(init=False)
    #: When it ticks next; unix seconds.
    due_at: float = 0.0
    #: Dead or standing still until then; unix seconds.
    away_until: float = 0.0
    #: What happens to it in its next tick that gets so far.
    fate: Die | Freeze | Stop | None = None
    deaths: int = 0
    _tick: Iterator[Step] | None = None

    def __post_init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self.board, self.reports = Board(), ReportBox()
        reach = Reach(self.cluster, lambda: self.leads)
        self.engine = Engine(
            self.line, reach, self.clock, self.settings, _LAUNCH, self.board, self.reports, self.holder
        )
        self._tick = None

    @property
    def leads(self) -> bool:
        lease = self.engine.lease
        return lease is not None and lease.term == self.line.term

    @property
    def away(self) -> bool:
        return self.clock.now() < self.away_until

    def tick(self) -> Die | Freeze | Stop | None:
        """Run its tick to the end, or to what befalls it on the way: then that is returned."""
        if self._tick is None:
            self._tick = self.engine.steps()
        for step in self._tick:
            fate = self.fate
            if isinstance(fate, Die | Freeze) and fate.step is step:
                if isinstance(fate, Die):
                    self.deaths += 1
                    self._start()
                return self._leave(fate)
        self._tick = None
        if isinstance(self.fate, Stop):
            self.engine.release()
            self._start()
            return self._leave(self.fate)
        self.due_at = max(self.engine.report.next_tick_at, self.clock.now() + self._gap_seconds())
        return None

    def _leave(self, fate: Die | Freeze | Stop) -> Die | Freeze | Stop:
        self.fate = None
        self.away_until = self.due_at = self.clock.now() + fate.seconds
        return fate

    def wake(self) -> None:
        """Something happened that it should look at soon."""
        if not self.away:
            self.due_at = min(self.due_at, self.clock.now() + self._gap_seconds())

    def _gap_seconds(self) -> float:
        return self.settings.engine.tick_gap_seconds if self.engine.report.error is None else 0.2


def daemons(
    count: int, line: Line, cluster: SimulatedCluster, clock: VirtualClock, settings: Settings
) -> tuple[Daemon, ...]:
    """So many of them, with names of their own."""
    names = (f"daemon-{number}" for number in itertools.count(1))
    return tuple(Daemon(next(names), line, cluster, clock, settings) for _ in range(count))
