"""Invariants of a world after every tick."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from scheduler.model.ids import NodeName, WorkerId
from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.model.node import CPU_EPSILON
from scheduler.model.node_usage import NO_USAGE, mask_of
from scheduler.model.worker import Desired, Worker, WorkerState
from scheduler.model.world import World

_SIZED = frozenset({JobState.STARTING, JobState.RUNNING, JobState.RESIZING})


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken invariant: its id, and one line that says where."""

    invariant: str
    detail: str


def check_world(world: World, now: float) -> list[Violation]:
    """Violations of capacity (I1), bounds (I2), uniqueness (I4), fixed groups (I12), and of the world's index (INDEX).

    Strays are not counted: one that returns after its slots were given out is a fact of the cluster, not a fault here.
    `now` is in unix seconds.
    """
    return [
        *_placing(world),
        *_sharing(world),
        *_uniqueness(world),
        *(violation for job in world.all_jobs() for violation in _job(job, now)),
        *_index(world),
    ]


def _workers(world: World) -> Iterator[Worker]:
    for job in world.all_jobs():
        yield from job.all_workers


def _placing(world: World) -> Iterator[Violation]:
    masks: dict[NodeName, int] = {}
    cpus: dict[NodeName, float] = {}
    memory: dict[NodeName, int] = {}
    for worker in _workers(world):
        node = world.nodes.get(worker.node)
        if node is None:
            yield Violation("I1", f"worker {worker.id} is on node {worker.node}, which does not exist")
            continue
        mask = mask_of(worker.slot_ids)
        own = 0 if worker.shared else mask
        if mask.bit_count() != len(worker.slot_ids) or own & masks.get(node.name, 0):
            yield Violation("I1", f"worker {worker.id} holds a slot of {node.name} twice")
        if mask >> node.slots:
            yield Violation("I1", f"worker {worker.id} holds slots {worker.slot_ids} of {node.slots} on {node.name}")
        masks[node.name] = masks.get(node.name, 0) | own
        cpus[node.name] = cpus.get(node.name, 0.0) + worker.cpus
        memory[node.name] = memory.get(node.name, 0) + worker.memory_mib
    for name in masks:
        node = world.nodes[name]
        if cpus[name] > 0 and cpus[name] > node.cpus + CPU_EPSILON:
            yield Violation("I1", f"{cpus[name]:g} of {node.cpus:g} CPUs are used on {name}")
        if memory[name] > 0 and memory[name] > node.memory_mib:
            yield Violation("I1", f"{memory[name]} of {node.memory_mib} MiB are used on {name}")


def _sharing(world: World) -> Iterator[Violation]:
    """Only jobs that accept it share slots, with all their workers, and those that stay fit the extra slots."""
    given: Counter[NodeName] = Counter()
    for job in world.active.values():
        wanted = job.wanted_workers
        if not any(worker.shared for worker in wanted):
            continue
        if not job.shape.oversell:
            yield Violation("I1", f"job {job.id} shares slots and does not accept it")
        if not all(worker.shared for worker in wanted):
            yield Violation("I1", f"job {job.id} has slots of its own and shared ones")
        if job.state in _SIZED and not job.finishing:
            given.update(name for worker in wanted for name in [worker.node] * len(worker.slot_ids))
    for name, slots in given.items():
        extra = world.nodes[name].extra_slots if name in world.nodes else 0
        if slots > extra:
            yield Violation("I1", f"{slots} slots of {name} are shared beyond the physical ones, of {extra}")


def _uniqueness(world: World) -> Iterator[Violation]:
    seen: set[WorkerId] = set()
    for job in world.all_jobs():
        for worker in job.all_workers:
            if worker.id in seen:
                yield Violation("I4", f"worker {worker.id} lives twice")
            seen.add(worker.id)
            if worker.job_id != job.id:
                yield Violation("I4", f"worker {worker.id} of job {worker.job_id} is listed under job {job.id}")
            if not worker.state.live:
                yield Violation("I4", f"worker {worker.id} of job {job.id} is {worker.state}, yet listed as live")


def _job(job: Job, now: float) -> Iterator[Violation]:
    if not 1 <= job.min_workers <= job.max_workers:
        yield Violation("I2", f"job {job.id} has bounds {job.min_workers} to {job.max_workers}")
    if job.all_workers and not job.state.active:
        yield Violation("I4", f"job {job.id} is {job.state} and has workers at {now:.3f}")
    if job.fixed_workers:
        yield from _fixed_group(job)
    if job.state not in _SIZED or job.finishing:
        return
    size = len(job.wanted_workers)
    if not job.min_workers <= size <= job.max_workers:
        yield Violation("I2", f"job {job.id} has {size} workers, not {job.min_workers} to {job.max_workers}")
    ranks = [worker.rank for worker in job.members]
    # a member that is gone leaves a gap until the next generation can be published
    complete = len(ranks) == job.published_size
    if len(set(ranks)) < len(ranks) or (complete and ranks != list(range(len(ranks)))):
        yield Violation("I4", f"job {job.id} has ranks {ranks}")


def _fixed_group(job: Job) -> Iterator[Violation]:
    """Fixed workers start before the other workers, and stay until all of these are gone."""
    group = job.spec.fixed
    places = [worker.fixed_index for worker in job.fixed_workers]
    if group is None or len(set(places)) < len(places) or not set(places) <= set(range(group.replicas)):
        yield Violation("I2", f"job {job.id} has fixed workers {places}, which its group does not have")
    if not job.fixed_ready and any(worker.state is not WorkerState.PENDING for worker in job.workers):
        yield Violation("I12", f"job {job.id} has started workers before its fixed group is ready")
    if job.workers and any(worker.desired is Desired.STOP for worker in job.fixed_workers):
        yield Violation("I12", f"job {job.id} lets its fixed group go before its other workers are gone")


def _index(world: World) -> Iterator[Violation]:
    placed = {
        "queued": (world.queued, {JobState.QUEUED}),
        "suspended": (world.suspended, {JobState.SUSPENDED}),
        "active": (world.active, _SIZED | {JobState.STOPPING}),
    }
    for name, (jobs, states) in placed.items():
        for job_id, job in jobs.items():
            if job.id != job_id or job.state not in states:
                yield Violation("INDEX", f"job {job.id} in state {job.state} stands under {job_id} among {name}")
    found = World.of(world.all_jobs(), ())
    for name in ("reserved", "leaving", "unexplained"):
        kept, true = getattr(world, name), getattr(found, name)
        for job_id in kept.keys() ^ true.keys():
            yield Violation("INDEX", f"job {job_id} is {'missing' if job_id in true else 'wrongly'} among {name}")
    usage = dict.fromkeys(world.usage, NO_USAGE)
    for worker in _workers(world):
        usage[worker.node] = usage.get(worker.node, NO_USAGE).plus(worker)
    for node, true in usage.items():
        kept = world.usage.get(node, NO_USAGE)
        if replace(kept, cpus=true.cpus) != true or abs(kept.cpus - true.cpus) > CPU_EPSILON:
            yield Violation("INDEX", f"usage of {node} is kept as {kept} and is {true}")
    held_again = {node: mask_of(true.held_again) for node, true in usage.items() if true.held_again}
    if world.held_again != held_again:
        yield Violation("INDEX", f"slots held twice are kept as {world.held_again} and are {held_again}")
