"""What is free on nodes, as a test counts it: neither held by workers, nor by others, nor closed."""

from scheduler.model.foreign import NO_FOREIGN
from scheduler.model.node import Node
from scheduler.model.world import World as Snapshot


def free_slots(snapshot: Snapshot, node: Node) -> int:
    """Slots of the node that workers may have now; negative where others hold more than there is."""
    taken = {slot for slot in range(node.slots) if snapshot.used(node.name).slot_mask >> slot & 1}
    taken |= {each.slot for each in node.closed_slots if each.slot < node.slots}
    return node.slots - len(taken) - snapshot.foreign.get(node.name, NO_FOREIGN).slots
