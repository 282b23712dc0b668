"""What one seed stands for, as data: a cluster, a workload, and what goes wrong when.

A fault names its target by `pick`, a number from 0 to 1 that chooses among those that exist when it happens.
"""

from dataclasses import dataclass

from scheduler.clusters.simulated import Fault as CallFault
from scheduler.clusters.simulated_process import Behaviour
from scheduler.config import EngineSettings, PolicySettings
from scheduler.engine.tick import Step
from scheduler.model.intent import IntentKind
from scheduler.model.job import JobSpec
from scheduler.model.observation import NodeObservation


@dataclass(frozen=True, slots=True)
class CrashWorker:
    """A process ends by itself."""

    pick: float
    exit_code: int


@dataclass(frozen=True, slots=True)
class HangWorker:
    """A watched process does nothing any more."""

    pick: float


@dataclass(frozen=True, slots=True)
class LoseNode:
    """A node cannot be reached for a while; `listed`: the cluster still names it."""

    pick: float
    seconds: float
    rebooted: bool
    listed: bool


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
    """The cluster does not answer so many times."""

    count: int


@dataclass(frozen=True, slots=True)
class FailStore:
    """The next calls of one method of the store raise; `written`: after they were carried out."""

    method: str
    count: int
    written: bool


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


@dataclass(frozen=True, slots=True)
class Unbook:
    """A user cancels a booking, or one that there is not."""

    name: str


@dataclass(frozen=True, slots=True)
class SubmitAgain:
    """A user repeats a submission with the same key."""

    pick: float


Fault = (
    CrashWorker
    | HangWorker
    | LoseNode
    | SeeLate
    | RepeatEnds
    | DelayReports
    | FailCalls
    | FailObservations
    | FailStore
    | Die
    | Freeze
    | Stop
    | ChangeSlots
    | AskJob
    | AskNode
    | Book
    | Unbook
    | SubmitAgain
)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job that is submitted `at` seconds after the start."""

    at: float
    spec: JobSpec
    behaviour: Behaviour


@dataclass(frozen=True, slots=True)
class Scenario:
    """One seed. Times of arrivals and faults are seconds after the start, ascending."""

    seed: int
    policy: PolicySettings
    engine: EngineSettings
    nodes: tuple[NodeObservation, ...]
    arrivals: tuple[Arrival, ...]
    faults: tuple[tuple[float, Fault], ...]
    #: How many daemons there are: one leads, the others follow.
    replicas: int
    #: Whether nodes that operators took out of service come back when the faults stop.
    uncordon: bool
    #: Whether suspended jobs are resumed when the faults stop.
    resume: bool
