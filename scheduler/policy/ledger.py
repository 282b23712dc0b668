"""Scratch account of what each node has left while a plan is made.

Three numbers per node and resource: what is *free* now, what is *coming* (held by workers that are leaving) and what is
*held* for waiting jobs. Out of them come the views that decisions use:

    free   nobody's slots
    open   usable now without touching a reservation: min(free, free + coming - held)
    soon   usable once those who are leaving have left: free + coming - held

Only nodes that take new workers are in it. Nodes have positions, by name, so that every choice ends in a fixed
tie-break.
"""

from collections.abc import Iterable
from enum import Enum

from scheduler.model.ids import NodeName
from scheduler.model.job import Placement
from scheduler.model.node import Node
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import Worker
from scheduler.model.world import NO_USAGE, NodeUsage, Stray, World, mask_of

#: Slots, CPUs and MiB.
Amount = tuple[int, float, int]


class View(Enum):
    """What counts as available; see the module."""

    FREE = "FREE"
    OPEN = "OPEN"
    SOON = "SOON"


class Ledger:
    """Free, coming and held capacity of the nodes that take new workers."""

    def __init__(self, world: World) -> None:
        self.nodes: list[Node] = sorted((n for n in world.nodes.values() if n.schedulable), key=lambda n: n.name)
        self.position: dict[NodeName, int] = {node.name: i for i, node in enumerate(self.nodes)}
        #: Positions whose numbers changed, in order; readers remember how far they have read.
        self.log: list[int] = []
        used = _usage_with_strays(world)
        self._free: list[Amount] = [_left(node, used.get(node.name, NO_USAGE)) for node in self.nodes]
        self._coming: dict[int, Amount] = {}
        self._held: dict[int, Amount] = {}

    def available(self, i: int, view: View) -> Amount:
        """What node `i` offers in this view; negative where it is over-committed."""
        free = self._free[i]
        if view is View.FREE or (i not in self._coming and i not in self._held):
            return free
        coming = self._coming.get(i, _NOTHING)
        held = self._held.get(i, _NOTHING)
        soon = (free[0] + coming[0] - held[0], free[1] + coming[1] - held[1], free[2] + coming[2] - held[2])
        if view is View.SOON:
            return soon
        return (min(free[0], soon[0]), min(free[1], soon[1]), min(free[2], soon[2]))

    def occupied(self) -> Iterable[int]:
        """Positions where more than nothing is free, coming or held: elsewhere every view is empty."""
        return [i for i, free in enumerate(self._free) if free[0] > 0 or i in self._coming or i in self._held]

    def take(self, i: int, shape: WorkerShape, count: int) -> None:
        """Use free capacity for `count` workers; a negative count gives it back."""
        self._free[i] = _plus(self._free[i], shape, -count)
        self.log.append(i)

    def leave(self, leaving: Worker | Stray) -> None:
        """What this worker or stray holds is being freed."""
        i = self.position.get(leaving.node)
        if i is None:
            return
        slots, cpus, memory = self._coming.get(i, _NOTHING)
        self._coming[i] = (
            slots + usable_slots(self.nodes[i], leaving.slot_ids),
            cpus + leaving.cpus,
            memory + leaving.memory_mib,
        )
        self.log.append(i)

    def hold(self, placement: Placement, shape: WorkerShape, sign: int = 1) -> None:
        """Hold capacity for a waiting job; with sign -1, stop holding it."""
        for name, count in placement:
            i = self.position.get(name)
            if i is not None:
                self._held[i] = _plus(self._held.get(i, _NOTHING), shape, sign * count)
                self.log.append(i)


class Spare:
    """What a blocked job ahead will not need of each node by the time it can start; nodes not in it are unbounded."""

    def __init__(self, amounts: dict[int, Amount]) -> None:
        self._amounts = amounts

    def bound(self, i: int) -> Amount | None:
        return self._amounts.get(i)

    def take(self, i: int, shape: WorkerShape, count: int) -> None:
        """Use it for `count` workers; a negative count gives it back."""
        if i in self._amounts:
            self._amounts[i] = _plus(self._amounts[i], shape, -count)


_NOTHING: Amount = (0, 0.0, 0)


def _plus(amount: Amount, shape: WorkerShape, count: int) -> Amount:
    return (amount[0] + shape.slots * count, amount[1] + shape.cpus * count, amount[2] + shape.memory_mib * count)


def usable_slots(node: Node, slot_ids: tuple[int, ...]) -> int:
    """How many of these slots the node has: one that lost a GPU may be left with workers on slots beyond its count."""
    return sum(1 for slot in slot_ids if slot < node.slots)


def _left(node: Node, used: NodeUsage) -> Amount:
    slots = node.slots - (used.slot_mask & ((1 << node.slots) - 1)).bit_count()
    return (slots, node.cpus - used.cpus, node.memory_mib - used.memory_mib)


def _usage_with_strays(world: World) -> dict[NodeName, NodeUsage]:
    used = dict(world.usage)
    for stray in world.strays.values():
        held = used.get(stray.node, NO_USAGE)
        used[stray.node] = NodeUsage(
            held.slot_mask | mask_of(stray.slot_ids),
            held.cpus + stray.cpus,
            held.memory_mib + stray.memory_mib,
            held.workers + 1,
        )
    return used
