"""One pass of the engine that leads: observe, absorb, plan, check, commit, apply. All others follow its commits.

            cluster.observe()      store.take_inbox()
                  |                       |
                  v                       v
    world ---> absorb -----------> changeset ---> plan ---> check ---> enact
      ^                                                                  |
      |                                                                  v
      +----------------- world' <--- store.commit(changes, term) <--- changes
                                          |
                                          +---> board (discover_hosts), cluster.apply(actions)

The engine may die between any two steps: what it had not committed never happened, and what it had not applied
is the difference between desired and observed at the next tick.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from scheduler.config import Settings
from scheduler.engine import gc_pauses
from scheduler.engine.absorb.shards import DataWatch
from scheduler.engine.apply.carry_out import carry_out
from scheduler.engine.apply.launch import LaunchContext
from scheduler.engine.attribution.caution import Caution, Rehearsal
from scheduler.engine.attribution.failure import Failure
from scheduler.engine.attribution.inputs import TickInputs
from scheduler.engine.attribution.set_aside import set_aside
from scheduler.engine.board import Board
from scheduler.engine.changeset import committed
from scheduler.engine.deciding import Deciding
from scheduler.engine.leadership.follower import Follower, Unloaded
from scheduler.engine.leadership.lease_keeper import LeaseKeeper
from scheduler.engine.leadership.repairs import Repairs
from scheduler.engine.ports import ActionFailure, Cluster, EngineClock, Leader, Lease, Place, StopWorker, Store
from scheduler.engine.state.reports import Liveness, ReportBox
from scheduler.engine.timing.wall_watch import Jump, WallWatch
from scheduler.errors import (
    ClusterError,
    LeaseLost,
    SchemaMismatch,
    StaleWrite,
    StoreError,
    StoreUnavailable,
    WorkersElsewhere,
)
from scheduler.model.event import Event, EventKind
from scheduler.model.ids import NodeName
from scheduler.model.job import Job
from scheduler.model.observation import Observation, SlotLoad
from scheduler.model.subject import Subject, SubjectKind
from scheduler.model.world import Changes, World
from scheduler.policy.checks.invariants import Violation

#: Intents taken per tick; the rest waits for the next one.
INBOX_MAX = 10_000
#: A tick that takes longer hangs, and the lease is no longer kept for it.
TICK_SECONDS_MAX = 30.0
#: Share of the rest of the lease in which actions may be applied; what then remains is for its renewal.
APPLY_SHARE = 2 / 3
#: Errors of a tick that no job causes: it is tried again as it is.
_OF_NO_JOB = (ClusterError, StoreUnavailable, StaleWrite, SchemaMismatch, WorkersElsewhere)


class Step(Enum):
    """Steps of a tick in their order; a crash test dies after each of them."""

    LEASED = auto()
    OBSERVED = auto()
    INBOX_TAKEN = auto()
    ABSORBED = auto()
    PLANNED = auto()
    COMMITTED = auto()
    POSTED = auto()
    APPLIED = auto()


@dataclass(frozen=True, slots=True)
class TickReport:
    """Results of one tick, for metrics and logs."""

    at: float
    duration_seconds: float = 0.0
    #: Whether this engine holds the lease, which may run out while the store cannot be reached.
    leading: bool = False
    #: The newest commit of another leader that this engine's world holds.
    followed: int | None = None
    events: tuple[Event, ...] = ()
    #: Jobs whose rows changed.
    changed: tuple[Job, ...] = ()
    violations: tuple[Violation, ...] = ()
    action_failures: tuple[ActionFailure, ...] = ()
    #: Whether the lease had ended before the cluster could be told anything.
    late: bool = False
    #: Loads of slots, where known.
    loads: Mapping[NodeName, tuple[SlotLoad, ...]] = field(default_factory=dict)
    #: The steps that were reached, and how long each took.
    steps: tuple[tuple[Step, float], ...] = ()
    #: Why nothing was decided or done; None if the tick ran through.
    error: str | None = None
    #: The latest moment for the next tick; a wake-up may come before.
    next_tick_at: float = 0.0

    @property
    def following(self) -> bool:
        """Whether another engine leads and this one is in step with it."""
        return self.followed is not None


class Engine:
    """Runs the ticks. One thread calls `tick`; everything else reads the board."""

    def __init__(
        self,
        store: Store,
        cluster: Cluster,
        clock: EngineClock,
        settings: Settings,
        launch: LaunchContext,
        board: Board,
        reports: ReportBox,
        holder: str,
        url: str | None = None,
        caution: Caution | None = None,
        place: Place | None = None,
    ) -> None:
        """`holder` names this engine among all of its store; `url` is where others reach it.

        `caution`: when ticks are rehearsed and culprits held; None: never, a failure is raised.
        `place`: where its cluster runs workers; None: all engines of the store see the same ones.
        """
        self._store = store
        self._cluster = cluster
        self._clock = clock
        self._settings = settings
        self._caution = caution
        self._board = board
        self._reports = reports
        self._lease_keeper = LeaseKeeper(store, clock, holder, url, settings.engine.lease_seconds, place)
        self._follower = Follower(store, board)
        #: The newest term in which this engine has led.
        self._term = 0
        #: None until it is loaded, after a commit whose outcome is unknown, and while another engine leads.
        self.world: World | None = None
        #: Stored jobs with which the world could not be built, and the failures.
        self._unloaded: Unloaded = ()
        self._liveness = Liveness(reports)
        self._wall = WallWatch()
        self._data = DataWatch(store, settings.engine)
        self._repairs = Repairs(store)
        self._deciding = Deciding(settings, launch, self._data, self._liveness, reports)
        #: The inputs being decided by, and when that began in monotonic seconds; None: nothing is being decided.
        self.deciding: tuple[TickInputs, float] | None = None
        self.report = TickReport(at=0.0)
        #: When the last tick began or ended; monotonic seconds.
        self._moved_at = clock.monotonic()

    @property
    def lease(self) -> Lease | None:
        """None: this engine does not lead."""
        return self._lease_keeper.lease

    @property
    def leader(self) -> Leader | None:
        """The leader, this engine or another, as far as this one knows."""
        return self._lease_keeper.leader

    @property
    def heard_since(self) -> float:
        """When this process began to hear others, or went on after it had stood still; unix seconds."""
        return self._liveness.since

    @property
    def jump(self) -> Jump | None:
        """A set time of the machine that has not been confirmed, as far as this engine leads."""
        return None if self.lease is None else self._wall.jump

    @property
    def lease_seconds(self) -> float:
        return self._lease_keeper.ttl_seconds

    def troubles(self) -> list[str]:
        """Troubles that do not stop decisions on jobs, one line each."""
        return [str(each) for each in (self.jump, self._lease_keeper.slowness()) if each is not None]

    def tick(self) -> TickReport:
        """Run every step; failures of the store or the cluster end the tick and are reported, not raised."""
        with gc_pauses.paused():
            for _ in self.steps():
                pass
        return self.report

    def steps(self) -> Iterator[Step]:
        """The tick, pausing after each step."""
        now, began = self._clock.now(), self._clock.monotonic()  # only the latter is never set by the leader's
        self._moved_at = began
        if now > self.report.next_tick_at + self._settings.engine.tick_interval_seconds:
            self._liveness.since = now  # it stood still, and with it the ears of this process
        reached: list[tuple[Step, float]] = []
        try:
            yield from self._timed(self._steps(), reached)
        except LeaseLost as error:
            self._lease_keeper.lost()
            self.world = None
            self._give_up(error, 0.0)
        except _OF_NO_JOB as error:
            self._give_up(error, self._settings.engine.tick_interval_seconds)
        finally:
            self.deciding = None
        ended, slow_seconds = self._clock.now(), 2 * self._lease_keeper.write_seconds  # reports come in meanwhile
        if ended - now > self._settings.engine.tick_interval_seconds + slow_seconds:
            self._liveness.since = ended  # it stood still in the middle
        self._moved_at = self._clock.monotonic()
        self.report = replace(self.report, duration_seconds=self._moved_at - began, steps=tuple(reached))

    def _timed(self, steps: Iterator[Step], reached: list[tuple[Step, float]]) -> Iterator[Step]:
        """Pass the steps through, and record how long each took."""
        began = self._clock.monotonic()
        for step in steps:
            reached.append((step, self._clock.monotonic() - began))
            yield step
            began = self._clock.monotonic()

    def keep_lease(self) -> None:
        """Renew the lease if it is time to, as long as the engine moves: a busy engine is not dead.

        Called from another thread, several times per lease; the next tick finds any failure here.
        """
        idle_seconds = self._clock.monotonic() - self._moved_at
        if idle_seconds <= TICK_SECONDS_MAX + self._settings.engine.tick_interval_seconds:
            with suppress(StoreError):
                self._lease_keeper.renew()

    def release(self) -> None:
        """Let another engine lead at once."""
        self._lease_keeper.release()
        self.world = None

    def forget(self) -> None:
        """React to a failed tick: load the world before anything else is done, and be careful."""
        self.world = None
        self._follower.forget()
        if self._caution is not None:
            self._caution.begin()

    def _steps(self) -> Iterator[Step]:
        lease = self._lease_keeper.hold()
        now = self._clock.now()  # until it leads, the clock follows the leader's at each look at the lease
        if lease is None:
            self._follow(now)
            return
        if lease.term != self._term:
            self._begin(lease)
        if self.world is None or self._repairs.found(now):
            self.world = self._load(now)
        world = self.world
        yield Step.LEASED
        observation = self._observe()
        self._liveness.cut_off.update((name, now) for name in world.nodes if not observation.reaches(name))
        yield Step.OBSERVED
        inbox = self._store.take_inbox(INBOX_MAX)
        shares_done = self._data.shares_done(world, now)
        yield Step.INBOX_TAKEN
        inputs = TickInputs(now, world, observation, inbox, shares_done, {job.id: job for job, _ in self._unloaded})
        inputs, begun = set_aside(inputs, self._culprits(inputs, lease))
        self.deciding = inputs, self._clock.monotonic()
        changeset = self._deciding.absorb(inputs, begun)
        self._wall.look(changeset, self._clock.wall() - self._clock.now())
        if self._wall.jump is None:  # else nobody knows yet how long they have been gone
            self._deciding.forget_nodes(changeset, inputs.observation)
        yield Step.ABSORBED
        decided, violations = self._deciding.plan(changeset)
        self.deciding = None
        yield Step.PLANNED
        changes = changeset.changes()
        if changes:
            self._commit(changes, lease, now)
        stored = committed(changes)
        self.world = changeset.base.evolve(stored)
        self._deciding.dirty_jobs.absorbed(inputs.observation)
        self._passed(changes)
        self._reports.absorbed(observation.reports)
        yield Step.COMMITTED
        self._board.update(self.world, stored.jobs)
        self._forget_ended(changes)
        gc_pauses.keep(len(inbox.jobs) + sum(worker.created_at == now for worker in changes.workers))
        yield Step.POSTED
        unsettled = self._deciding.dirty_jobs.unsettled(self.world)
        failures = self._apply(self.world, unsettled, inputs.observation, now)
        self.report = TickReport(
            at=now,
            leading=True,
            late=failures is None,
            events=changes.events,
            changed=stored.jobs,
            violations=violations,
            action_failures=failures or (),
            loads=inputs.observation.loads,
            error=self._lease_keeper.trouble(late=failures is None),
            next_tick_at=now
            if len(inbox.intents) >= INBOX_MAX
            else self._deciding.next_tick_at(self.world, unsettled, decided, now),
        )
        yield Step.APPLIED

    def _follow(self, now: float) -> None:
        """Follow another leader: apply its commits, and look again when its lease may have been outlived."""
        changed = tuple(self._follower.follow(self._lease_keeper.revision_seen))
        wait_seconds = min(self._settings.engine.tick_interval_seconds, self._lease_keeper.outlived_in_seconds())
        self.report = TickReport(
            at=now, followed=self._follower.revision, changed=changed, next_tick_at=now + wait_seconds
        )

    def _begin(self, lease: Lease) -> None:
        """Begin a term: what this engine did and heard before others led is out of date."""
        self._deciding.stop_sent.clear()
        self._deciding.uncertain = {}
        self._reports.clear()
        self._liveness.called.clear()
        self._term = lease.term
        if self._caution is not None and self._lease_keeper.outlived:
            self._caution.begin()

    def _load(self, now: float) -> World:
        world, self._unloaded = self._follower.take_over()
        self._deciding.reset()
        self._liveness.since = now  # what was said to an engine before this one is not known
        return world

    def _culprits(self, inputs: TickInputs, lease: Lease) -> Mapping[Subject, Failure]:
        """Subjects for this tick to hold: those that could not be loaded, and culprits found by a rehearsal, if due."""
        known = {Subject(SubjectKind.JOB, str(job.id)): failure for job, failure in self._unloaded}
        if self._caution is None or not self._caution.due:
            return known
        reading = [job.id for job in inputs.world.active.values() if job.spec.data is not None]
        queues = self._store.read_queues(reading) if reading else {}
        rehearsal = Rehearsal(
            self._deciding.rehearse, lambda changes: self._store.rehearse(changes, lease, inputs.now), self._move
        )
        culprits = self._caution.find(replace(inputs, queues=queues), known, rehearsal)
        if culprits:
            self._deciding.reset()
        return culprits

    def _passed(self, changes: Changes) -> None:
        """Record that a tick was committed."""
        self._unloaded = ()
        if self._caution is not None:
            self._caution.passed()
        if any(event.kind is EventKind.JOB_RELEASED for event in changes.events):
            self._deciding.reset()  # what happened to its workers was not looked at

    def _move(self) -> None:
        """Record that a tick is under way."""
        self._moved_at = self._clock.monotonic()

    def _observe(self) -> Observation:
        observation = self._cluster.observe()
        return replace(observation, reports=self._reports.fresh())

    def _commit(self, changes: Changes, lease: Lease, now: float) -> None:
        began = self._clock.monotonic()
        try:
            self._store.commit(changes, lease, now)
        except StoreError:
            self.world = None  # whether it was written may be unknown: load before deciding again
            raise
        self._lease_keeper.wrote(self._clock.monotonic() - began)

    def _apply(
        self, world: World, unsettled: list[Job], observation: Observation, now: float
    ) -> tuple[ActionFailure, ...] | None:
        """Apply actions and return the failed ones; None: it was too late to be sure that no other engine leads."""
        seconds_left = self._lease_keeper.seconds_left()
        if seconds_left <= 0:
            return None
        actions = self._deciding.actions(world, unsettled, observation, now)
        # The rest of the lease is left for its renewal.
        until = self._clock.now() + seconds_left * APPLY_SHARE
        failures = tuple(carry_out(self._cluster, actions, until)) if actions else ()
        self._deciding.uncertain = {failure.action.worker_id: failure for failure in failures}
        # A worker of a job may come to have the id of a stray: what that one was told does not count for it.
        stopped = {a.worker_id for a in actions if isinstance(a, StopWorker)}
        self._deciding.stop_sent.update(stopped - world.strays.keys())
        self._deciding.stop_sent.difference_update(self._deciding.uncertain)
        return failures

    def _forget_ended(self, changes: Changes) -> None:
        ended = [w.id for w in changes.workers if not w.state.live]
        self._deciding.stop_sent.difference_update(ended)
        self._reports.forget(ended)
        self._liveness.forget(ended)
        for node in changes.forgotten:
            self._liveness.cut_off.pop(node.name, None)

    def _give_up(self, error: Exception, wait_seconds: float) -> None:
        now, leading = self._clock.now(), self._lease_keeper.seconds_left() > 0
        self.report = TickReport(at=now, leading=leading, error=str(error), next_tick_at=now + wait_seconds)
