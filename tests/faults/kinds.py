"""Kinds of faults, as data: what goes wrong, and what users and operators ask for meanwhile.

A fault names its target by `pick`, a number from 0 to 1 that chooses among those that exist when it happens.
"""

from dataclasses import dataclass

from scheduler.clusters.simulated.cluster import Fault as CallFault
from scheduler.config import EngineSettings, PolicySettings
from scheduler.engine.tick import Step
from scheduler.model.ids import NodeName
from scheduler.model.intent import IntentKind
from scheduler.model.queue import SlotsByType
from scheduler.model.shape import WorkerShape
from scheduler.model.slot import ClosedSlot


@dataclass(frozen=True, slots=True)
class CrashWorker:
    """A process ends by itself."""

    pick: float
    exit_code: int


@dataclass(frozen=True, slots=True)
class CrashJob:
    """All processes of one job end by themselves, at the same moment."""

    pick: float
    exit_code: int


@dataclass(frozen=True, slots=True)
class HangWorker:
    """A watched process does nothing any more."""

    pick: float


@dataclass(frozen=True, slots=True)
class LoseNode:
    """A node cannot be reached for a while; `listed`: the cluster still names it, `remembered`: and its workers."""

    pick: float
    seconds: float
    rebooted: bool
    listed: bool
    remembered: bool = False


@dataclass(frozen=True, slots=True)
class SeeLate:
    """Ends on a node are seen late."""

    pick: float
    lag_seconds: float


@dataclass(frozen=True, slots=True)
class RepeatEnds:
    """The cluster repeats ends that it was told to forget, or stops doing so."""

    on: bool


@dataclass(frozen=True, slots=True)
class DelayReports:
    """What workers say is delivered `seconds` late from now on, and a share of it twice: old after new."""

    seconds: float
    twice: float


@dataclass(frozen=True, slots=True)
class FailCalls:
    """The next actions on the cluster go wrong in these ways."""

    outcomes: tuple[CallFault | None, ...]


@dataclass(frozen=True, slots=True)
class FailObservations:
    """The cluster does not answer the next `count` times."""

    count: int


@dataclass(frozen=True, slots=True)
class SlowObservations:
    """What a daemon sees of the cluster is `seconds` old when it gets it, from now on."""

    seconds: float


@dataclass(frozen=True, slots=True)
class CutOff:
    """One daemon cannot reach the cluster for a while; the others can."""

    pick: float
    seconds: float


@dataclass(frozen=True, slots=True)
class FailStore:
    """The next calls of one method of the store raise; `written`: after they were carried out."""

    method: str
    count: int
    written: bool


@dataclass(frozen=True, slots=True)
class Spoil:
    """Somebody writes into a row of this table of the database what cannot be read; it is mended at the end."""

    pick: float
    table: str


@dataclass(frozen=True, slots=True)
class Die:
    """The leading daemon dies after a step of its next tick and starts again after a while."""

    step: Step
    seconds: float


@dataclass(frozen=True, slots=True)
class Freeze:
    """The leading daemon stands still after a step of its next tick and goes on after a while, none the wiser."""

    step: Step
    seconds: float


@dataclass(frozen=True, slots=True)
class Stop:
    """The leading daemon ends in order after its next tick, giving the lease back, and starts again after a while."""

    seconds: float


@dataclass(frozen=True, slots=True)
class ChangeSlots:
    """A node has another number of slots from now on."""

    pick: float
    slots: int


@dataclass(frozen=True, slots=True)
class AskJob:
    """A user asks something of a job."""

    pick: float
    kind: IntentKind
    priority: int | None = None
    min_workers: int | None = None
    max_workers: int | None = None


@dataclass(frozen=True, slots=True)
class AskNode:
    """An operator asks something of a node."""

    pick: float
    kind: IntentKind


@dataclass(frozen=True, slots=True)
class Book:
    """A user books capacity for a window that begins after a while."""

    name: str
    after_seconds: float
    seconds: float
    workers: int
    slots_per_worker: int
    node_selector: tuple[tuple[str, str], ...] = ()
    gpu_type: str | None = None
    priority_min: int | None = None


@dataclass(frozen=True, slots=True)
class Unbook:
    """A user cancels a booking, or one that there is not."""

    name: str


@dataclass(frozen=True, slots=True)
class SetQueue:
    """A user sets a queue, or one anew; the queues around it exist, or come to."""

    path: str
    guarantee: SlotsByType = ()
    limit: SlotsByType = ()
    weight: float = 1.0
    share_users: bool = False
    user_limit: int | None = None
    budget: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteQueue:
    """A user deletes a queue, or one that there is not, or that is in use."""

    path: str


@dataclass(frozen=True, slots=True)
class SubmitAgain:
    """A user repeats a submission with the same key."""

    pick: float


@dataclass(frozen=True, slots=True)
class ChangeNode:
    """A node has other facts from now on: labels, GPU type, CPUs, memory, or whether the cluster lets workers in."""

    pick: float
    facts: tuple[tuple[str, object], ...]


@dataclass(frozen=True, slots=True)
class CloseSlots:
    """These slots of a node, as far as it has them, take no new workers from now on, and all others do."""

    pick: float
    slots: tuple[ClosedSlot, ...]


@dataclass(frozen=True, slots=True)
class Come:
    """A process of others wants to run; `heard`: the scheduler is told that it waits and has to make room."""

    name: str
    shape: WorkerShape
    heard: bool
    nodes: frozenset[NodeName] | None = None


@dataclass(frozen=True, slots=True)
class Go:
    """A process of others ends, or waits no more."""

    pick: float


@dataclass(frozen=True, slots=True)
class TakeRoom:
    """Others that wait come to run at this very moment, before anybody sees that there is room."""


@dataclass(frozen=True, slots=True)
class HoldUp:
    """The cluster takes up none of the others that wait, whatever room there is, or does so again."""

    on: bool


@dataclass(frozen=True, slots=True)
class ScaleResizing:
    """A user changes the bounds of the next job that is seen being resized."""

    pick: float
    min_workers: int | None
    max_workers: int | None


@dataclass(frozen=True, slots=True)
class Jump:
    """The unix time of a daemon's machine is set to another value."""

    pick: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Suspend:
    """The leading daemon's machine sleeps after a step of its next tick: its monotonic clock stands still, too."""

    step: Step
    seconds: float


@dataclass(frozen=True, slots=True)
class SlowCommits:
    """Every tick of every daemon waits `seconds` for its commit from now on."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Reboot:
    """The leading daemon dies with its machine after a step of its next tick; when it is back, its clock is behind."""

    step: Step
    seconds: float
    behind_seconds: float


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """The leading daemon ends in order after its next tick, and starts again after a while with other settings."""

    seconds: float
    policy: PolicySettings
    engine: EngineSettings


Fault = (
    CrashWorker
    | CrashJob
    | HangWorker
    | LoseNode
    | SeeLate
    | RepeatEnds
    | DelayReports
    | FailCalls
    | FailObservations
    | SlowObservations
    | CutOff
    | FailStore
    | Spoil
    | Die
    | Freeze
    | Stop
    | ChangeSlots
    | AskJob
    | AskNode
    | Book
    | Unbook
    | SetQueue
    | DeleteQueue
    | SubmitAgain
    | ChangeNode
    | CloseSlots
    | Come
    | Go
    | TakeRoom
    | HoldUp
    | ScaleResizing
    | Jump
    | Suspend
    | SlowCommits
    | Reboot
    | Reconfigure
)
