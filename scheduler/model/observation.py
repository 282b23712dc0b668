"""What a cluster reports: a whole snapshot, never a difference."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from scheduler.model.foreign import NO_FOREIGN, Demand, ForeignUse
from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.slot import ClosedSlot


class Phase(StrEnum):
    #: The cluster has accepted it, its process does not run yet.
    LAUNCHING = "LAUNCHING"
    RUNNING = "RUNNING"
    EXITED = "EXITED"
    #: Its process could not be started (no such program, no such directory).
    LAUNCH_FAILED = "LAUNCH_FAILED"
    #: Gone, exit unknown.
    LOST = "LOST"


class EndCause(StrEnum):
    """What the cluster says about an end that an exit code does not tell."""

    #: Killed because it used more memory than it may.
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    #: The node ran short of something that it had promised to nobody.
    EVICTED = "EVICTED"
    #: The cluster itself gave its place to something more important.
    DISPLACED = "DISPLACED"
    #: Somebody else than the engine removed it.
    REMOVED = "REMOVED"
    #: Its node is gone.
    NODE_GONE = "NODE_GONE"
    #: The cluster does not let it run (no room on its node, a quota, a missing right), which is not its job's doing.
    NOT_ADMITTED = "NOT_ADMITTED"
    #: Its job asks for what no node of the cluster can start: there is no such program, or its pod is invalid.
    CANNOT_START = "CANNOT_START"
    #: Its job's user has no account on the machine, or one that may have no jobs.
    NO_ACCOUNT = "NO_ACCOUNT"


@dataclass(frozen=True, slots=True)
class NodeObservation:
    """A node as the cluster sees it; nodes that are not listed are DOWN."""

    name: NodeName
    host: str
    slots: int
    cpus: float = 0.0
    memory_mib: int = 0
    labels: tuple[tuple[str, str], ...] = ()
    gpu_type: str | None = None
    has_gpus: bool = False
    #: Slots that may be given out in relation to those that it has, at least 1.
    oversell: float = 1.0
    up: bool = True
    #: What processes of others hold of it.
    foreign: ForeignUse = NO_FOREIGN
    #: Why the cluster lets no new workers in; empty: it does.
    closed: str = ""
    #: Slots that take no new workers, by number; each once.
    closed_slots: tuple[ClosedSlot, ...] = ()


@dataclass(frozen=True, slots=True)
class SlotLoad:
    """How busy a slot was when it was read, both as shares from 0 to 1; None: not known."""

    memory: float | None = None
    utilization: float | None = None


@dataclass(frozen=True, slots=True)
class WorkerObservation:
    """A worker as the cluster sees it. `slot_ids`, CPUs and memory are what it holds on its node."""

    id: WorkerId
    job_id: JobId
    node: NodeName
    phase: Phase
    slot_ids: tuple[int, ...] = ()
    cpus: float = 0.0
    memory_mib: int = 0
    #: Whether it shares its slots.
    shared: bool = False
    #: 128 + signal number for a signal; None if unknown or still alive.
    exit_code: int | None = None
    #: One line for people, where the cluster knows more: why it does not run yet, or how it ended.
    detail: str = ""
    #: Whether it has failed to start for too long, so that it is to be given up.
    stuck: bool = False
    #: Of an end, where its exit code does not say it; while it does not come to run, where that is not its job's doing.
    cause: EndCause | None = None
    started_at: float | None = None
    ended_at: float | None = None
    #: Of the job that it was started for; a job of this id with another nonce has not started it.
    nonce: str = ""

    @property
    def alive(self) -> bool:
        return self.phase in (Phase.LAUNCHING, Phase.RUNNING)


@dataclass(frozen=True, slots=True)
class Agreed:
    """What a majority of a generation's workers agreed on while they heard from no scheduler."""

    generation: int
    #: How often they have, of this generation.
    sub: int
    #: Members of the generation without whom the others go on.
    lost: tuple[WorkerId, ...]

    @property
    def name(self) -> str:
        """As workers call it."""
        return f"{self.generation}.{self.sub}"


@dataclass(frozen=True, slots=True)
class Missed:
    """Members that a worker misses: they do not come to the group of their generation."""

    generation: int
    workers: tuple[WorkerId, ...]
    #: how long it had waited when it first said so
    seconds: float


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """What a worker said about itself over HTTP; the newest one per worker counts."""

    worker_id: WorkerId
    job_id: JobId
    received_at: float
    #: The generation it is a member of; 0: standby.
    generation: int = 0
    ready: bool = False
    endpoint: str | None = None
    peer: str | None = None
    #: The last agreement that it took part in.
    agreed: Agreed | None = None
    #: The members that it misses.
    missed: Missed | None = None
    step: int | None = None
    epoch: int | None = None
    samples_per_second: float | None = None
    last_commit_at: float | None = None
    #: When a file of the job's directory for checkpoints was written last; see `Runtime.watches_checkpoints`.
    last_checkpoint_at: float | None = None
    resize_seconds: float | None = None
    fraction: float | None = None
    efficiency: float | None = None
    metrics: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything seen at one moment.

    A worker of an UP node that is not listed does not exist there; one that is listed as alive exists, whatever its
    node is.
    """

    nodes: Mapping[NodeName, NodeObservation]
    workers: Mapping[WorkerId, WorkerObservation]
    reports: Mapping[WorkerId, WorkerReport] = field(default_factory=dict)
    #: Load of each slot in the order of their ids, for nodes where it is known and matters.
    loads: Mapping[NodeName, tuple[SlotLoad, ...]] = field(default_factory=dict)
    #: What others wait for and are to have before this scheduler's jobs, most important first.
    demands: tuple[Demand, ...] = ()

    def reachable(self) -> set[NodeName]:
        """All nodes that it `reaches`."""
        return {name for name, node in self.nodes.items() if node.up}

    def reaches(self, name: NodeName) -> bool:
        """Whether the node is up, so that what is not listed there does not exist."""
        node = self.nodes.get(name)
        return node is not None and node.up
