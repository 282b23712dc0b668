"""One daemon of a run: an engine with its board and its reports, which may die, stand still, and come back."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from scheduler.clock import VirtualClock
from scheduler.clusters.simulated.cluster import SimulatedCluster
from scheduler.config import RetentionSettings, Settings
from scheduler.engine.apply.launch import LaunchContext
from scheduler.engine.attribution.caution import Caution
from scheduler.engine.board import Board
from scheduler.engine.state.reports import ReportBox
from scheduler.engine.tick import Engine, Step
from scheduler.engine.timing.steady_clock import SteadyClock
from scheduler.model.observation import WorkerReport
from tests.faults.clocks import MachineClock
from tests.faults.kinds import Die, Freeze, Reboot, Reconfigure, SlowCommits, SlowObservations, Stop, Suspend
from tests.faults.links import Line, Reach
from tests.faults.plan import Scenario
from tests.poison import Killed

Fate = Die | Freeze | Suspend | Reboot | Stop | Reconfigure
#: A tick that waits goes on later.
Slow = SlowCommits | SlowObservations

#: A rehearsal that takes longer hangs; none here does.
REHEARSAL_SECONDS_MAX = 60.0
#: From a tick that failed, or that the daemon died of, to the next one.
RESTART_SECONDS = 0.5

_LAUNCH = LaunchContext("http://127.0.0.1:1", lambda job: f"token-{job.id}", Path("jobs"))


@dataclass(slots=True)
class Daemon:
    """`holder` stays over restarts, as that of a real daemon does; everything else is lost when it dies."""

    holder: str
    line: Line
    cluster: SimulatedCluster
    #: The true time, and that of its machine.
    true: VirtualClock
    machine: MachineClock
    settings: Settings
    #: What it goes by.
    clock: SteadyClock = field(init=False)
    board: Board = field(init=False)
    reports: ReportBox = field(init=False)
    engine: Engine = field(init=False)
    #: When it ticks next, in true time.
    due_at: float = 0.0
    #: Dead or standing still until then, in true time.
    away_until: float = 0.0
    #: What happens to it in its next tick that gets so far.
    fate: Fate | None = None
    #: How long its commits take.
    commit_seconds: float = 0.0
    #: How long it waits for what it sees of the cluster.
    observe_seconds: float = 0.0
    #: It cannot reach the cluster until then, in true time.
    cut_off_until: float = 0.0
    deaths: int = 0
    #: Processes that it has been, one after the other.
    starts: int = field(default=0, init=False)
    #: Whether ticks are rehearsed after one that failed, since there is poison.
    careful: bool = False
    #: Whether it came back with nothing but a clock that was set to tell how long it was away.
    misled: bool = field(default=False, init=False)
    #: Whether its last tick failed at that.
    harmed: bool = False
    _tick: Iterator[Step] | None = None
    _stands_still: bool = False
    #: It waits for its store until then, in true time.
    _busy_until: float = 0.0

    def __post_init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self.starts += 1
        anchor = self.line.anchor()
        if anchor is not None and anchor.boot != self.machine.boot():
            self.misled = self.misled or self.machine.set_forward_since(anchor)
        self.clock = SteadyClock(self.machine, anchor)
        self.board, self.reports = Board(), ReportBox()
        reach = Reach(self.cluster, self.true, self.clock, lambda: self.leads, lambda: self.cut_off)
        self.engine = Engine(
            self.line.open(),
            reach,
            self.clock,
            self.settings,
            _LAUNCH,
            self.board,
            self.reports,
            self.holder,
            caution=Caution(self.clock, REHEARSAL_SECONDS_MAX) if self.careful else None,
        )
        self._tick = None

    @property
    def leads(self) -> bool:
        lease = self.engine.lease
        return lease is not None and lease.term == self.line.term

    @property
    def cut_off(self) -> bool:
        return self.true.now() < self.cut_off_until

    @property
    def away(self) -> bool:
        return self.true.now() < self.away_until

    def receive(self, report: WorkerReport) -> bool:
        """A worker's report arrives; whether it is urgent."""
        if self.board.posting(report.job_id) is None:
            return False  # as HTTP answers: nobody knows such a worker
        now = self.clock.now()
        return self.reports.put(report if report.received_at == now else replace(report, received_at=now))

    def tick(self) -> Fate | Slow | None:
        """Run its tick to the end, or to what befalls it on the way: then that is returned."""
        self.harmed = False
        try:
            return self._run_tick()
        except Exception:
            if not self.careful:
                raise
            self.engine.forget()
        except Killed:
            self.deaths += 1
            self._start()
        self.harmed, self._tick = True, None
        self.due_at = self.true.now() + RESTART_SECONDS
        return None

    def _run_tick(self) -> Fate | Slow | None:
        if self._stands_still:  # as its pulse finds
            self._stands_still = False
            self.engine.pulse.stood_still()
        if self._tick is None:
            self._tick = self.engine.steps()
        for step in self._tick:
            fate = self.fate
            if isinstance(fate, Die | Freeze | Suspend | Reboot) and fate.step is step:
                if isinstance(fate, Reboot):
                    self.machine.jump(-fate.behind_seconds)
                    self.machine.reboot()
                if isinstance(fate, Die | Reboot):
                    self.deaths += 1
                    self._start()
                else:
                    self._stands_still = True
                    if isinstance(fate, Suspend):
                        self.machine.sleep(fate.seconds)
                return self._leave(fate)
            if step is Step.OBSERVED and self.observe_seconds > 0:
                return self._wait(SlowObservations(self.observe_seconds))
            if step is Step.PLANNED and self.commit_seconds > 0:
                return self._wait(SlowCommits(self.commit_seconds))
        self._tick = None
        if isinstance(self.fate, Stop | Reconfigure):
            self._restart(self.fate)
            return self._leave(self.fate)
        self.due_at = self._due_at()
        return None

    def _wait(self, slow: Slow) -> Slow:
        self._busy_until = self.due_at = self.true.now() + slow.seconds
        return slow

    def start_anew(self, settings: Settings) -> None:
        """End in order and start again at once, with these settings."""
        self.engine.release()
        self.settings = settings
        self._start()
        self.due_at = self.true.now()

    def _restart(self, fate: Stop | Reconfigure) -> None:
        update = {"policy": fate.policy, "engine": fate.engine} if isinstance(fate, Reconfigure) else {}
        self.start_anew(self.settings.model_copy(update=update))

    def _leave(self, fate: Fate) -> Fate:
        self.fate = None
        self.away_until = self.due_at = self.true.now() + fate.seconds
        return fate

    def wake(self) -> None:
        """Something happened that it should look at soon."""
        if not self.away:
            self.due_at = max(min(self.due_at, self.true.now() + self._gap_seconds()), self._busy_until)

    def _due_at(self) -> float:
        """As `EngineLoop` does: when the last tick said so, but no later than the longest time between two."""
        now, gap_seconds = self.true.now(), self._gap_seconds()
        latest = now + max(self.settings.engine.tick_interval_seconds, gap_seconds)
        due_in_seconds = self.engine.report.next_tick_at - self.clock.now()
        return min(now + max(due_in_seconds, gap_seconds), latest)

    def _gap_seconds(self) -> float:
        return self.settings.engine.tick_gap_seconds if self.engine.report.error is None else 0.2


def daemons(scenario: Scenario, line: Line, cluster: SimulatedCluster, true: VirtualClock) -> tuple[Daemon, ...]:
    """Those of this plan, with names of their own."""
    retention = RetentionSettings(nodes_seconds=scenario.nodes_seconds)
    settings = Settings(policy=scenario.policy, engine=scenario.engine, retention=retention)
    ahead = scenario.ahead_seconds or (0.0,) * scenario.replicas
    return tuple(
        Daemon(
            f"daemon-{number}",
            line,
            cluster,
            true,
            MachineClock(true, seconds),
            settings,
            careful=scenario.poison is not None,
        )
        for number, seconds in enumerate(ahead, start=1)
    )
