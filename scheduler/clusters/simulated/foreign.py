"""Foreign processes on a simulated cluster: they wait until a node has room, then hold their demand."""

from collections import defaultdict
from collections.abc import Iterable

from scheduler.engine.ports import StartWorker
from scheduler.model.foreign import NO_FOREIGN, Demand, ForeignUse
from scheduler.model.ids import NodeName
from scheduler.model.node import CPU_EPSILON
from scheduler.model.observation import NodeObservation
from scheduler.model.shape import WorkerShape


class ForeignProcesses:
    """Running foreign processes by node, and waiting ones in the order of arrival."""

    def __init__(self) -> None:
        self._waiting: dict[str, Demand] = {}
        #: Waiting processes for which no worker is to make room.
        self._unheard: set[str] = set()
        self._running: dict[str, tuple[NodeName, Demand]] = {}
        #: Whether the cluster starts no waiting process, whatever room there is.
        self.held_up = False

    def come(self, demand: Demand, *, heard: bool = True) -> None:
        """Add a process. With `heard` false it only takes free room, and no worker leaves for it."""
        self._waiting[demand.name] = demand
        if not heard:
            self._unheard.add(demand.name)

    def go(self, name: str) -> None:
        """End a process, or its wait."""
        self._waiting.pop(name, None)
        self._running.pop(name, None)

    @property
    def demands(self) -> tuple[Demand, ...]:
        """Demands for which room has to be made."""
        return tuple(demand for name, demand in self._waiting.items() if name not in self._unheard)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all processes, waiting ones first."""
        return (*self._waiting, *self._running)

    def node_of(self, name: str) -> NodeName | None:
        """Where it runs; None while it waits."""
        running = self._running.get(name)
        return running[0] if running is not None else None

    @property
    def waiting(self) -> bool:
        """Whether any process waits."""
        return bool(self._waiting)

    def use(self) -> dict[NodeName, ForeignUse]:
        """Foreign use of each node."""
        held: dict[NodeName, ForeignUse] = {}
        for node, demand in self._running.values():
            held[node] = held.get(node, NO_FOREIGN).plus(demand.shape)
        return held

    def take_room(self, nodes: Iterable[NodeObservation], workers: Iterable[tuple[NodeName, StartWorker]]) -> None:
        """Start the waiting processes that fit on one of the nodes beside these workers."""
        if self.held_up or not self._waiting:
            return
        starts: defaultdict[NodeName, list[StartWorker]] = defaultdict(list)
        for at, start in workers:
            starts[at].append(start)
        for name, demand in tuple(self._waiting.items()):
            others = self.use()
            for node in nodes:
                held = [others.get(node.name, NO_FOREIGN), *map(_use_of, starts[node.name])]
                if _may_use(demand, node) and _fit(demand.shape, node, held):
                    del self._waiting[name]
                    self._running[name] = (node.name, demand)
                    break

    def leave_room(self, start: StartWorker, node: NodeObservation, workers: Iterable[StartWorker]) -> bool:
        """Whether a worker can run on the node beside foreign processes and running workers."""
        others = self.use().get(node.name)
        if others is None:
            return True
        shape = WorkerShape(len(start.slot_ids), start.cpus, start.memory_mib)
        return _fit(shape, node, [others, *map(_use_of, workers)])


def _may_use(demand: Demand, node: NodeObservation) -> bool:
    return demand.may_use(node.name) and set(demand.shape.node_selector) <= set(node.labels)


def _use_of(start: StartWorker) -> ForeignUse:
    """Resources that a worker takes from foreign processes."""
    return ForeignUse(len(start.slot_ids), start.cpus, start.memory_mib)


def _fit(shape: WorkerShape, node: NodeObservation, held: Iterable[ForeignUse]) -> bool:
    """Whether the node has the needed amount of each needed resource beside the held amounts."""
    uses = list(held)
    return (
        shape.slots <= node.slots - sum(use.slots for use in uses)
        and (not shape.cpus or shape.cpus <= node.cpus - sum(use.cpus for use in uses) + CPU_EPSILON)
        and (not shape.memory_mib or shape.memory_mib <= node.memory_mib - sum(use.memory_mib for use in uses))
    )
