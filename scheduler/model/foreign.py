"""What others than this scheduler's workers use of the nodes, and what they wait for."""

from dataclasses import dataclass

from scheduler import bounds
from scheduler.model.ids import NodeName
from scheduler.model.shape import WorkerShape


@dataclass(frozen=True, slots=True)
class ForeignUse:
    """What processes that are not workers hold of one node, by what they asked for."""

    slots: int = 0
    cpus: float = 0.0
    memory_mib: int = 0

    def __post_init__(self) -> None:
        bounds.CPUS_HELD.check("cpus", self.cpus)

    def plus(self, shape: WorkerShape) -> "ForeignUse":
        return ForeignUse(self.slots + shape.slots, self.cpus + shape.cpus, self.memory_mib + shape.memory_mib)


NO_FOREIGN = ForeignUse()


@dataclass(frozen=True, slots=True)
class Demand:
    """A process of others that waits for room, and for which workers of preemptible jobs have to leave."""

    #: Unique among all demands, the same as long as it waits.
    name: str
    #: What it asks for, which may be CPUs or memory alone.
    shape: WorkerShape
    #: Nodes on which it may run, besides what the shape's labels say; None: any.
    nodes: frozenset[NodeName] | None = None

    def may_use(self, node: NodeName) -> bool:
        return self.nodes is None or node in self.nodes


@dataclass(frozen=True, slots=True)
class Awaited:
    """A demand as the engine follows it."""

    demand: Demand
    #: Since when there has been room for it, so that it should be taken up at any moment; None: there is none.
    room_since: float | None = None
    #: It was not taken up although there was room for long; it does not count until then. None: it counts.
    ignored_until: float | None = None
