"""The engine's ports to the outside: time, a store, a cluster."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from scheduler.model.account import Holding
from scheduler.model.booking import Booking
from scheduler.model.budget import MonthSoFar
from scheduler.model.data_queue import DataQueue
from scheduler.model.export import Export
from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.intent import Intent
from scheduler.model.job import Job
from scheduler.model.node import Node
from scheduler.model.observation import Observation
from scheduler.model.queue import Queue
from scheduler.model.queue_usage import QueueUsage
from scheduler.model.unreadable import Unreadable
from scheduler.model.world import Changes, World


class Clock(Protocol):
    """Reads the time; the only source of it."""

    def now(self) -> float:
        """Unix seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds that never jump, whatever is done to the machine's time."""
        ...


@dataclass(frozen=True, slots=True)
class Anchor:
    """One moment on all clocks of a leader, stored so that durations go on in the next process."""

    #: As `EngineClock.now`.
    now: float
    #: Unix seconds as the machine had them.
    wall: float
    #: Seconds since the machine started, and the name of that start.
    booted: float
    boot: str


class EngineClock(Clock, Protocol):
    """The clock of an engine: `now` passes evenly, over restarts and changes of leader too.

    Setting the machine's time moves `wall` alone. All times that are stored or compared are `now`; people are shown,
    and bookings and cron follow, `wall`.
    """

    def wall(self) -> float:
        """Unix seconds as the machine has them."""
        ...

    def anchor(self) -> Anchor | None:
        """The present moment, from which a later process goes on; None: not needed."""
        ...

    def follow(self, anchor: Anchor | None) -> None:
        """The newest anchor in the store; it was set after the last call of this."""
        ...


@dataclass(frozen=True, slots=True)
class Lease:
    """Leadership of its holder: `term` grows with every change of leader and fences the former one's commits."""

    holder: str
    term: int
    #: By the clock of its holder; unix seconds.
    expires_at: float


@dataclass(frozen=True, slots=True)
class Place:
    """Where the workers of a database run: daemons of another place would not see them, and start them again."""

    identity: str
    #: For people.
    name: str


@dataclass(frozen=True, slots=True)
class SeenLease:
    """The lease as it stands in the store. Equal at two looks: its holder gave no sign of life in between."""

    #: None: it is free.
    holder: str | None
    term: int
    #: By the clock of its holder, so that others can compare it with nothing but itself.
    expires_at: float
    #: How long the lease lasts after a renewal.
    ttl_seconds: float
    #: The URL of the holder.
    url: str | None
    #: Number of the newest commit; a reader that sees it can also see all smaller ones.
    revision: int
    #: By the clocks of the newest holder; None: it has stored none.
    anchor: Anchor | None = None
    #: Of the newest holder; None: it has stored none.
    place: Place | None = None
    #: As `World.ahead_seconds`.
    ahead_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader, for people and for processes that have to reach it."""

    name: str
    term: int
    url: str | None


@dataclass(frozen=True, slots=True)
class StoredWorld:
    """Everything that a fresh engine needs: jobs that have not ended (with live workers), nodes, bookings, queues."""

    jobs: Sequence[Job]
    nodes: Sequence[Node]
    highest_job_id: int
    bookings: Sequence[Booking] = ()
    #: Jobs above this id have not been taken out of the inbox.
    admitted_job_id: int = 0
    #: Number of the newest commit that it holds.
    revision: int = 0
    #: Rows that cannot be read, of jobs, workers, nodes, bookings and queues.
    unreadable: Sequence[Unreadable] = ()
    #: As `World.ahead_seconds`.
    ahead_seconds: float = 0.0
    queues: Sequence[Queue] = ()
    #: Of the accounts that hold anything.
    holdings: Sequence[Holding] = ()
    #: As `World.queue_usage`.
    queue_usage: Sequence[tuple[str, QueueUsage]] = ()


@dataclass(frozen=True, slots=True)
class StoredNews:
    """Changes by commits: jobs (with live workers, ended ones too) and nodes; of bookings and queues, all present ones.

    A node that is gone is not named; `node_count` then is smaller than the number known.
    """

    jobs: Sequence[Job]
    nodes: Sequence[Node]
    bookings: Sequence[Booking]
    highest_job_id: int
    revision: int
    #: Number of all nodes, unchanged ones included.
    node_count: int
    #: Rows among these that cannot be read.
    unreadable: Sequence[Unreadable] = ()
    ahead_seconds: float = 0.0
    queues: Sequence[Queue] = ()
    #: Of the accounts that hold something else since.
    holdings: Sequence[Holding] = ()
    queue_usage: Sequence[tuple[str, QueueUsage]] = ()


@dataclass(frozen=True, slots=True)
class Inbox:
    """Intents in the order of their arrival, the jobs that SUBMIT intents among them name, and new bookings."""

    intents: Sequence[Intent]
    jobs: Sequence[Job]
    #: At least the bookings that BOOK intents among them name.
    bookings: Sequence[Booking] = ()
    #: Rows of intents, jobs, bookings and queues that cannot be read. These intents stay where they are.
    unreadable: Sequence[Unreadable] = ()
    #: All present queues where an intent is about one; None: they are as they were.
    queues: Sequence[Queue] | None = None


class Store(Protocol):
    """The engine's side of the database.

    Every method may raise `StoreUnavailable`; then it is unknown whether anything was written.
    """

    def read_lease(self) -> SeenLease: ...

    def acquire_lease(
        self,
        holder: str,
        now: float,
        ttl_seconds: float,
        *,
        url: str | None = None,
        outlived: SeenLease | None = None,
        anchor: Anchor | None = None,
        place: Place | None = None,
    ) -> Lease | None:
        """Take the lease if it is free, already ours (then the term stays), or still as `outlived`; else None.

        `outlived`: what the caller has seen unchanged for longer than it lasts, by its own clock. Raises
        `WorkersElsewhere` while workers live at another place.
        """
        ...

    def renew_lease(self, lease: Lease, now: float, ttl_seconds: float, *, anchor: Anchor | None = None) -> Lease:
        """Extend the lease; raises `LeaseLost`."""
        ...

    def release_lease(self, lease: Lease, *, anchor: Anchor | None = None) -> None:
        """Give the lease up so that another engine may lead at once; no error if it is lost already."""
        ...

    def load_world(self, went_on: Callable[[], None] = ...) -> StoredWorld:
        """Jobs that have not ended, with their workers, nodes, bookings and queues.

        `went_on` is called again and again meanwhile, as this takes long where there is much.
        """
        ...

    def load_news(self, since: int) -> StoredNews:
        """Changes by commits after that revision."""
        ...

    def take_inbox(self, limit: int) -> Inbox:
        """The oldest intents; they stay stored until a commit names them as done."""
        ...

    @property
    def unreadable(self) -> Sequence[Unreadable]:
        """Rows that could not be read when they were asked for."""
        ...

    def look_again(self) -> Sequence[Unreadable]:
        """Unreadable rows that can be read by now, or are gone."""
        ...

    def data_shares_done(self) -> Mapping[JobId, float]:
        """The done share of each active job's data; jobs that have declared none are not in it."""
        ...

    def read_queues(self, job_ids: Sequence[JobId]) -> Mapping[JobId, DataQueue]:
        """The data of these jobs as it stands, to be read only; jobs that have declared none are not in it."""
        ...

    def month_so_far(self, first_hour: int) -> MonthSoFar:
        """What queues are charged since that hour, in which a month begins."""
        ...

    def commit(self, changes: Changes, lease: Lease, now: float) -> None:
        """Write all of it in one transaction.

        `changes.jobs` and `changes.nodes` carry the version they were read with; the stored row then has version + 1.
        The rows of `changes.forgotten` are removed.
        Raises `LeaseLost` if the term is no longer ours, `StaleWrite` if a row's version is another.
        """
        ...

    def rehearse(self, changes: Changes, lease: Lease, now: float) -> None:
        """Raise what `commit` would raise, and write nothing."""
        ...


class Role(StrEnum):
    """The role of a worker in its job."""

    #: One of the scaled workers.
    WORKER = "worker"
    #: One of its fixed group.
    FIXED = "fixed"


@dataclass(frozen=True, slots=True)
class StartWorker:
    """Launch a worker; a repeated start of the same id is a no-op."""

    worker_id: WorkerId
    job_id: JobId
    node: NodeName
    slot_ids: tuple[int, ...]
    cpus: float
    memory_mib: int
    command: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    workdir: str | None
    #: Between SIGTERM and SIGKILL when it is stopped.
    grace_seconds: float
    #: The job's own generation at launch; fences what an older launch left behind.
    generation: int
    #: Whether others may be on its slots too.
    shared: bool = False
    #: What its pod is made of besides, as `JobSpec.pod_template`; clusters without pods do not look at it.
    pod_template: str | None = None
    role: Role = Role.WORKER
    #: What it takes of its submitter's environment, below `env` and `workdir`; only a local cluster looks at it.
    export: Export | None = None
    #: Of its job. The cluster reports it with the worker.
    nonce: str = ""
    #: Whose job it is; a local cluster of a system daemon starts the worker as this login.
    user: str = ""


@dataclass(frozen=True, slots=True)
class StopWorker:
    """Ask a worker to leave and kill it after the grace, also if the daemon is gone by then; 0: kill now.

    Repeats are harmless: a shorter grace than before takes effect, a longer one does not.
    """

    worker_id: WorkerId
    node: NodeName
    grace_seconds: float
    #: Of its job.
    nonce: str = ""


@dataclass(frozen=True, slots=True)
class ForgetWorker:
    """The engine has stored its end; the cluster need not report it any longer."""

    worker_id: WorkerId
    node: NodeName


ClusterAction = StartWorker | StopWorker | ForgetWorker


@dataclass(frozen=True, slots=True)
class ActionFailure:
    """An action that could not be done now; the engine asks again at a later tick as long as it is still wanted."""

    action: ClusterAction
    error: str
    #: Of a start: whether it would fail in the same way again, so that the worker is given up.
    final: bool = False


#: The error of an action that would have come too late; see `Cluster.apply`.
TOO_LATE = "lease expired: another engine may lead"


@dataclass(frozen=True, slots=True)
class TickInputs:
    """Everything by which one tick decides, apart from the settings and what was learnt at earlier ticks."""

    now: float
    world: World
    observation: Observation
    inbox: Inbox
    #: The done share of each active job's data.
    shares: Mapping[JobId, float] = field(default_factory=dict)
    #: Workers whose last start or stop failed on the way, and why: that they are not listed proves nothing.
    uncertain: Mapping[WorkerId, ActionFailure] = field(default_factory=dict)
    #: How far the machine's time is ahead of the engine's.
    ahead_seconds: float = 0.0
    #: Stored jobs with which no world could be built.
    unloaded: Mapping[JobId, Job] = field(default_factory=dict)
    #: The data of all active jobs; None: it is looked up where it matters.
    queues: Mapping[JobId, DataQueue] | None = None
    #: Changes that the world has already although they are not stored yet: what this tick holds.
    begun: Changes = field(default_factory=Changes)


class Cluster(Protocol):
    """Nodes and workers as they are, and the means to change them."""

    def observe(self) -> Observation:
        """A whole snapshot. Raises `ClusterError` if the cluster cannot be asked at all.

        It shows at least what every `apply` that has returned has done: a worker whose start succeeded is listed
        until it is forgotten.
        """
        ...

    def apply(self, actions: Sequence[ClusterAction], until: float = math.inf) -> Sequence[ActionFailure]:
        """Carry out the actions in order. Idempotent; returns what failed.

        Nothing is begun, and no request is left under way, after `until` (unix seconds): another engine may lead then.
        Actions that would come too late are returned as failed.
        """
        ...

    def on_change(self, wake: Callable[[], None]) -> None:
        """Call `wake` (from any thread) whenever `observe` would give something new."""
        ...
