"""Free slots, and the jobs that could use them."""

from scheduler.http.explain.node_reasons import why_away, why_closed
from scheduler.http.explain.words import are, named
from scheduler.model.foreign import NO_FOREIGN
from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.model.node import Node
from scheduler.model.shape import WorkerShape
from scheduler.model.slot import ClosedSlot
from scheduler.model.words import counted
from scheduler.model.world import World
from scheduler.policy.snapshot.usage import RESIZABLE_STATES


def free_slots(node: Node, world: World) -> int:
    """Free slots of the node that are not closed."""
    taken = (world.used(node.name).slot_mask | node.closed_mask).bit_count()
    return max(0, node.slots - taken - world.foreign.get(node.name, NO_FOREIGN).slots)


def free_extra(node: Node, world: World) -> int:
    """Free slots of the node beyond the physical ones."""
    return max(0, node.extra_slots - world.used(node.name).slots_shared)


def away(job: Job, world: World) -> list[Node]:
    """Nodes that accept no new workers, with free slots that the job could use otherwise."""
    nodes = world.nodes
    types = {nodes[worker.node].gpu_type for worker in job.wanted_workers if worker.node in nodes}
    shared = any(worker.shared for worker in job.wanted_workers)
    free = free_extra if shared else free_slots
    return [
        node
        for node in nodes.values()
        if not node.schedulable
        and node.suits(job.shape)
        and (not types or node.gpu_type in types)
        and free(node, world) >= max(job.shape.slots, 1)
    ]


def away_text(nodes: list[Node], world: World) -> str:
    """A sentence on these; empty if there are none."""
    if not nodes:
        return ""
    slots = sum(free_slots(node, world) for node in nodes)
    names = named(sorted(f"{node.name} ({why_away(node)})" for node in nodes))
    return f" {counted(slots, 'idle slot')} {are(slots)} on nodes closed to new workers: {names}."


def closed_slots(shape: WorkerShape, world: World) -> list[tuple[Node, ClosedSlot]]:
    """Closed slots that no worker holds, on nodes that suit the shape and accept workers."""
    found = []
    for node in world.nodes.values():
        if node.closed_slots and node.schedulable and node.suits(shape):
            held = world.used(node.name).slot_mask
            found += [(node, each) for each in node.closed_slots if not held >> each.slot & 1]
    return found


def closed_text(shape: WorkerShape, world: World) -> str:
    """A sentence on these; empty if there are none."""
    found = closed_slots(shape, world)
    if not found:
        return ""
    names = named([why_closed(node, each) for node, each in found])
    return f" {counted(len(found), 'slot')} {are(len(found))} closed to new workers: {names}."


def reserved_by(job: Job, world: World) -> JobId | None:
    """The most important waiting job whose reserved free slots the job could use; None also if it wants no more."""
    grows = job.state in RESIZABLE_STATES and not job.finishing and len(job.wanted_workers) < job.max_workers
    if not grows and job.state is not JobState.QUEUED:
        return None
    nodes = world.nodes
    holders = [
        other
        for other in world.reserved.values()
        if other.id != job.id
        and any(nodes[name].suits(job.shape) and _has_free(nodes[name], world) for name, _ in other.reservation)
    ]
    return min(holders, key=lambda other: (-other.priority, other.id)).id if holders else None


def _has_free(node: Node, world: World) -> bool:
    return node.schedulable and free_slots(node, world) > 0
