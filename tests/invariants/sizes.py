"""Sizes at which jobs start, as a test counts them."""

from collections import Counter
from collections.abc import Callable, Iterable

from scheduler.model.job import Job
from scheduler.model.node import Node
from scheduler.model.shape import WorkerShape
from scheduler.model.world import World as Snapshot
from scheduler.policy.published.view import fixed_size


def most_workers(job: Job, nodes: Iterable[Node], fits: Callable[[Node, WorkerShape], int] = Node.fits_empty) -> int:
    """The most workers of the job that these nodes hold when they are empty, or that their shared slots hold."""
    room: Counter[str | None] = Counter()
    for node in nodes:
        room[node.gpu_type] += fits(node, job.shape)
    return max(room.values(), default=0)


def starting_size(job: Job, snapshot: Snapshot) -> int:
    """The size at which a job starts under a policy of fixed sizes: it depends on what the cluster would hold."""
    return fixed_size(job, most_workers(job, snapshot.nodes.values()))
