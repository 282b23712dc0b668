"""Plays one seed: arrivals, faults and ticks in the order of virtual time, with every invariant checked on the way."""

import random
import time
import traceback
from dataclasses import dataclass, field
from functools import partial

from scheduler.clock import VirtualClock
from scheduler.clusters.simulated.cluster import SimulatedCluster
from scheduler.config import Settings
from scheduler.engine.board import Board
from scheduler.engine.ports import Role, StartWorker
from scheduler.engine.tick import Engine
from scheduler.errors import UnreadableRow
from scheduler.model.ids import JobId, NodeName
from scheduler.model.intent import IntentKind
from scheduler.model.job_state import JobState
from scheduler.model.queue import Queue, ancestry
from scheduler.store.sqlstore import SqlStore
from tests.faults.daemon import Daemon, daemons
from tests.faults.durations import Durations
from tests.faults.hangs import HangsEnd
from tests.faults.inflict import inflict, pick
from tests.faults.kinds import Fault, LoseNode, ScaleResizing
from tests.faults.links import Line, Mail
from tests.faults.plan import CHAOS_SECONDS, Arrival, Scenario
from tests.faults.poison import PoisonWatch
from tests.faults.readers import Readers
from tests.faults.settle import settle
from tests.faults.spoilt import SpoiltRows
from tests.faults.story import Story, brief
from tests.invariants.broken import Broken
from tests.invariants.checker import InvariantChecker

START = 1_000_000.0
#: No seed waits for longer silence to be noticed.
SILENCE_SECONDS_MAX = 15.0
#: More ticks than any seed needs, beside those while its jobs work: who asks for tick after tick does not settle.
TICKS_MAX = 6000


@dataclass(slots=True)
class Outcome:
    """What one seed came to."""

    seed: int
    ticks: int = 0
    deaths: int = 0
    virtual_seconds: float = 0.0
    cpu_seconds: float = field(default=0.0, compare=False)
    faults: dict[str, int] = field(default_factory=dict)
    #: The invariant that did not hold and where, or the error of a defect; None: all is well.
    broken: tuple[str, str] | None = None
    story: list[str] = field(default_factory=list)
    #: What was drawn into its scenario.
    features: tuple[str, ...] = ()


class Run:
    """One seed being played on an empty store."""

    def __init__(self, scenario: Scenario, store: SqlStore, story: Story) -> None:
        self.scenario = scenario
        self.store = store
        self.story = story
        self.clock = VirtualClock(START)
        self.mail = Mail(self.clock, random.Random(scenario.seed))
        self.cluster = SimulatedCluster(self.clock, Board(), self.mail)
        self.cluster.on_change(self.wake)
        for node in scenario.nodes:
            self.cluster.add_node(node)
        self.line = Line(store)
        self.daemons = daemons(scenario, self.line, self.cluster, self.clock)
        self.leader = self.daemons[0]
        self.submitted: list[JobId] = []
        self.checker = InvariantChecker(self, story.event, lambda: self.line.commits)
        self.readers = Readers(self, random.Random(f"{scenario.seed} readers"))
        self.poison = PoisonWatch(self)
        self.durations = Durations()
        self.hangs = HangsEnd(self)
        self.spoilt = SpoiltRows(store)
        self.ticks = 0
        idle = scenario.replicas * scenario.work_seconds / scenario.engine.tick_interval_seconds
        self._ticks_max = TICKS_MAX + int(idle)
        self._followed: Board | None = None
        #: Nodes that come back by themselves: when, and whether without their processes.
        self._returns: dict[NodeName, tuple[float, bool]] = {}
        self._coming = _in_order(scenario)
        #: What users are to ask of the next jobs that are seen being resized.
        self.edits: list[ScaleResizing] = []

    # what is checked

    @property
    def engine(self) -> Engine:
        return self.leader.engine

    @property
    def board(self) -> Board:
        return self.leader.board

    @property
    def settings(self) -> Settings:
        return self.leader.settings

    def watched(self, start: StartWorker) -> bool:
        """Whether silence of this worker is noticed soon."""
        arrival = self.scenario.arrivals[self.submitted.index(start.job_id)]
        spec, fixed = arrival.spec, start.role is Role.FIXED
        if fixed and arrival.behaviour.fixed_heartbeat_seconds is None:
            return False
        by_default = self.scenario.engine.heartbeat_seconds if spec.runtime.reports and not fixed else 0.0
        limit = by_default if spec.heartbeat_seconds is None else spec.heartbeat_seconds
        return 0.0 < limit <= SILENCE_SECONDS_MAX

    def ended(self, job_id: JobId) -> bool:
        """Whether the job has ended; one that cannot be read has not."""
        try:
            job = self.store.get_job(job_id)
        except UnreadableRow:
            return False
        return job is None or job.state.terminal

    # what faults do

    def ask(self, kind: IntentKind, **values: object) -> None:
        """Store a user's request and wake whoever leads, as HTTP does."""
        self.store.add_intent(kind, self.leader.clock.now(), **values)  # type: ignore[arg-type]
        self.wake()

    def have_queue(self, path: str) -> None:
        """Set the queue, and those around it, where they do not exist: none of their jobs is refused."""
        for each in ancestry(path):
            if self.store.get_queue(each) is None:
                plain = Queue(each, self.leader.clock.now())
                self.store.set_queue(each, partial(_given, plain), plain.created_at)
                self.wake()

    def lose_node(self, name: NodeName, fault: LoseNode) -> NodeName:
        self.cluster.lose_node(name, listed=fault.listed, remembered=fault.remembered)
        self._returns[name] = (self.clock.now() + fault.seconds, fault.rebooted)
        return name

    def is_lost(self, name: NodeName) -> bool:
        """Whether the node cannot be reached now."""
        return name in self._returns

    def stop_faults(self) -> None:
        """From now on everything works again, and users do what the plan says they do in the end."""
        for node in self.scenario.nodes:
            self.cluster.see_late(node.name, 0.0)
            if node.name in self._returns:
                self._return_node(node.name)
            if self.scenario.uncordon:
                self.ask(IntentKind.UNCORDON, node=node.name)
        self.cluster.action_faults.clear()
        self.cluster.observe_failures = 0
        self.cluster.repeat_forgotten = False
        self.line.faults.clear()
        self.cluster.foreign.held_up = False
        for name in self.cluster.foreign.names if self.scenario.others_leave else ():
            self.cluster.foreign.go(name)
        self.edits.clear()
        self.mail.late_seconds = self.mail.twice = 0.0
        for daemon in self.daemons:
            daemon.fate, daemon.commit_seconds, daemon.observe_seconds, daemon.cut_off_until = None, 0.0, 0.0, 0.0
            daemon.machine.set_right()
        if self.scenario.resume:
            for job_id in self.submitted:
                self.ask(IntentKind.RESUME, job_id=job_id)
        self.poison.end()
        self.spoilt.mend()
        self.story.note(self.clock.now(), "faults stop")

    # time

    def play(self) -> None:
        """The whole seed. Raises `Broken`."""
        with self.poison.at_work():
            self.advance(CHAOS_SECONDS)
            self.stop_faults()
            settle(self)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        until = self.clock.now() + seconds
        while True:
            self._happen()
            for daemon in self.daemons:
                if daemon.due_at <= self.clock.now():
                    self._tick(daemon)
            when = max(self._next_at(), self.clock.now())
            if when > until:
                self.clock.set(until)
                return
            self.clock.set(when)

    def _next_at(self) -> float:
        times = [daemon.due_at for daemon in self.daemons]
        times += (when for when, _ in self._returns.values())
        if self._coming:
            times.append(self._coming[0][0])
        others = (self.cluster.next_event_at(), self.mail.next_at(), self.readers.next_at())
        times += (when for when in others if when is not None)
        return min(times)

    def _happen(self) -> None:
        """Everything but ticks that is due by now."""
        now = self.clock.now()
        self._listen()
        self.cluster.advance()
        if self.mail.deliver():
            self.wake()
        self.readers.read()
        for name in [name for name, (when, _) in self._returns.items() if when <= now]:
            self._return_node(name)
        while self._coming and self._coming[0][0] <= now:
            what = self._coming.pop(0)[1]
            if isinstance(what, Arrival):
                self._arrive(what)
            elif (target := inflict(self, what)) is not None:
                self.story.fault(now, what, target)

    def _arrive(self, arrival: Arrival) -> None:
        self.have_queue(arrival.spec.queue)
        (answer,) = self.store.submit([arrival.spec], self.leader.clock.now())
        self.submitted.append(answer.id)
        self.cluster.behave(answer.id, arrival.behaviour)
        if arrival.spec.data is not None:
            self.readers.submitted(answer.id)
        self.story.note(self.clock.now(), f"job {answer.id}: {brief(arrival.spec)}, {brief(arrival.behaviour)}")
        self.wake()

    def _return_node(self, name: NodeName) -> None:
        _, rebooted = self._returns.pop(name)
        self.cluster.return_node(name, rebooted=rebooted)
        self.story.note(self.clock.now(), f"{name} is back{' after a reboot' if rebooted else ''}")
        self.wake()

    def _tick(self, daemon: Daemon) -> None:
        self.ticks += 1
        if self.ticks > self._ticks_max:
            raise Broken("I10", f"more than {self._ticks_max} ticks: {daemon.engine.report}")
        fate = daemon.tick()
        if fate is not None:
            self.story.note(self.clock.now(), f"{daemon.holder}: {fate}")
        else:
            self.story.error(self.clock.now(), daemon.holder, daemon.engine.report.error)
        if daemon.leads:
            self.leader = daemon
        if fate is None and not daemon.harmed:
            self._check(daemon)
        self.poison.after_tick(daemon, disturbed=fate is not None or daemon.engine.report.error is not None)
        self.hangs.after_tick(daemon, fate)
        self._edit()
        self._listen()

    def _check(self, daemon: Daemon) -> None:
        """What a tick that ran to its end has to leave."""
        if daemon.leads:
            self.checker.after_tick(daemon.engine.report, self._left_out(daemon))
            self.durations.after_tick(self)
        elif daemon.engine.report.following:
            self.checker.after_following(daemon.board, self._left_out(daemon))

    def _left_out(self, daemon: Daemon) -> list[JobId]:
        """Jobs that its world may lack, though they are stored."""
        return [*self.poison.left_out(daemon), *self.spoilt.jobs]

    def _edit(self) -> None:
        """Users change the bounds of jobs that they see being resized."""
        world = self.board.world
        resizing = [job.id for job in world.active.values() if job.state is JobState.RESIZING] if world else []
        while resizing and self.edits:
            edit = self.edits.pop(0)
            job_id = pick(resizing, edit.pick)
            bounds = {"min_workers": edit.min_workers, "max_workers": edit.max_workers}
            self.ask(IntentKind.SCALE, job_id=job_id, **bounds)
            self.story.note(self.clock.now(), f"job {job_id} is being resized: {edit}")

    def _listen(self) -> None:
        """Workers find the daemon that leads; nobody answers for one that is away."""
        board = None if self.leader.away else self.leader.board
        if board is not self._followed:
            self._followed = board
            self.mail.receive = None if board is None else self.leader.receive
            self.cluster.follow(board or Board(), self.mail)

    def wake(self) -> None:
        """Something happened that whoever leads should look at soon."""
        for daemon in self.daemons:
            daemon.wake()


def _given(queue: Queue, before: Queue | None) -> Queue:
    return before or queue


def _in_order(scenario: Scenario) -> list[tuple[float, Arrival | Fault]]:
    """Arrivals and faults by time; a job comes before what happens to it."""
    coming: list[tuple[float, Arrival | Fault]] = [(START + a.at, a) for a in scenario.arrivals]
    coming += ((START + at, fault) for at, fault in scenario.faults)
    return sorted(coming, key=lambda what: what[0])


def play(scenario: Scenario, store: SqlStore, *, told: bool = False) -> Outcome:
    """Play the seed on an empty store; a broken invariant or a defect is part of the outcome."""
    story = Story(START, told=told)
    run = Run(scenario, store, story)
    outcome = Outcome(scenario.seed, features=scenario.features)
    began = time.process_time()
    try:
        run.play()
    except Broken as error:
        outcome.broken = (error.invariant, error.detail)
    except Exception as error:
        outcome.broken = ("DEFECT", f"{type(error).__name__}: {error}")
        story.note(run.clock.now(), traceback.format_exc())
    outcome.ticks, outcome.deaths = run.ticks, sum(daemon.deaths for daemon in run.daemons)
    outcome.virtual_seconds = run.clock.now() - START
    outcome.faults = dict(story.faults)
    outcome.story = story.lines
    outcome.cpu_seconds = time.process_time() - began
    return outcome


def verdict(outcome: Outcome, replay: str = "") -> str:
    """What became of it, with the command that shows how: by default that of the seed."""
    command = replay or f"--seed {outcome.seed}"
    if outcome.broken is None:
        return f"{command}: all invariants held"
    invariant, detail = outcome.broken
    return f"{invariant}: {detail}\n  replay: python -m tests.faults {command}"
