"""The world builder: the real engine and store over a simulated cluster and a virtual clock.

After every tick all invariants are checked (see `tests.invariants`), so a test only says what it is about:

    w.node("a", slots=8)
    low = w.job("low", priority=1, workers=(1, 8))
    w.settle()
    w.expect(low, JobState.RUNNING, workers=8)
"""

import itertools
import sqlite3
from pathlib import Path
from typing import Any

from scheduler.clock import VirtualClock
from scheduler.clusters.simulated.cluster import SimulatedCluster
from scheduler.clusters.simulated.process import Behaviour
from scheduler.config import Settings
from scheduler.engine.apply.launch import LaunchContext
from scheduler.engine.attribution.caution import Caution
from scheduler.engine.board import Board
from scheduler.engine.state.reports import ReportBox
from scheduler.engine.tick import Engine, Step, TickReport
from scheduler.model.booking import Booking
from scheduler.model.event import Event, EventKind
from scheduler.model.ids import JobId, NodeName
from scheduler.model.intent import IntentKind
from scheduler.model.job import Job, Runtime
from scheduler.model.job_state import JobState
from scheduler.model.observation import NodeObservation
from scheduler.model.shape import WorkerShape
from scheduler.store.sqlstore import SqlStore
from tests.databases import migrated_sqlite
from tests.invariants.checker import InvariantChecker
from tests.specs import spec_of

START = 1_000_000.0
#: A rehearsal that takes longer hangs, on a machine that does other things besides.
REHEARSAL_SECONDS_MAX = 5.0


class World:
    """One cluster, one database, and an engine that can be killed and started again."""

    def __init__(
        self, directory: Path, url: str | None = None, settings: Settings | None = None, *, careful: bool = False
    ) -> None:
        """`careful`: its engines rehearse ticks after one that failed, as a daemon's does."""
        self.clock = VirtualClock(START)
        self._careful = careful
        self.settings = settings or Settings(state_dir=directory)
        self.store = SqlStore(url or migrated_sqlite(directory / "world.db"), durable=False)
        self.board = Board()
        self.reports = ReportBox()
        self.cluster = SimulatedCluster(self.clock, self.board, self.reports)
        self.directory = directory
        self.launch = LaunchContext("http://127.0.0.1:1", lambda job: f"token-{job.id}", directory / "jobs")
        self.engine = self._new_engine("engine-1")
        self._engines = itertools.count(2)
        self.submitted: list[JobId] = []
        self.reported: list[TickReport] = []
        self._reader = None if url else sqlite3.connect(directory / "world.db", isolation_level=None)
        self.checker = InvariantChecker(self, revision=self._revision)
        self.restarts = 0

    def _new_engine(self, holder: str, url: str | None = None) -> Engine:
        caution = Caution(self.clock, REHEARSAL_SECONDS_MAX) if self._careful else None
        others = (self.settings, self.launch, self.board, self.reports, holder, url, caution)
        return Engine(self.store, self.cluster, self.clock, *others)

    def _revision(self) -> int:
        """The number of the newest commit; asked after every tick, and so without SQLAlchemy where that is possible."""
        if self._reader is None:
            return self.store.read_lease().revision
        [[revision]] = self._reader.execute("SELECT coalesce(max(revision), 0) FROM lease").fetchall()
        return int(revision)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self.store.close()

    # building

    def node(self, name: str, slots: int, **facts: object) -> NodeName:
        """Add a node to the cluster."""
        node = NodeObservation(NodeName(name), f"host-{name}", slots, **facts)  # type: ignore[arg-type]
        self.cluster.add_node(node)
        return node.name

    def node_name(self, name: str) -> NodeName:
        return NodeName(name)

    def job(
        self,
        name: str,
        *,
        runtime: Runtime = Runtime.ELASTIC,
        behaviour: Behaviour | None = None,
        **fields: Any,
    ) -> JobId:
        """Submit a job that `tests.specs.spec_of` describes."""
        spec = spec_of(name, runtime=runtime, **fields)
        job_id = self.store.submit([spec], self.clock.now())[0].id
        self.submitted.append(job_id)
        self.cluster.behave(job_id, behaviour or Behaviour(runtime=runtime))
        return job_id

    def ask(self, kind: IntentKind, job_id: JobId | None = None, **values: object) -> None:
        """Store a user's intent."""
        self.store.add_intent(kind, self.clock.now(), job_id=job_id, **values)  # type: ignore[arg-type]

    def book(
        self,
        name: str,
        *,
        slots: int,
        start: float,
        duration: float,
        slots_per_worker: int = 1,
        selector: dict[str, str] | None = None,
        gpu_type: str | None = None,
        asked_at: float = 0.0,
        **fields: object,
    ) -> None:
        """Ask for a booking that starts `start` seconds from now, by a clock that is `asked_at` seconds ahead."""
        now = self.clock.now()
        shape = WorkerShape(slots_per_worker, node_selector=tuple((selector or {}).items()), gpu_type=gpu_type)
        workers = slots // slots_per_worker
        window = (now + start, now + start + duration)
        self.store.add_booking(Booking(name, *window, workers, shape, now + asked_at, **fields))  # type: ignore[arg-type]

    def unbook(self, name: str) -> None:
        self.ask(IntentKind.UNBOOK, booking=name)

    def ask_cancel(self, job_id: JobId) -> None:
        self.ask(IntentKind.CANCEL, job_id)

    def set_priority(self, job_id: JobId, priority: int) -> None:
        self.ask(IntentKind.PRIORITY, job_id, priority=priority)

    # running

    def tick(self) -> TickReport:
        """One tick at the present moment, with every invariant checked after it."""
        report = self._tick()
        self.reported.append(report)
        self.checker.after_tick(report)
        return report

    def _tick(self) -> TickReport:
        try:
            return self.engine.tick()
        except Exception:
            if not self._careful:
                raise
            self.engine.forget()  # as the daemon's thread does
        return self.engine.tick()

    def advance(self, seconds: float) -> None:
        """Let time pass, ticking whenever the engine or the cluster has something due."""
        until = self.clock.now() + seconds
        report = self.tick()
        for _ in range(100_000):
            next_event = self.cluster.next_event_at()
            due = min(report.next_tick_at, next_event if next_event is not None else until)
            if due > until:
                self.clock.set(until)
                return
            self.clock.set(max(due, self.clock.now() + 0.001))
            if self.clock.now() > until:
                return
            report = self.tick()
        raise AssertionError("time does not pass: the engine asks for tick after tick")

    def settle(self, seconds: float = 60.0) -> None:
        """Let time pass until the world stands still, then check that five more ticks change nothing (I10)."""
        self.advance(seconds)
        for _ in range(5):
            self.clock.advance(self.settings.engine.tick_interval_seconds)
            report = self.tick()
            moved = [event for event in report.events if event.kind is not EventKind.JOB_CHANGED]
            assert not moved, f"the world does not settle: {moved}"

    def tick_until(self, step: Step) -> None:
        """Run a tick up to and including a step, then let the engine die."""
        for reached in self.engine.steps():
            if reached is step:
                break
        self.kill_engine()

    def kill_engine(self) -> None:
        """A crash: everything that was in memory is gone; another engine has seen the lease stay as it is."""
        self.restarts += 1
        self.engine = self._new_engine(f"engine-{next(self._engines)}")
        self.board.clear()
        assert self.engine.tick().following
        self.clock.advance(self.settings.engine.lease_seconds)

    def stand_still(self, seconds: float) -> None:
        """The daemon stands still, as on a suspended machine: no tick, and nobody hears what workers say."""
        self.cluster.follow(Board(), ReportBox())
        self.clock.advance(seconds)
        self.cluster.advance()
        self.engine.pulse.stood_still()
        self.cluster.follow(self.board, self.reports)

    # looking

    def get(self, job_id: JobId) -> Job:
        """The job as stored, ended or not."""
        job = self.store.get_job(job_id)
        assert job is not None
        return job

    def events(self, *kinds: EventKind) -> list[Event]:
        """History, oldest first."""
        events: list[Event] = []
        after = 0
        while page := self.store.list_events(after, limit=1000):
            events.extend(event for _, event in page)
            after = page[-1][0]
        return [event for event in events if not kinds or event.kind in kinds]

    def expect(self, job_id: JobId, state: JobState, workers: int | None = None) -> Job:
        """The job's state and size, or an error that shows its history."""
        job = self.get(job_id)
        size = len(job.wanted_workers)
        if job.state is not state or (workers is not None and size != workers):
            history = "\n".join(str(event) for event in self.events() if event.job_id == job_id)
            raise AssertionError(
                f"job {job_id} is {job.state} with {size} workers, not {state} with {workers}; "
                f"reason {job.wait_reason}, detail {job.detail!r}\n{history}"
            )
        return job
