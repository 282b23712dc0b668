"""Decisions among 1,000 queues and 10,000 users on 12,500 nodes × 8 slots, beside those without queues.

Both clusters are those of `decision`, with nodes of two GPU types: 10,000 running and 100,000 waiting jobs. Queues
stand in three levels, some with guarantees, limits, weights or shares of users. Both are measured in turns, so that
whatever else the machine does meets both alike. Processor time of one core; making the worlds is not counted.
"""

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

from benchmarks.decision import Site
from benchmarks.figure import Figure, median, percentile
from scheduler.config import PolicySettings
from scheduler.engine.timing import gc_pauses
from scheduler.model.ids import NodeName
from scheduler.model.job import Job
from scheduler.model.node import Node
from scheduler.model.queue import ANY_GPU, Queue
from scheduler.model.world import World
from scheduler.policy.planner import Planner

NODES, QUEUES, USERS = 12_500, 1_000, 10_000
#: A size for a quick look: nodes, queues, users, passes.
QUICK = (100, 110, 100, 2)
#: Queues of the first level, and inside each of those of the second; the rest is in the third.
FIRST, SECOND = 10, 9
FULL_PASSES, PASSES = 5, 20
RATIO_MAX = 1.3
#: Of every fourth node.
GPU_TYPE = "H100"


class TypedSite(Site):
    """A cluster of which every fourth node has GPUs of another type; no queues."""

    queues: tuple[Queue, ...] = ()

    def __init__(self, nodes: int, dice: random.Random, users: int) -> None:
        self.users = users
        super().__init__(nodes, dice)
        active, queued = self.world.active.values(), self.world.queued.values()
        typed = {node.name: _typed(node, k) for k, node in enumerate(self.world.nodes.values())}
        jobs = [*(self.member(_on_one_type(job, typed)) for job in active), *queued]
        self.world = World.of(jobs, typed.values(), queues=self.queues)

    def waiting(self, priority: int) -> Job:
        job = super().waiting(priority)
        gpu_type = GPU_TYPE if job.id % 10 == 0 else None
        return self.member(replace(job, spec=replace(job.spec, shape=replace(job.shape, gpu_type=gpu_type))))

    def member(self, job: Job) -> Job:
        """The job as one of its user."""
        return replace(job, spec=replace(job.spec, user=f"user-{self.user(job):05d}"))

    def user(self, job: Job) -> int:
        return random.Random(job.id).randrange(self.users)

    def full_pass(self) -> float:
        """Plan as if nothing were known, and do nothing of it; in milliseconds."""
        planner, world = self.planner, self.world
        self.planner = Planner(PolicySettings(), time.monotonic)
        taken = self.plan()
        self.planner, self.world = planner, world
        return taken


class QueuedSite(TypedSite):
    """Such a cluster with a tree of queues."""

    def __init__(self, nodes: int, dice: random.Random, users: int, count: int) -> None:
        self.queues = queues(count, nodes * 8)
        inner = {queue.parent for queue in self.queues}
        self._leaves = [queue.path for queue in self.queues if queue.path not in inner]
        super().__init__(nodes, dice, users)

    def member(self, job: Job) -> Job:
        job = super().member(job)
        return replace(job, spec=replace(job.spec, queue=self._leaves[self.user(job) % len(self._leaves)]))


def queues(count: int, slots: int) -> tuple[Queue, ...]:
    """A tree of three levels; half of the slots are guaranteed, and a tenth of the queues are limited."""
    paths = [f"q{k}" for k in range(FIRST)]
    paths += [f"q{k}/q{n}" for k in range(FIRST) for n in range(SECOND)]
    paths += [f"{paths[FIRST + k % (FIRST * SECOND)]}/q{k}" for k in range(count - len(paths))]
    part = max(slots // count, 2)
    return tuple(_queue(path, k, part) for k, path in enumerate(paths))


def _queue(path: str, k: int, part: int) -> Queue:
    """One of the queues; `part` is what each of them would have if slots were divided evenly."""
    guarantee = ((ANY_GPU, part),) if k % 2 else ((GPU_TYPE, part // 2),) if k % 20 == 0 else ()
    limit = ((ANY_GPU, part * 2),) if k % 10 == 3 and path.count("/") == 2 else ()
    weight, user_limit = 1.0 + k % 3, part if k % 10 == 7 else None
    return Queue(path, 0.0, guarantee, limit, weight, share_users=k % 3 == 0, user_limit=user_limit)


def _typed(node: Node, k: int) -> Node:
    return replace(node, gpu_type=GPU_TYPE) if k % 4 == 0 else node


def _on_one_type(job: Job, nodes: dict[NodeName, Node]) -> Job:
    """The job without the workers on nodes of another type than that of its first one."""
    gpu_type = nodes[job.workers[0].node].gpu_type
    return replace(job, workers=tuple(w for w in job.workers if nodes[w.node].gpu_type == gpu_type), min_workers=1)


def run(
    nodes: int = NODES, count: int = QUEUES, users: int = USERS, passes: int = PASSES, quick: bool = False
) -> list[Figure]:
    """`quick`: on a small cluster."""
    if quick:
        return run(*QUICK)
    pair = (TypedSite(nodes, random.Random(1), users), QueuedSite(nodes, random.Random(1), users, count))
    gc_pauses.keep(gc_pauses.MANY)
    figures = _compared("full pass", [[site.full_pass() for site in pair] for _ in range(FULL_PASSES)])
    for site in pair:
        site.settle()
    figures += _compared("full pass, settled", [[site.full_pass() for site in pair] for _ in range(FULL_PASSES)])
    happenings: tuple[tuple[str, Callable[[Site], None]], ...] = (("arrival", Site.arrive), ("exit", Site.end))
    for what, happen in happenings:
        figures += _compared(f"pass after one {what}", [[_after(site, happen) for site in pair] for _ in range(passes)])
    return figures


def _after(site: Site, happen: Callable[[Site], None]) -> float:
    happen(site)
    return site.plan()


def _compared(what: str, taken: list[list[float]]) -> list[Figure]:
    """Times without and with queues, and what queues cost."""
    without, queued = [pair[0] for pair in taken], [pair[1] for pair in taken]
    ratio = statistics.median(queued) / statistics.median(without)
    return [
        Figure(f"{what}: without queues, p50", median(without), "ms"),
        Figure(f"{what}: with queues, p50", median(queued), "ms", note=f"p99 {percentile(queued, 0.99):.0f} ms"),
        Figure(f"{what}: with queues ÷ without", ratio, "×", RATIO_MAX),
    ]
