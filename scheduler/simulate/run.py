"""One simulated run: the real engine, store and planner; clock, cluster and the database's durability are not real.

Everything follows from the arguments: the same ones give the same result.
"""

import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

from scheduler.clock import VirtualClock
from scheduler.clusters.simulated.cluster import SimulatedCluster
from scheduler.clusters.simulated.process import Behaviour
from scheduler.config import Settings
from scheduler.engine.apply.launch import LaunchContext
from scheduler.engine.board import Board
from scheduler.engine.state.reports import ReportBox
from scheduler.engine.tick import Engine, TickReport
from scheduler.errors import SchedulerError, UserError
from scheduler.model.job import Runtime
from scheduler.model.observation import NodeObservation
from scheduler.model.queue import Queue
from scheduler.simulate.faults import FaultInjector, Faults, Kind
from scheduler.simulate.others import Others
from scheduler.simulate.record import Recorder
from scheduler.simulate.result import Result
from scheduler.simulate.timer import TickTimer
from scheduler.simulate.workload import Submission, Workload
from scheduler.store.sqlstore import SqlStore

#: Virtual time begins here: the engine takes 0 for "never".
START = 1_000_000.0
#: Nobody else can lead, so the lease never runs out.
LEASE_SECONDS = 1e9
#: Number of ticks without any event or running job after which the remaining jobs will never run.
IDLE_TICKS_MAX = 20


@dataclass(frozen=True, slots=True)
class Setup:
    """Where and how a workload runs."""

    nodes: tuple[NodeObservation, ...]
    settings: Settings
    #: Decide only at multiples of it; 0: whenever something happens, as the daemon does.
    every_seconds: float = 0.0
    #: Workers that have nothing new to say report, and commit their work, so often; the engine looks as often.
    report_seconds: float = 60.0
    #: Whether they report how much of the job is done.
    tells_fraction: bool = True
    #: Give up then.
    until_seconds: float = 10 * 365 * 86400.0
    #: What goes wrong; None: nothing.
    faults: Faults | None = None

    @property
    def slots(self) -> int:
        return sum(node.slots for node in self.nodes)


#: Told after each tick: jobs that ended, and the virtual seconds that have passed.
Watch = Callable[[int, float], None]


def simulate(workload: Workload, setup: Setup, watch: Watch = lambda ended, seconds: None) -> Result:
    """Run the workload to its end, or until nothing more can happen. Raises `UserError`, `SchedulerError`."""
    widest = max(node.slots for node in setup.nodes)
    if workload.node_slots_max is not None and widest > workload.node_slots_max:
        raise UserError(
            f"workload {workload.name}: speeds are known for nodes of at most {workload.node_slots_max} slots, "
            f"not of {widest}: simulate it on such nodes"
        )
    with _stage(workload, setup) as stage:
        return stage.play(watch)


@contextmanager
def _stage(workload: Workload, setup: Setup) -> Iterator["_Stage"]:
    with tempfile.TemporaryDirectory(prefix="sched-simulate-") as directory:
        store = SqlStore(f"sqlite:///{directory}/simulated.db", durable=False)
        try:
            store.upgrade()
            yield _Stage(workload, setup, store, Path(directory))
        finally:
            store.close()


def _as_given(queue: Queue, _: Queue | None) -> Queue:
    return queue


class _Stage:
    """Clock, cluster, engine and what is still to be submitted."""

    def __init__(self, workload: Workload, setup: Setup, store: SqlStore, directory: Path) -> None:
        self._setup = setup
        self._store = store
        self._clock = VirtualClock(START)
        self._settings = _settings(setup, directory)
        self._launch = LaunchContext("http://127.0.0.1:1", lambda job: "", directory)
        self._cluster = SimulatedCluster(self._clock, Board(), ReportBox())
        for node in setup.nodes:
            self._cluster.add_node(node)
        for queue in workload.queues:
            store.set_queue(queue.path, partial(_as_given, queue), START)
        self._faults = FaultInjector(setup.faults or Faults(), setup.nodes, self._cluster, START)
        self._others = Others(workload.foreign, self._cluster, START)
        self._engine = self._start_engine()
        self._timer = TickTimer(self._settings.engine.tick_gap_seconds, setup.every_seconds, START)
        self._cluster.on_change(lambda: self._timer.wake(self._clock.now()))
        self._recorder = Recorder(workload, self._cluster, START)
        self._submissions = workload.submissions
        self._submitted = 0
        self._idle_ticks = 0

    def play(self, watch: Watch) -> Result:
        end = START + self._setup.until_seconds
        while self._recorder.ended < len(self._submissions) and self._idle_ticks < IDLE_TICKS_MAX:
            now = max(self._next_moment(), self._clock.now())
            if now > end:
                self._clock.set(end)
                break
            self._clock.set(now)
            self._cluster.advance()
            self._go_wrong(now)
            if self._others.play(now):
                self._timer.wake(now)
            self._submit(now)
            if self._faults.daemon_runs and self._timer.due(now) <= now:
                self._tick()
                watch(self._recorder.ended, now - START)
        result = replace(self._recorder.result(self._setup.slots, self._clock.now()), foreign=self._others.results())
        return replace(result, faults=self._faults.counts(self._clock.now())) if self._setup.faults else result

    def _start_engine(self) -> Engine:
        """The daemon starts: it knows what is stored, and hears workers from now on."""
        board, reports = Board(), ReportBox()
        self._cluster.follow(board, reports)
        parts = (self._settings, self._launch, board, reports)
        return Engine(self._store, self._cluster, self._clock, *parts, "simulator")

    def _go_wrong(self, now: float) -> None:
        """Faults that are due by now."""
        for kind in self._faults.inject(now):
            if kind is Kind.DAEMON_DIES:
                self._cluster.follow(Board(), ReportBox())  # nobody answers its workers
            elif kind is Kind.DAEMON_STARTS:
                self._engine = self._start_engine()
            self._timer.wake(now)

    def _next_moment(self) -> float:
        moments = [self._faults.next_at(), self._others.next_at]
        if self._faults.daemon_runs:
            moments.append(self._timer.due(self._clock.now()))
        event_at = self._cluster.next_event_at()
        if event_at is not None:
            moments.append(event_at)
        if self._submitted < len(self._submissions):
            moments.append(START + self._submissions[self._submitted].at)
        return min(moments)

    def _submit(self, now: float) -> None:
        first = self._submitted
        while self._submitted < len(self._submissions) and START + self._submissions[self._submitted].at <= now:
            self._submitted += 1
        due = self._submissions[first : self._submitted]
        if not due:
            return
        for index, stored in enumerate(self._store.submit([each.spec for each in due], now), first):
            self._recorder.submitted(stored.id, index, now)
            self._cluster.behave(stored.id, self._behaviour(self._submissions[index]))
        self._timer.wake(now)

    def _behaviour(self, submission: Submission) -> Behaviour:
        return Behaviour(
            runtime=Runtime.ELASTIC,
            launch_seconds=0.0,
            ready_seconds=0.0,
            form_seconds=submission.resize_seconds,
            pause_to_form=True,
            heartbeat_seconds=self._setup.report_seconds,
            leave_seconds=submission.leave_seconds,
            work=submission.work,
            tells_fraction=self._setup.tells_fraction,
            shared_speed=submission.shared_speed,
            load=submission.load,
            loses_work=self._setup.faults is not None,
        )

    def _tick(self) -> None:
        self._timer.starts()
        report = self._engine.tick()
        self._timer.ended(report)
        _refuse_defects(report)
        self._recorder.ticked(report)
        self._faults.ticked(report)
        waiting = self._submitted < len(self._submissions) or self._others.next_at < math.inf
        waiting = waiting or self._cluster.next_event_at() is not None
        if waiting or self._timer.woken or any(event.job_id is not None for event in report.events):
            self._idle_ticks = 0
        elif not self._faults.something_returns and not self._pauses(report.at):
            self._idle_ticks += 1

    def _pauses(self, now: float) -> bool:
        """Whether a job, a worker or a node only waits for a moment that is known."""
        world = self._engine.world
        if world is None:
            return False
        moments = chain(
            (job.not_before for job in world.queued.values()),
            (worker.not_before for job in world.active.values() for worker in job.all_workers),
            (node.quarantined_until or 0.0 for node in world.nodes.values()),
        )
        return any(moment > now for moment in moments)


def _refuse_defects(report: TickReport) -> None:
    """A run that is not what the scheduler would do is worth nothing."""
    if report.error is not None:
        raise SchedulerError(f"simulated tick at {report.at - START:.2f} s failed: {report.error}")
    if report.violations:
        broken = report.violations[0]
        raise SchedulerError(
            f"the plan at {report.at - START:.2f} s breaks an invariant: {broken.invariant}: {broken.detail}"
        )


def _settings(setup: Setup, directory: Path) -> Settings:
    settings = setup.settings
    engine = settings.engine.model_copy(
        update={
            "lease_seconds": LEASE_SECONDS,
            "heartbeat_seconds": 0.0,  # its workers report as often as it is told, and never hang
            "tick_interval_seconds": max(settings.engine.tick_interval_seconds, setup.report_seconds),
        }
    )
    return settings.model_copy(update={"engine": engine, "state_dir": directory})
