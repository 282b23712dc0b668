"""What is to be simulated: jobs, when they are submitted, and what each really has to do."""

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.clusters.simulated.work import Work
from scheduler.model.job import JobSpec
from scheduler.model.observation import SlotLoad
from scheduler.model.queue import Queue
from scheduler.model.shape import WorkerShape


@dataclass(frozen=True, slots=True)
class Submission:
    """One job: what the scheduler is told (`spec`), and what only the simulated cluster knows."""

    #: Seconds since the beginning of the workload.
    at: float
    spec: JobSpec
    work: Work
    #: How long the whole job stands still at each change of its membership, its first start included.
    resize_seconds: float = 0.0
    #: Speed of its workers on slots that they share, in relation to slots of their own.
    shared_speed: float = 1.0
    #: What a running worker puts on each of its slots.
    load: SlotLoad = SlotLoad()
    #: How long a worker that is asked to leave holds its slots.
    leave_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ForeignPod:
    """A pod of others, such as one of a service: it waits for room on a node, and holds it until it goes."""

    #: Unique in its workload.
    name: str
    #: Seconds since the beginning of the workload: when it comes, and when it goes.
    at: float
    until: float
    #: What it asks for: at least one slot.
    shape: WorkerShape


@dataclass(frozen=True, slots=True)
class Workload:
    """Submissions in the order of their times, and what others run beside them."""

    name: str
    submissions: tuple[Submission, ...]
    #: Largest number of slots of a node for which the speeds are known; None: any.
    node_slots_max: int | None = None
    foreign: tuple[ForeignPod, ...] = ()
    #: Parents before the queues inside them.
    queues: tuple[Queue, ...] = ()

    @staticmethod
    def of(
        name: str,
        submissions: Sequence[Submission],
        node_slots_max: int | None = None,
        foreign: Sequence[ForeignPod] = (),
        queues: Sequence[Queue] = (),
    ) -> "Workload":
        """The workload with its submissions in order; those of the same moment as given."""
        ordered = tuple(sorted(submissions, key=lambda each: each.at))
        return Workload(name, ordered, node_slots_max, tuple(foreign), tuple(queues))
