"""One decision of the planner alone, from 100 to 12,500 nodes × 8 slots: all slots used, jobs in proportion.

Per node 0.8 running elastic jobs of 10 workers on average, and 8 waiting jobs of many shapes, sizes and priorities.
What a plan says is done at once (who leaves is gone at the next pass), so that the world goes on as a real one does.
Then the same on 5,000 nodes for other mixes of priorities and worker shapes.
Processor time of one core; making the worlds is not counted.
"""

import random
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from benchmarks.figure import Figure, median, percentile
from scheduler.config import PolicySettings
from scheduler.engine.timing import gc_pauses
from scheduler.model.ids import JobId, NodeName, worker_id
from scheduler.model.job import Job, JobSpec, Placement, Runtime
from scheduler.model.job_state import JobState, WaitReason
from scheduler.model.node import Node
from scheduler.model.plan import Grow, Plan, Release, Reserve, Shrink, Start, StopJob
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import Desired, Worker, WorkerState
from scheduler.model.world import Changes, World
from scheduler.policy.planner import Planner

SIZES = (100, 1_000, 5_000, 12_500)
SLOTS = 8
RUNNING_PER_NODE, WAITING_PER_NODE = 0.8, 8
PASSES = 200
#: What others published, each for its own hardware and workload.
PUBLISHED = {
    100: "KAI: 149 ms for 100 nodes and 500 jobs",
    1_000: "Armada: 1.3 s for 1,000 nodes and 320,000 jobs",
}
PUBLISHED_RECLAIM = {1_000: "KAI: 76 s for 1,000 nodes"}
#: For the largest cluster.
FULL_MS, CHANGE_MS = 1000.0, 50.0
_START = 1_000_000.0
_SHAPES = tuple(
    WorkerShape(slots=slots, cpus=float(cpus), memory_mib=memory)
    for slots, cpus, memory in ((1, 0, 0), (1, 4, 8192), (2, 8, 0), (4, 16, 65536), (8, 32, 0))
)


@dataclass(frozen=True)
class Mix:
    """How many different priorities and worker shapes jobs have; None: the few of all other figures."""

    priorities: int | None = None
    shapes: int | None = None

    @property
    def name(self) -> str:
        """For people."""
        kinds = ((self.priorities, "priority", "priorities"), (self.shapes, "shape", "shapes"))
        return ", ".join(f"{count:,} {one if count == 1 else many}" for count, one, many in kinds if count is not None)


MIXES = (Mix(priorities=1), Mix(priorities=10), Mix(priorities=1_000), Mix(shapes=1), Mix(shapes=50))
MIXES_NODES, MIXES_PASSES = 5_000, 50


class Site:
    """A full cluster and its planner."""

    def __init__(self, nodes: int, dice: random.Random, mix: Mix | None = None) -> None:
        self.dice = dice
        self.mix = mix or Mix()
        self.now = _START
        self.planner = Planner(PolicySettings(), time.monotonic)
        #: Jobs that the last plan took from.
        self._leaving: list[JobId] = []
        self._numbers = iter(range(1, 10**9))
        running = self._running(nodes, round(nodes * RUNNING_PER_NODE))
        waiting = [self.waiting(priority=dice.randrange(6)) for _ in range(nodes * WAITING_PER_NODE)]
        self.world = World.of(running + waiting, [_node(k) for k in range(nodes)])

    def plan(self) -> float:
        """Plan once and do what the plan says; gives the processor time of planning, in milliseconds."""
        with gc_pauses.paused():
            began = time.process_time()
            made = self.planner.plan(self.world, self.now)
            taken = (time.process_time() - began) * 1000
            self.world = enacted(self.world, made, self._leaving, self.now)
        self._leaving = [action.job_id for action in made.actions if isinstance(action, StopJob | Shrink)]
        self.now += 1.0
        return taken

    def arrive(self, priority: int | None = None, workers: int | None = None) -> None:
        """A job comes; of any priority, so that every other one takes slots from others."""
        priority = self.dice.randrange(10) if priority is None else priority
        job = self.waiting(priority)
        if workers is not None:
            spec = replace(job.spec, shape=_SHAPES[0])
            job = replace(job, spec=spec, min_workers=workers, max_workers=workers)
        self.world = self.world.evolve(Changes(jobs=(job,)))

    def end(self) -> None:
        """A running job is done."""
        job = self.dice.choice([job for job in self.world.active.values() if job.state is JobState.RUNNING])
        self.world = self.world.evolve(Changes(jobs=(replace(job, state=JobState.SUCCEEDED, workers=()),)))

    def settle(self) -> None:
        """Until what is leaving has left, and what waits for it runs."""
        for _ in range(50):
            before = self.world
            self.plan()
            if self.world is before:
                return

    def waiting(self, priority: int) -> Job:
        dice = self.dice
        workers = dice.choice((1, 1, 2, 4, 4, 8, 16, 32))
        elastic = dice.random() < 0.7
        limit = dice.choice((None, None, 3600.0, 4 * 3600.0, 24 * 3600.0))
        bounds = (workers, workers * 4 if elastic else workers)
        at = self.now - dice.randrange(86400) if self.now == _START else self.now
        shape = dice.choice(_SHAPES) if self.mix.shapes is None else _shape(dice.randrange(self.mix.shapes))
        priority = self._priority(priority)
        return _job(next(self._numbers), shape, bounds, priority, at, limit, dice.random() < 0.9)

    def _priority(self, usual: int) -> int:
        return usual if self.mix.priorities is None else self.dice.randrange(self.mix.priorities)

    def _running(self, nodes: int, count: int) -> list[Job]:
        """Jobs that hold every slot, most of them on as few nodes as they need."""
        slots = [(k, slot) for k in range(nodes) for slot in range(SLOTS)]
        jobs = []
        for left in range(count, 0, -1):
            size = len(slots) if left == 1 else min(len(slots) - left + 1, self.dice.randrange(2, 19))
            priority, at = self._priority(self.dice.randrange(5, 10)), self.now - self.dice.randrange(86400)
            limit = self.dice.choice((None, None, 2 * 86400.0))
            job = _job(next(self._numbers), _SHAPES[0], (max(size // 2, 1), size * 2), priority, at, limit, True)
            workers = tuple(_worker(job, n, _name(k), (slot,), at) for n, (k, slot) in enumerate(slots[-size:], 1))
            del slots[-size:]
            jobs.append(_started(replace(job, workers=workers, next_ordinal=size + 1), at))
        return jobs


def enacted(world: World, made: Plan, leaving: list[JobId], now: float) -> World:
    """The world in which those who were leaving already are gone and the plan is done; newcomers are ready at once."""
    jobs: dict[JobId, Job] = {}
    for job_id, waiting in made.waiting.items():
        jobs[job_id] = replace(world.queued[job_id], wait_reason=waiting.reason, wait_for=waiting.for_job)
    used = {name: world.usage[name].slot_mask for name in _taken(made) if name in world.usage}
    for action in made.actions:
        job = jobs.get(action.job_id) or world.job(action.job_id)
        assert job is not None
        match action:
            case StopJob():
                job = replace(job, state=JobState.STOPPING)
            case Shrink():
                workers = tuple(replace(w, desired=Desired.STOP) if w.id in action.workers else w for w in job.workers)
                job = replace(job, workers=workers, last_resize_at=now)
            case Reserve():
                job = replace(job, reservation=action.placement)
            case Release():
                job = replace(job, reservation=())
            case Start():
                job = _started(_with_workers(job, action.placement, used, now), now)
            case Grow():
                job = replace(_with_workers(job, action.placement, used, now), last_resize_at=now)
        jobs[job.id] = job
    for job in (world.active[job_id] for job_id in leaving if job_id in world.active):
        if job.state is JobState.STOPPING:
            back = WaitReason.SUBMITTED
            jobs[job.id] = replace(job, state=JobState.QUEUED, workers=(), queued_at=now, wait_reason=back)
        else:
            now_job, gone = jobs.get(job.id, job), job.leaving
            jobs[job.id] = replace(now_job, workers=tuple(w for w in now_job.workers if w not in gone))
    return world.evolve(Changes(jobs=tuple(jobs.values())))


def _taken(made: Plan) -> list[NodeName]:
    return [name for action in made.actions if isinstance(action, Start | Grow) for name, _ in action.placement]


def _with_workers(job: Job, placement: Placement, used: dict[NodeName, int], now: float) -> Job:
    workers = list(job.workers)
    ordinal = job.next_ordinal
    for name, count in placement:
        for _ in range(count):
            mask = used.get(name, 0)
            free = tuple(slot for slot in range(SLOTS) if not mask >> slot & 1)[: job.shape.slots]
            used[name] = mask | sum(1 << slot for slot in free)
            workers.append(_worker(job, ordinal, name, free, now))
            ordinal += 1
    return replace(job, workers=tuple(workers), next_ordinal=ordinal)


def _started(job: Job, at: float) -> Job:
    return replace(job, state=JobState.RUNNING, started_at=at, wait_reason=None, wait_for=None, reservation=())


def _job(
    number: int,
    shape: WorkerShape,
    bounds: tuple[int, int],
    priority: int,
    at: float,
    limit: float | None,
    preemptible: bool,
) -> Job:
    spec = JobSpec(
        "bench",
        ("train",),
        runtime=Runtime.ELASTIC,
        shape=shape,
        time_limit_seconds=limit,
        preemptible=preemptible,
    )
    return Job(JobId(number), spec, priority, *bounds, submitted_at=at, queued_at=at)


def _worker(job: Job, ordinal: int, name: NodeName, slot_ids: tuple[int, ...], at: float) -> Worker:
    return Worker(
        worker_id(job.id, ordinal),
        job.id,
        ordinal,
        name,
        name,
        slot_ids,
        at,
        cpus=job.shape.cpus,
        memory_mib=job.shape.memory_mib,
        state=WorkerState.READY,
        rank=ordinal,
        started_at=at,
        ready_at=at,
    )


def _shape(k: int) -> WorkerShape:
    """One of as many shapes as one likes; the first is one slot."""
    if k == 0:
        return _SHAPES[0]
    return replace(_SHAPES[k % len(_SHAPES)], cpus=float(k % 16 + 1), memory_mib=1024 * (k // 16 + 1))


def _name(k: int) -> NodeName:
    return NodeName(f"n{k:05d}")


def _node(k: int) -> Node:
    return Node(_name(k), f"10.{k // 65536}.{k // 256 % 256}.{k % 256}", SLOTS, cpus=128.0, memory_mib=1024 * 1024)


def run() -> list[Figure]:
    figures = [figure for nodes in SIZES for figure in _measure(nodes)]
    return figures + [figure for mix in MIXES for figure in _measure_mix(mix)]


def _measure(nodes: int) -> list[Figure]:
    site = Site(nodes, random.Random(1))
    gc_pauses.keep(gc_pauses.MANY)
    largest = nodes == SIZES[-1]
    there = f"{nodes:,} nodes"
    jobs = f"{len(site.world.active):,} running, {len(site.world.queued):,} waiting"
    note = "; ".join((jobs, *filter(None, [PUBLISHED.get(nodes)])))
    figures = [Figure(f"{there}: full pass", site.plan(), "ms", FULL_MS if largest else None, note=note)]
    site.settle()
    for what, happen in (("arrival", site.arrive), ("exit", site.end)):
        taken = _passes(site, happen)
        most = CHANGE_MS if largest else None
        figures.append(Figure(f"{there}: pass after one {what}, p50", median(taken), "ms"))
        figures.append(Figure(f"{there}: pass after one {what}, p99", percentile(taken, 0.99), "ms", most))
    site.settle()
    half = nodes * SLOTS // 2
    site.arrive(priority=100, workers=half)
    what, note = f"{there}: pass that reclaims {half:,} slots for one urgent job", PUBLISHED_RECLAIM.get(nodes, "")
    figures.append(Figure(what, site.plan(), "ms", note=note))
    memory_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figures.append(Figure(f"{there}: memory, with the world", memory_mib, "MiB", 1024 if largest else None))
    return figures


def _measure_mix(mix: Mix) -> list[Figure]:
    """A pass that sees the cluster for the first time, and passes after small changes."""
    site = Site(MIXES_NODES, random.Random(1), mix)
    there = f"{MIXES_NODES:,} nodes, {mix.name}"
    figures = [Figure(f"{there}: full pass", site.plan(), "ms")]
    site.settle()
    for what, happen in (("arrival", site.arrive), ("exit", site.end)):
        taken = _passes(site, happen, MIXES_PASSES)
        figures.append(Figure(f"{there}: pass after one {what}, p99", percentile(taken, 0.99), "ms"))
    return figures


def _passes(site: Site, happen: Callable[[], None], count: int = PASSES) -> list[float]:
    taken = []
    for _ in range(count):
        happen()
        taken.append(site.plan())
    return taken
