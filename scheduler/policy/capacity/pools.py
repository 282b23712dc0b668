"""An oversold node has two halves: its own slots, and those beyond them that are for workers that share.

To the planner the shared half is a node of its own, with a name that no node has: slots are counted apart, while CPUs
and memory of both halves are the node's, so that what one takes the other lacks.
"""

from collections.abc import Collection
from dataclasses import replace

from scheduler.model.ids import NodeName
from scheduler.model.job import Job, Placement
from scheduler.model.node import Node
from scheduler.model.plan import Grow, Placing
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import Worker
from scheduler.model.world import World

_SHARED = "\0shared"

#: The workers of a job are all in one group: whether on shared slots, and the GPU type of the nodes.
Group = tuple[bool, str | None]


def half(name: NodeName, shared: bool) -> NodeName:
    """The name by which the planner knows this half of the node."""
    return NodeName(name + _SHARED) if shared else name


def owner_of(name: NodeName) -> tuple[NodeName, bool]:
    """The node of a half, and whether it is the shared one."""
    return NodeName(name.removesuffix(_SHARED)), name.endswith(_SHARED)


def other_half(name: NodeName) -> NodeName:
    """The half that draws on the same CPUs and memory."""
    node, shared = owner_of(name)
    return half(node, not shared)


def shown(name: NodeName) -> str:
    """A half's name for people."""
    return name.replace("\0", " ")


def shared_half(node: Node) -> Node:
    """The slots beyond the node's own, as a node."""
    return replace(node, name=half(node.name, True), slots=node.extra_slots, oversell=1.0, closed_slots=())


def halves(placement: Placement, shared: bool) -> Placement:
    """The placement on halves of nodes, as the planner knows it."""
    return tuple((half(name, True), count) for name, count in placement) if shared else placement


def whole(placement: Placement) -> tuple[Placement, bool]:
    """The placement on nodes, as it is known outside the planner, and whether it is on shared slots."""
    shared = any(owner_of(name)[1] for name, _ in placement)
    return tuple((owner_of(name)[0], count) for name, count in placement) if shared else placement, shared


#: Placements of a job's workers and, if it has one, of its fixed group, on halves of nodes.
Placements = tuple[Placement, ...]
#: A half of a node, a shape, and the number of workers of that shape there.
Placed = tuple[NodeName, WorkerShape, int]


def shapes_of(job: Job) -> tuple[WorkerShape, ...]:
    """The shapes of the job's workers and, if it has one, of its fixed group."""
    return (job.shape,) if job.spec.fixed is None else (job.shape, job.spec.fixed.shape)


def slots_to_start(job: Job) -> int:
    """Slots of the workers that must start together, and of the fixed group."""
    counts = (job.min_workers, 0 if job.spec.fixed is None else job.spec.fixed.replicas)
    return sum(shape.slots * count for shape, count in zip(shapes_of(job), counts, strict=False))


def reserved(job: Job) -> Placements:
    """What is reserved for a waiting job."""
    workers = halves(job.reservation, job.reservation_shared)
    return (workers,) if job.spec.fixed is None else (workers, job.fixed_reservation)


def is_shared(placements: Placements) -> bool:
    """Whether the elastic workers are placed on shared slots."""
    return any(owner_of(name)[1] for name, _ in placements[0])


def placed_by(job: Job, action: Placing) -> list[Placed]:
    """All that an action places for the job, its fixed group included."""
    fixed = () if isinstance(action, Grow) else action.fixed
    return placed(job, (halves(action.placement, action.shared), fixed))


def placed(job: Job, placements: Placements) -> list[Placed]:
    """These placements, with the shapes of their workers."""
    each = zip(shapes_of(job), placements, strict=False)
    return [(name, shape, count) for shape, placement in each for name, count in placement]


def shareable(node: Node, crowded: Collection[int]) -> int:
    """Number of extra slots that may be used while some of the node's slots are crowded or closed."""
    return node.extra_slots * open_to_share(node, crowded) // node.slots if node.slots else 0


def open_to_share(node: Node, crowded: Collection[int]) -> int:
    """Number of the node's slots that are neither crowded nor closed."""
    return node.slots - len({*crowded, *(each.slot for each in node.closed_slots)})


def group_of(world: World, worker: Worker) -> Group:
    """The group in which the other workers of its job must be."""
    return (worker.shared, world.nodes[worker.node].gpu_type)
