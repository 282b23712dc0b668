"""What is set of a queue and has no effect for now: nodes may be added, and limits raised."""

from collections.abc import Collection, Iterator

from scheduler.model.queue import ANY_GPU, Queue, slots_words
from scheduler.model.queue_tree import Queues, chain, listed
from scheduler.model.world import World


def warnings_of_queue(queue: Queue, given: Collection[str], queues: Queues, world: World | None) -> list[str]:
    """Each in one line. `given`: the GPU types of guarantees and limits that were set just now."""
    return [*_unknown_types(given, world), *_beyond_outer_limits(queue, given, queues)]


def _unknown_types(given: Collection[str], world: World | None) -> Iterator[str]:
    """Types that no node has; none where no nodes are known."""
    if world is None or not world.nodes:
        return
    known = {node.gpu_type for node in world.nodes.values() if node.gpu_type is not None}
    present = f"nodes have {listed(known)}" if known else "no node has a GPU type"
    for kind in sorted({*given} - known - {ANY_GPU}):
        yield f"no node has GPU type {kind} now, and it counts once one has ({present})"


def _beyond_outer_limits(queue: Queue, given: Collection[str], queues: Queues) -> Iterator[str]:
    """Guarantees that the queues around it do not let it have."""
    for outer in chain(queues, queue.parent):
        limit = dict(outer.limit)
        for kind, slots in queue.guarantee:
            most = min(limit.get(kind, slots), limit.get(ANY_GPU, slots))
            if kind in given and slots > most:
                met = f"is met up to {most}, as queue {outer.path} around it is limited"
                yield f"the guarantee of {slots_words(kind, slots)} {met}"
