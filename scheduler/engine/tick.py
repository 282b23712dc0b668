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
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from scheduler.config import Settings
from scheduler.engine.absorb.shards import DataWatch
from scheduler.engine.apply.carry_out import carry_out
from scheduler.engine.apply.launch import LaunchContext
from scheduler.engine.attribution.caution import Caution, Rehearsal
from scheduler.engine.attribution.failure import Failure
from scheduler.engine.attribution.set_aside import set_aside
from scheduler.engine.board import Board
from scheduler.engine.changeset import Changeset, committed
from scheduler.engine.deciding import Deciding
from scheduler.engine.leadership.follower import Follower
from scheduler.engine.leadership.lease_keeper import LeaseKeeper
from scheduler.engine.leadership.sight import Sight
from scheduler.engine.memory import Memory
from scheduler.engine.ports import ActionFailure, Cluster, EngineClock, Leader, Lease, Place, Store, TickInputs
from scheduler.engine.state.reports import ReportBox
from scheduler.engine.timing import gc_pauses
from scheduler.engine.timing.pulse import Pulse
from scheduler.engine.timing.wall_watch import Jump
from scheduler.errors import (
    ClusterError,
    LeaseLost,
    SchemaMismatch,
    StaleWrite,
    StoreError,
    StoreUnavailable,
    WorkersElsewhere,
)
from scheduler.model.event import Event
from scheduler.model.ids import NodeName
from scheduler.model.job import Job
from scheduler.model.observation import Observation, SlotLoad
from scheduler.model.plan import Plan
from scheduler.model.subject import Subject, SubjectKind
from scheduler.model.world import Changes, World
from scheduler.policy.checks.invariants import Violation

#: A tick of which a step takes longer hangs, and the lease is no longer kept for it.
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
        self._interval_seconds = settings.engine.tick_interval_seconds
        self._board = board
        self._lease_keeper = LeaseKeeper(store, clock, holder, url, settings.engine.lease_seconds, place)
        self._follower = Follower(store, board, self._lease_keeper.moved)
        self._memory = Memory(settings, reports, caution)
        data = DataWatch(store, settings.engine)
        self._deciding = Deciding(settings, launch, data, self._memory, clock.monotonic)
        self._sight = Sight(cluster, clock)
        self.pulse = Pulse(clock)
        #: None until it is loaded, after a commit whose outcome is unknown, and while another engine leads.
        self.world: World | None = None
        self.report = TickReport(at=0.0)

    @property
    def lease(self) -> Lease | None:
        """None: this engine does not lead."""
        return self._lease_keeper.lease

    @property
    def leader(self) -> Leader | None:
        """The leader, this engine or another, as far as this one knows."""
        return self._lease_keeper.leader

    @property
    def deciding(self) -> TickInputs | None:
        """The inputs being decided by; None: nothing is being decided."""
        return self._deciding.inputs

    @property
    def heard_since(self) -> float:
        """When this process began to hear others, or went on after it had stood still; unix seconds."""
        return max(self._memory.liveness.since, self.pulse.went_on_at())

    @property
    def jump(self) -> Jump | None:
        """A set time of the machine that has not been confirmed, as far as this engine leads."""
        return None if self.lease is None else self._memory.wall.jump

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
        began = self._clock.monotonic()  # the other clock may be set by the leader's
        self._lease_keeper.moved()
        reached: list[tuple[Step, float]] = []
        try:
            yield from self._timed(self._steps(), reached)
        except LeaseLost as error:
            self._lease_keeper.lost()
            self.world = None
            self._give_up(error, 0.0)
        except _OF_NO_JOB as error:
            self._give_up(error, self._interval_seconds)
            if isinstance(error, ClusterError) and self._sight.is_lost():
                self._lease_keeper.stand_aside()
                self.world = None
        self._lease_keeper.moved()
        duration_seconds = self._clock.monotonic() - began
        self._memory.intake.ended(duration_seconds)
        self.report = replace(self.report, duration_seconds=duration_seconds, steps=tuple(reached))

    def _timed(self, steps: Iterator[Step], reached: list[tuple[Step, float]]) -> Iterator[Step]:
        """Pass the steps through, and record how long each took."""
        began = self._clock.monotonic()
        for step in steps:
            reached.append((step, self._clock.monotonic() - began))
            self._lease_keeper.moved()
            yield step
            began = self._clock.monotonic()

    def keep_lease(self) -> None:
        """Renew the lease if it is time to, unless the engine hangs.

        Called from another thread, several times per lease.
        """
        self._lease_keeper.keep(TICK_SECONDS_MAX + self._interval_seconds)

    def release(self) -> None:
        """Let another engine lead at once."""
        self._lease_keeper.release()
        self.world = None

    def forget(self) -> None:
        """React to a failed tick: load the world before anything else is done, and be careful."""
        self.world = None
        self._follower.forget()
        self._memory.be_careful()

    def _steps(self) -> Iterator[Step]:
        lease = self._lease_keeper.hold()
        now = self._clock.now()  # until it leads, the clock follows the leader's at each look at the lease
        if lease is None:
            self._sight.look_away()
            self.report = self._follow(now)
            return
        self._memory.begin_term(lease.term, outlived=self._lease_keeper.outlived)
        world = self.world = self._own_world(now)
        yield Step.LEASED
        observation = self._observe(world, now)
        yield Step.OBSERVED
        inputs = self._take_in(world, observation, now)
        yield Step.INBOX_TAKEN
        inputs = set_aside(inputs, self._culprits(inputs, lease))
        with self._deciding.watched(inputs):
            changeset = self._deciding.absorb(inputs)
            untold = self._look_at_budgets(changeset)
            yield Step.ABSORBED
            decided, violations = self._deciding.plan(changeset)
        yield Step.PLANNED
        changes, uncharged = self._charged(changeset, now)
        violations += untold + uncharged
        changes = self._commit(changes, lease, inputs)
        world = self.world = changeset.base.evolve(changes)
        yield Step.COMMITTED
        self._post(world, changes, inputs, decided)
        yield Step.POSTED
        applied = self._apply(world, decided, inputs)
        self.report = replace(applied, events=changes.events, changed=changes.jobs, violations=violations)
        yield Step.APPLIED

    def _follow(self, now: float) -> TickReport:
        """Follow another leader: apply its commits, and look again when its lease may have been outlived."""
        changed = tuple(self._follower.follow(self._lease_keeper.revision_seen, now))
        wait_seconds = min(self._interval_seconds, self._lease_keeper.outlived_in_seconds())
        return TickReport(
            at=now,
            followed=self._follower.revision,
            changed=changed,
            error=self._sight.trouble if self._lease_keeper.stands_aside else None,
            next_tick_at=now + wait_seconds,
        )

    def _own_world(self, now: float) -> World:
        """The world that this engine leads; loaded again if it is not known, or if it could not be read whole."""
        if self.world is not None and not self._follower.repaired(now):
            return self.world
        self.world = None  # a load that fails is to be made again
        world = self._follower.take_over()
        self._memory.take_over(world, now)
        return world

    def _observe(self, world: World, now: float) -> Observation:
        observation = self._sight.observe()
        liveness = self._memory.liveness
        liveness.since = self.heard_since
        liveness.cut_off_from(world.nodes.keys() - observation.reachable(), now)
        return replace(observation, reports=liveness.reports.take())

    def _take_in(self, world: World, observation: Observation, now: float) -> TickInputs:
        """Everything that the tick decides by."""
        inbox = self._store.take_inbox(self._memory.intake.most)
        self._memory.intake.took(len(inbox.intents))
        return TickInputs(
            now,
            world,
            observation,
            inbox=inbox,
            shares=self._deciding.data.shares_done(world, now),
            uncertain=self._memory.sent.uncertain,
            ahead_seconds=self._clock.wall() - self._clock.now(),
            unloaded={job.id: job for job, _ in self._follower.unloaded},
        )

    def _culprits(self, inputs: TickInputs, lease: Lease) -> Mapping[Subject, Failure]:
        """Subjects for this tick to hold: those that could not be loaded, and culprits found by a rehearsal, if due."""
        known = {Subject(SubjectKind.JOB, str(job.id)): failure for job, failure in self._follower.unloaded}
        caution = self._memory.caution
        if caution is None or not caution.due:
            return known
        rehearsal = Rehearsal(
            self._deciding.rehearse,
            lambda changes: self._store.rehearse(changes, lease, inputs.now),
            self._lease_keeper.moved,
        )
        queues = self._deciding.data.all_queues(inputs.world)
        culprits = caution.find(replace(inputs, queues=queues), known, rehearsal)
        if culprits:
            self._memory.look_at_everything()
        return culprits

    def _commit(self, changes: Changes, lease: Lease, inputs: TickInputs) -> Changes:
        """Store the changes; returns them as they are stored."""
        if changes:
            began = self._clock.monotonic()
            try:
                self._store.commit(changes, lease, inputs.now)
            except StoreError:
                self.world = None  # whether it was written may be unknown: load before deciding again
                raise
            self._lease_keeper.wrote(self._clock.monotonic() - began)
        self._follower.unloaded = ()
        self._memory.committed(inputs, changes)
        return committed(changes)

    def _look_at_budgets(self, changeset: Changeset) -> tuple[Violation, ...]:
        """Put into the changeset whose budget is spent; where that fails, it stays as it was, and jobs are served."""
        try:
            self._memory.budgets.look(changeset, self._store.month_so_far)
        except StoreError:
            raise
        except Exception as error:
            return (Violation("ACCOUNTS", f"budgets of queues cannot be looked at: {error!r}"),)
        return ()

    def _charged(self, changeset: Changeset, now: float) -> tuple[Changes, tuple[Violation, ...]]:
        """The changes with those of accounts; where these fail, jobs are served all the same."""
        changes = changeset.changes()
        try:
            return self._memory.accounts.charged(changeset.base, changes, now), ()
        except Exception as error:
            return changes, (Violation("ACCOUNTS", f"what queues hold cannot be charged: {error!r}"),)

    def _post(self, world: World, changes: Changes, inputs: TickInputs, decided: Plan) -> None:
        """Show others the new world."""
        self._board.update(world, changes.altered)
        if decided.shares or not world.queues:  # else nothing was to be planned
            self._board.shares = decided.shares
        self._memory.forget_ended(changes)
        new_workers = sum(worker.created_at == inputs.now for worker in changes.workers)
        gc_pauses.keep(len(inputs.inbox.jobs) + new_workers)

    def _apply(self, world: World, decided: Plan, inputs: TickInputs) -> TickReport:
        """Have the cluster do what is due, and report that."""
        unsettled = self._memory.dirty_jobs.unsettled(world)
        failures = self._carry_out(world, unsettled, inputs)
        late, now = failures is None, inputs.now
        next_tick_at = self._deciding.next_tick_at(world, unsettled, decided, inputs)
        return TickReport(
            at=now,
            leading=True,
            action_failures=failures or (),
            late=late,
            loads=inputs.observation.loads,
            error=self._lease_keeper.trouble(late=late),
            next_tick_at=next_tick_at if self._memory.intake.all_taken else now,
        )

    def _carry_out(self, world: World, unsettled: list[Job], inputs: TickInputs) -> tuple[ActionFailure, ...] | None:
        """Apply actions and return the failed ones; None: it was too late to be sure that no other engine leads."""
        seconds_left = self._lease_keeper.seconds_left()
        if seconds_left <= 0:
            return None
        actions = self._deciding.actions(world, unsettled, inputs)
        # The rest of the lease is left for its renewal.
        until = self._clock.now() + seconds_left * APPLY_SHARE
        failures = tuple(carry_out(self._cluster, actions, until)) if actions else ()
        self._memory.sent.record(actions, failures, world.strays)
        return failures

    def _give_up(self, error: Exception, wait_seconds: float) -> None:
        now, leading = self._clock.now(), self._lease_keeper.seconds_left() > 0
        self.report = TickReport(at=now, leading=leading, error=str(error), next_tick_at=now + wait_seconds)
