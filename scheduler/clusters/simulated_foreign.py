"""Processes of others on a simulated cluster: they wait until a node has room, then hold what they asked for."""

from collections.abc import Mapping

from scheduler.model.foreign import NO_FOREIGN, Demand, ForeignUse
from scheduler.model.ids import NodeName
from scheduler.model.node import CPU_EPSILON
from scheduler.model.observation import NodeObservation


class ForeignProcesses:
    """Those that run, by node, and those that wait, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: dict[str, Demand] = {}
        self._running: dict[str, tuple[NodeName, Demand]] = {}
        #: Whether the cluster takes up none of those that wait, whatever room there is.
        self.held_up = False

    def come(self, demand: Demand) -> None:
        """One more wants to run."""
        self._waiting[demand.name] = demand

    def go(self, name: str) -> None:
        """One of them ends, or waits no more."""
        self._waiting.pop(name, None)
        self._running.pop(name, None)

    @property
    def demands(self) -> tuple[Demand, ...]:
        return tuple(self._waiting.values())

    def node_of(self, name: str) -> NodeName | None:
        """Where it runs; None while it waits."""
        running = self._running.get(name)
        return running[0] if running is not None else None

    def use(self) -> dict[NodeName, ForeignUse]:
        """What they hold of each node."""
        held: dict[NodeName, ForeignUse] = {}
        for node, demand in self._running.values():
            held[node] = held.get(node, NO_FOREIGN).plus(demand.shape)
        return held

    def take_room(self, nodes: Mapping[NodeName, NodeObservation], workers: Mapping[NodeName, ForeignUse]) -> None:
        """Let those run for which a node has room beside its workers, which hold so much of it."""
        for name, demand in () if self.held_up else tuple(self._waiting.items()):
            others = self.use()
            for node in nodes.values():
                held = [use for use in (workers.get(node.name), others.get(node.name)) if use is not None]
                if _fits(demand, node, held):
                    del self._waiting[name]
                    self._running[name] = (node.name, demand)
                    break


def _fits(demand: Demand, node: NodeObservation, held: list[ForeignUse]) -> bool:
    shape = demand.shape
    if not demand.may_use(node.name) or not set(shape.node_selector) <= set(node.labels):
        return False
    return (
        shape.slots <= node.slots - sum(use.slots for use in held)
        and shape.cpus <= node.cpus - sum(use.cpus for use in held) + CPU_EPSILON
        and shape.memory_mib <= node.memory_mib - sum(use.memory_mib for use in held)
    )
