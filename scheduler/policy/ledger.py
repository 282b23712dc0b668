"""Scratch account of what each node has left while a plan is made.

Three numbers per node and resource: what is *free* now, what is *coming* (held by workers that are leaving) and what is
*held* for waiting jobs. Out of them come the views that decisions use:

    free   nobody's slots
    open   usable now without touching a reservation: min(free, free + coming - held)
    soon   usable once those who are leaving have left: free + coming - held

Only nodes that take new workers are in it. Nodes have positions, by name, so that every choice ends in a fixed
tie-break.
"""

from collections.abc import Mapping
from enum import Enum

from scheduler.model.ids import NodeName
from scheduler.model.job import Placement
from scheduler.model.node import Node
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import Worker
from scheduler.model.world import NO_USAGE, NodeUsage, Stray, World, mask_of

#: Slots, CPUs and MiB.
Amount = tuple[int, float, int]
NOTHING: Amount = (0, 0.0, 0)


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

    @property
    def plain(self) -> bool:
        """Whether nothing is coming or held, so that all views are the same."""
        return not self._coming and not self._held

    def available(self, i: int, view: View) -> Amount:
        """What node `i` offers in this view; negative where it is over-committed."""
        free = self._free[i]
        if view is View.FREE or (i not in self._coming and i not in self._held):
            return free
        soon = add(add(free, self._coming.get(i, NOTHING)), self._held.get(i, NOTHING), -1)
        return soon if view is View.SOON else least(free, soon)

    def occupied(self) -> list[int]:
        """Positions where something is free, coming or held: elsewhere every view is empty."""
        coming, held = self._coming, self._held
        return [i for i, free in enumerate(self._free) if free[0] > 0 or i in coming or i in held]

    def take(self, i: int, shape: WorkerShape, count: int) -> None:
        """Use free capacity for `count` workers; a negative count gives it back."""
        self._free[i] = add(self._free[i], needs(shape, count), -1)
        self.log.append(i)

    def leave(self, leaving: Worker | Stray) -> None:
        """What this worker or stray holds is being freed."""
        i = self.position.get(leaving.node)
        if i is not None:
            self._coming[i] = add(self._coming.get(i, NOTHING), amount_of(leaving, self.nodes[i]))
            self.log.append(i)

    def hold(self, placement: Placement, shape: WorkerShape, sign: int = 1) -> None:
        """Hold capacity for a waiting job; with sign -1, stop holding it."""
        for name, count in placement:
            i = self.position.get(name)
            if i is not None:
                held = add(self._held.get(i, NOTHING), needs(shape, count), sign)
                if held[0]:
                    self._held[i] = held
                else:
                    del self._held[i]
                self.log.append(i)


class Spare:
    """What a blocked job ahead will not need of each node by the time it can start; nodes not in it are unbounded."""

    def __init__(self, amounts: dict[int, Amount]) -> None:
        self._amounts = amounts

    def bound(self, i: int) -> Amount | None:
        return self._amounts.get(i)

    def widened(self, by: Mapping[int, Amount]) -> "Spare":
        """The same bounds with so much more room on these nodes."""
        return Spare({i: add(amount, by[i]) if i in by else amount for i, amount in self._amounts.items()})

    def use_beyond(self, lent: Amount, i: int, shape: WorkerShape, count: int) -> None:
        """Use it for what `count` workers need beyond an amount that they had from elsewhere."""
        if i in self._amounts:
            slots, cpus, memory = add(needs(shape, count), lent, -1)
            self._amounts[i] = add(self._amounts[i], (max(slots, 0), max(cpus, 0.0), max(memory, 0)), -1)

    def take(self, i: int, shape: WorkerShape, count: int) -> None:
        """Use it for `count` workers; a negative count gives it back."""
        if i in self._amounts:
            self._amounts[i] = add(self._amounts[i], needs(shape, count), -1)


def needs(shape: WorkerShape, count: int) -> Amount:
    """What so many workers of the shape hold."""
    return (shape.slots * count, shape.cpus * count, shape.memory_mib * count)


def amount_of(worker: Worker | Stray, node: Node) -> Amount:
    """What it holds of its node; a node that lost a GPU may be left with workers on slots that it has no more."""
    slots = len(worker.slot_ids)
    if slots and max(worker.slot_ids) >= node.slots:
        slots = sum(1 for slot in worker.slot_ids if slot < node.slots)
    return (slots, worker.cpus, worker.memory_mib)


def add(a: Amount, b: Amount, sign: int = 1) -> Amount:
    return (a[0] + sign * b[0], a[1] + sign * b[1], a[2] + sign * b[2])


def least(a: Amount, b: Amount) -> Amount:
    """The smaller of each resource."""
    return (min(a[0], b[0]), min(a[1], b[1]), min(a[2], b[2]))


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
