"""Invariants I1 to I9, I11 and I12 after every tick: from inside (world, store), and from outside (processes).

A reservation that is broken counts as `RESERVED`. Liveness (I10) is what a test asks for at its end.
"""

from collections.abc import Callable, Collection, Iterable
from itertools import takewhile
from typing import Protocol

from scheduler.clock import VirtualClock
from scheduler.clusters.simulated.cluster import SimulatedCluster
from scheduler.config import PolicySettings, Settings
from scheduler.engine.absorb.exits import FAILURES
from scheduler.engine.board import Board, post
from scheduler.engine.tick import Engine, Step, TickReport
from scheduler.model.event import DECISIONS, Event, EventKind
from scheduler.model.hosts import host_list
from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.worker import LeaveReason
from scheduler.model.world import World as Snapshot
from scheduler.policy.checks.invariants import check_world
from scheduler.policy.checks.plan import FIXED_SIZES
from scheduler.policy.snapshot.order import Order
from scheduler.store.sqlstore import SqlStore
from tests.invariants import outside
from tests.invariants.booked import BookingsKept
from tests.invariants.broken import Broken, hold
from tests.invariants.could_start import could_start
from tests.invariants.limited import LimitsHold
from tests.invariants.others import OthersKeepTheirs, OthersServed
from tests.invariants.queues import RULES_OF_QUEUES
from tests.invariants.reserved import Promises, reservations_fit

#: Ticks and stops take their time: an inversion is one only when it outlasts the longest grace by this much.
INVERSION_SLACK_SECONDS = 30.0
#: The first worlds of a run are all compared with the store, later ones at this interval: a difference stays.
WORLDS_COMPARED, WORLDS_APART = 10, 4
_FAILURES = frozenset(reason.value for reason in FAILURES)


class Checked(Protocol):
    """What is checked: the engine that leads, and everything around it."""

    clock: VirtualClock
    settings: Settings
    store: SqlStore
    cluster: SimulatedCluster
    submitted: list[JobId]

    @property
    def engine(self) -> Engine: ...

    @property
    def board(self) -> Board: ...


class InvariantChecker:
    """Checks everything after each tick, and remembers what only time shows."""

    def __init__(
        self,
        world: Checked,
        on_event: Callable[[Event], None] = lambda event: None,
        revision: Callable[[], int] | None = None,
    ) -> None:
        """`on_event` is told what was stored, once; `revision` tells commits apart, by default the store does."""
        self._world = world
        self._on_event = on_event
        self._compared: Snapshot | None = None
        #: The world that a tick loaded that failed then.
        self._only_loaded: Snapshot | None = None
        self._worlds = 0
        self._revision = revision or (lambda: world.store.read_lease().revision)
        self._stored = StoredWorlds(world.store, self._revision)
        #: What those that follow had the last time, and what was stored then.
        self._followed: dict[Board, tuple[Snapshot, Snapshot]] = {}
        self._inverted_since: dict[JobId, float] = {}
        self._retries: dict[JobId, int] = {}
        self._failures_seen: dict[JobId, int] = {}
        self._published: dict[tuple[JobId, int], str] = {}
        self._minima: dict[JobId, int] = {}
        self._promises = Promises()
        self._limits = LimitsHold()
        self._bookings = BookingsKept()
        self._others = OthersServed()
        self._others_keep = OthersKeepTheirs()
        self._decided_at: float | None = None
        self._unended: list[JobId] = []
        #: Jobs whose bounds or priority changed since a world was looked at, maybe in ticks that left none to look at.
        self._rescaled: set[JobId | None] = set()
        #: The settings of the last tick that decided: what lasts is counted anew under others.
        self._decided_by: PolicySettings | None = None
        self._submitted_seen = 0
        self._events_seen = 0

    def after_tick(self, report: TickReport, without: Collection[JobId] = ()) -> None:
        """Raise `Broken` with the invariant that does not hold.

        The engine has decided by the time of its machine; how long something lasts is counted in true time. `without`:
        jobs with which no world can be built; the engine will hold them, and could not yet.
        """
        if self._world.engine.world is not self._compared or report.error is not None:
            self._take_events()
        for violation in report.violations:
            raise Broken(violation.invariant, f"the planner's: {violation.detail}")
        snapshot = self._world.engine.world
        if snapshot is None:
            return
        equals_keep_theirs(report.events, snapshot, self._world.settings.policy)
        at, now = report.at, self._world.clock.now()
        order = Order(at, self._world.settings.policy)
        cluster = self._world.cluster
        outside.processes_fit(cluster, snapshot)
        outside.started_once(cluster)
        decided = any(step is Step.COMMITTED for step, _ in report.steps)
        new = snapshot is not self._compared or (decided and snapshot is self._only_loaded)
        observed = self._was_observed(snapshot, decided)
        if observed:
            outside.slots_of_processes_are_used(cluster, snapshot)
            outside.no_process_of_ended_jobs(cluster, snapshot)
        outside.fixed_groups_are_there(cluster, snapshot)
        self._others_keep.after_tick(snapshot, cluster, report, now)
        if new:
            self._compared = snapshot  # it never changes
            self._check_new(snapshot, at, without, observed)
        if decided:
            self._promises.after_tick(snapshot, order, self._world.settings.policy, self._moment())
        nodes = (snapshot.nodes.get(each.action.node) for each in report.action_failures)
        disobeyed = any(node is not None and node.schedulable for node in nodes)
        if report.error is not None or disobeyed or self._stood_still(now) or self._is_reconfigured():
            self._bookings.clear()
            self._others.clear()
            # while nothing can be decided, or the cluster does not do what it is told, nothing is decided wrongly
            self._inverted_since.clear()
        if report.error is None:
            self._decided_at, self._decided_by = now, self._world.settings.policy
            self._no_lasting_inversion(snapshot, order, now)
            if not without:  # slots of a job that cannot be read count for no queue until it is
                self._limits.after_tick(snapshot, self._world.settings.policy, at, self._revision())
            self._bookings.after_tick(snapshot, self._world.settings.policy, at, now)
            self._others.after_tick(snapshot, self._world.settings.policy, cluster.foreign, now)
        self._no_job_is_lost(snapshot, without)

    def _was_observed(self, snapshot: Snapshot, decided: bool) -> bool:
        """Strays are known by observation alone: not in a world that was loaded by a tick that failed afterwards.

        Nothing is decided on such a world before the cluster was observed. `decided`: whether this tick did.
        """
        if decided:
            self._only_loaded = None
        elif snapshot is not self._compared:
            self._only_loaded = snapshot
        return snapshot is not self._only_loaded

    def _check_new(self, snapshot: Snapshot, at: float, without: Collection[JobId], observed: bool) -> None:
        """What depends on the world alone.

        One that was loaded and not `observed` yet may show jobs beside others that were given their slots meanwhile:
        whoever led before could not read their rows.
        """
        certain = snapshot if observed else _without(snapshot, without)
        for violation in check_world(certain, at):
            raise Broken(violation.invariant, violation.detail)
        self._memory_equals_store(snapshot, without)
        self._published_is_allocation(snapshot)
        self._retries_are_failures(snapshot)
        reservations_fit(certain)

    def _moment(self) -> tuple[int, int]:
        """The term, and how many commits there have been."""
        lease = self._world.engine.lease
        return lease.term if lease is not None else 0, self._revision()

    def _take_events(self) -> None:
        """I8: what was stored since the last look, also by a commit whose outcome the engine does not know."""
        found: list[Event] = []
        while page := self._world.store.list_events(self._events_seen, limit=1000):
            self._events_seen = page[-1][0]
            found += (event for _, event in page)
            if len(page) < 1000:
                break
        self._rescaled |= {event.job_id for event in found if event.kind is EventKind.JOB_CHANGED}
        for event in found:
            self._on_event(event)
            if event.kind in DECISIONS and not event.cause:
                raise Broken("reasons", f"nobody can tell why: {event}")
            if event.kind is EventKind.WORKER_ENDED and event.cause in _FAILURES and event.job_id is not None:
                self._failures_seen[event.job_id] = self._failures_seen.get(event.job_id, 0) + 1
        outside.failures_are_real(self._world.cluster, found)

    def _memory_equals_store(self, snapshot: Snapshot, without: Collection[JobId]) -> None:
        """I7: the world in memory is what is stored."""
        self._worlds += 1
        if self._worlds <= WORLDS_COMPARED or self._worlds % WORLDS_APART == 0:
            equals_store(_without(snapshot, without), _without(self._stored.latest(), without))

    def after_following(self, board: Board, without: Collection[JobId] = ()) -> None:
        """I7 and I9 of an engine that follows: it answers what is stored, job for job.

        `without`: jobs with which no world can be built; whoever leads is to hold them.
        """
        hold(board.world is not None, "I7", "an engine that follows has no world")
        assert board.world is not None
        compared, before = (board.world, self._stored.latest()), self._followed.get(board)
        if before is not None and before[0] is compared[0] and before[1] is compared[1]:
            return  # neither ever changes
        self._followed[board] = compared
        equals_store(_without(board.world, without), _without(compared[1], without))
        for job in board.world.active.values():
            posting, hosts = board.posting(job.id), host_list(job)
            text = hosts.text().encode() if hosts else b""
            hold(posting is not None and posting.text == text, "I9", f"job {job.id} is answered otherwise than stored")

    def _published_is_allocation(self, snapshot: Snapshot) -> None:
        """I9: what discover_hosts answers is the membership of the published generation, and never changes."""
        for job in snapshot.active.values():
            posting = self._world.board.posting(job.id)
            hosts = host_list(job)
            if posting is None:
                raise Broken("I9", f"job {job.id} has no posting")
            hold(posting.text == (hosts.text().encode() if hosts else b""), "I9", f"job {job.id}: {posting.text!r}")
            hold(posting == post(job), "I9", f"job {job.id} has another posting than it had if it were made now")
            if hosts is not None:
                key = (job.id, hosts.generation)
                # a user may raise the minimum in the tick of the publication, or later; those that still work when
                # others are done may be any number
                enough = (
                    job.finishing
                    or key in self._published
                    or job.id in self._rescaled
                    or len(hosts.members) >= min(self._minima.get(job.id, job.min_workers), job.min_workers)
                )
                hold(enough, "I9", f"job {job.id} is published below its minimum")
                before = self._published.setdefault(key, hosts.text())
                hold(before == hosts.text(), "I9", f"job {job.id}: generation {hosts.generation} changed its list")
        self._minima |= {job.id: job.min_workers for job in snapshot.active.values()}
        self._rescaled -= snapshot.active.keys()

    def _retries_are_failures(self, snapshot: Snapshot) -> None:
        """I8: a job's retries never grow by more than its workers' own failures."""
        for job in snapshot.all_jobs():
            grown = job.retries_used - self._retries.get(job.id, 0)
            seen = self._failures_seen.get(job.id, 0)
            hold(grown <= seen, "I8", f"job {job.id} lost {grown} retries by {seen} failures: {job.detail}")
            self._retries[job.id] = job.retries_used
            if grown > 0:
                self._failures_seen[job.id] = 0

    def _no_lasting_inversion(self, snapshot: Snapshot, order: Order, now: float) -> None:
        """I5: nobody waits long at zero while less important jobs hold what would let it start."""
        knows_fixed = self._world.settings.policy.name == "elastic"
        for job in snapshot.queued.values():
            if job.spec.fixed is not None and not knows_fixed:
                continue
            size, promised = self._starting_size(job), self._promised_before(job, snapshot, order)
            may_start = order.now >= job.not_before and job.wait_reason not in RULES_OF_QUEUES
            if may_start and could_start(job, size, snapshot, order, promised):
                since = self._inverted_since.setdefault(job.id, now)
                graces = [j.spec.stop_seconds for j in snapshot.active.values()]
                limit = max(graces, default=0.0) + INVERSION_SLACK_SECONDS
                waited = now - since
                hold(waited <= limit, "I5", f"job {job.id} waits below less important ones for {waited:g} s")
            else:
                self._inverted_since.pop(job.id, None)
        for job_id in list(self._inverted_since):
            if job_id not in snapshot.queued:
                del self._inverted_since[job_id]

    def _stood_still(self, now: float) -> bool:
        """Whether no daemon decided for longer than the time between two ticks."""
        seconds = self._world.settings.engine.tick_interval_seconds
        return self._decided_at is not None and now - self._decided_at > 2 * seconds

    def _is_reconfigured(self) -> bool:
        return self._decided_by != self._world.settings.policy

    def _starting_size(self, job: Job) -> int:
        return job.preferred_workers if self._world.settings.policy.name in FIXED_SIZES else job.min_workers

    def _promised_before(self, job: Job, snapshot: Snapshot, order: Order) -> int:
        """Slots that conservative backfill may have promised to those before it, though nodes hold them in parts."""
        if self._world.settings.policy.name != "conservative":
            return 0
        before = takewhile(lambda each: each.id != job.id, order.queue(snapshot.queued.values()))
        return sum(self._starting_size(each) * each.shape.slots for each in before if each.spec.fixed is None)

    def _no_job_is_lost(self, snapshot: Snapshot, without: Collection[JobId]) -> None:
        """I6: every accepted job has ended, is in the world, or is still in the inbox."""
        self._unended += self._world.submitted[self._submitted_seen :]
        self._submitted_seen = len(self._world.submitted)
        known = {*snapshot.held, *without}
        absent = [job_id for job_id in self._unended if snapshot.job(job_id) is None and job_id not in known]
        if not absent:
            return
        waiting = {job.id for job in self._world.store.take_inbox(100_000).jobs}
        for job_id in absent:
            if job_id not in waiting:
                job = self._world.store.get_job(job_id)
                hold(job is not None and job.state.terminal, "I6", f"job {job_id} is lost")
                self._unended.remove(job_id)


def equals_keep_theirs(events: Iterable[Event], snapshot: Snapshot, settings: PolicySettings) -> None:
    """I5: where equals do not share, nobody gives up own slots for one; those on shared slots make room."""
    deciding = (EventKind.JOB_SHRANK, EventKind.JOB_STOPPING)  # what follows of it may come under other settings
    moved = [event for event in events if event.kind in deciding and event.cause == LeaveReason.REBALANCED]
    moved = [event for event in moved if not _shares_slots(snapshot, event.job_id)]
    shares = settings.share or settings.name != "elastic"
    hold(shares or not moved, "I5", f"jobs share although they are not to: {moved}")


def _shares_slots(snapshot: Snapshot, job_id: JobId | None) -> bool:
    job = snapshot.job(job_id) if job_id is not None else None
    return job is not None and any(worker.shared for worker in job.workers)


class StoredWorlds:
    """What a fresh load gives, loaded once for each commit."""

    def __init__(self, store: SqlStore, revision: Callable[[], int]) -> None:
        """`revision` is another number after each commit."""
        self._store = store
        self._read_revision = revision
        self._revision = -1
        self._world = Snapshot.of((), (), ())

    def latest(self) -> Snapshot:
        """The world as it is stored now."""
        revision = self._read_revision()
        if revision != self._revision:
            stored = self._store.load_world()
            self._revision = revision
            accounts = {"holdings": stored.holdings, "queue_usage": stored.queue_usage}
            self._world = Snapshot.of(stored.jobs, stored.nodes, stored.bookings, **accounts)  # type: ignore[arg-type]
        return self._world


def _without(stored: Snapshot, jobs: Collection[JobId]) -> Snapshot:
    """What is stored but for these jobs."""
    if not jobs:
        return stored
    left = (job for job in (*stored.all_jobs(), *stored.held.values()) if job.id not in jobs)
    accounts = {"holdings": stored.holdings.values(), "queue_usage": stored.queue_usage.items()}
    return Snapshot.of(left, stored.nodes.values(), stored.bookings.values(), **accounts)  # type: ignore[arg-type]


def equals_store(snapshot: Snapshot, fresh: Snapshot) -> None:
    """I7: the world in memory is what a fresh load gives."""
    for mine, loaded, what in (
        (snapshot.queued, fresh.queued, "queued"),
        (snapshot.suspended, fresh.suspended, "suspended"),
        (snapshot.active, fresh.active, "active"),
        (snapshot.held, fresh.held, "held"),
        (snapshot.nodes, fresh.nodes, "nodes"),
        (snapshot.usage, fresh.usage, "usage"),
        (snapshot.bookings, fresh.bookings, "bookings"),
        (snapshot.holdings, fresh.holdings, "holdings"),
        (snapshot.queue_usage, fresh.queue_usage, "queue usage"),
    ):
        differing = {
            key: (mine.get(key), loaded.get(key)) for key in {*mine, *loaded} if mine.get(key) != loaded.get(key)
        }
        hold(not differing, "I7", f"{what} in memory differs from the store: {differing}")
