"""Halves of nodes that are alike: what one of a kind can hold, each of them can."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from scheduler.model.ids import NodeName
from scheduler.model.node import Node
from scheduler.model.shape import WorkerShape
from scheduler.model.world import World
from scheduler.policy.capacity.pools import Group, open_to_share, shareable, shared_half


@dataclass(slots=True)
class NodeKind:
    """Alike halves of nodes: their number, and the positions of those that take new workers."""

    node: Node
    #: The node without its closed slots.
    reduced: Node
    shared: bool
    #: The most slots that one worker may have there, now and while none of them is crowded or closed.
    slots_max: int
    slots_ever: int
    count: int = 0
    positions: list[int] = field(default_factory=list)

    def suits(self, shape: WorkerShape) -> bool:
        return self.may_suit(shape) and (not self.shared or shape.slots <= self.slots_max)

    def may_suit(self, shape: WorkerShape) -> bool:
        """Whether it suits while no slot is crowded or closed."""
        if self.shared and not (shape.oversell and shape.slots <= self.slots_ever):
            return False
        return self.node.suits(shape)

    @property
    def group(self) -> Group:
        """The group of workers placed there."""
        return (self.shared, self.node.gpu_type)


def kinds_of(world: World, positions: Mapping[NodeName, int]) -> list[NodeKind]:
    """All halves of nodes; `positions` are those of the halves that take new workers."""
    kinds: dict[object, NodeKind] = {}
    for node in world.nodes.values():
        _count_in(kinds, NodeKind(node, node.reduced(), False, node.slots, node.slots), positions)
        if node.extra_slots:
            open_slots = open_to_share(node, world.crowded.get(node.name, ()))
            half, reduced = shared_half(node), replace(shared_half(node), slots=shareable(node, ()))
            _count_in(kinds, NodeKind(half, reduced, True, open_slots, node.slots), positions)
    return list(kinds.values())


def _count_in(kinds: dict[object, NodeKind], kind: NodeKind, positions: Mapping[NodeName, int]) -> None:
    part = kind.node
    slots = (part.slots, kind.reduced.slots, kind.slots_max, kind.slots_ever)
    key = (part.gpu_type, part.labels, *slots, part.cpus, part.memory_mib, kind.shared)
    kind = kinds.setdefault(key, kind)
    kind.count += 1
    position = positions.get(part.name)
    if position is not None:
        kind.positions.append(position)
