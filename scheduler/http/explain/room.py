"""What is free, and for whom."""

from scheduler.model.foreign import NO_FOREIGN
from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.node import Node, workers_that_fit
from scheduler.model.world import World


def free_slots(node: Node, world: World) -> int:
    """Slots of the node that nobody holds."""
    return max(0, node.slots - world.used(node.name).slots - world.foreign.get(node.name, NO_FOREIGN).slots)


def free_extra(node: Node, world: World) -> int:
    """The same of those beyond the physical ones."""
    return max(0, node.extra_slots - world.used(node.name).slots_shared)


def fitting(job: Job, world: World) -> int:
    """How many of its workers would fit on what is free, reservations aside."""
    count = 0
    for node in world.nodes.values():
        if node.schedulable and node.suits(job.shape):
            used, foreign = world.used(node.name), world.foreign.get(node.name, NO_FOREIGN)
            cpus = node.cpus - used.cpus - foreign.cpus
            memory_mib = node.memory_mib - used.memory_mib - foreign.memory_mib
            count += workers_that_fit(job.shape, free_slots(node, world), cpus, memory_mib)
    return count


def reserved_by(job: Job, world: World) -> JobId | None:
    """The most important waiting job that holds capacity on a node which suits this one."""
    holders = [
        other
        for other in world.queued.values()
        if other.id != job.id
        and any(world.nodes[node].suits(job.shape) for node, _ in other.reservation if node in world.nodes)
    ]
    return min(holders, key=lambda other: (-other.priority, other.id)).id if holders else None
