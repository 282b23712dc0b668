"""The subjects of one tick's inputs, and these inputs with subjects left out."""

import math
from collections.abc import Collection, Mapping
from dataclasses import replace

from scheduler.engine.ports import TickInputs
from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.node import NodeIntent
from scheduler.model.observation import NodeObservation, Observation, WorkerObservation
from scheduler.model.subject import Subject, SubjectKind
from scheduler.model.world import World

#: Slots that a machine may have.
_SLOTS = range(4096)
#: Number of jobs and nodes that may take twice as long as few.
TWICE_AS_LONG = 4000


def seconds_allowed(inputs: TickInputs, seconds: float) -> float:
    """How long deciding by these inputs may take, if `seconds` are allowed on a small cluster."""
    world = inputs.world
    size = len(world.nodes) + len(world.active) + len(world.queued) + len(inputs.inbox.jobs)
    return seconds * (1.0 + size / TWICE_AS_LONG)


def subjects_of(inputs: TickInputs) -> list[Subject]:
    """All subjects that may be left out, likeliest culprits first: the newest ones."""
    world, observation = inputs.world, inputs.observation
    jobs = {job.id for job in world.all_jobs()} | {job.id for job in inputs.inbox.jobs}
    jobs |= {seen.job_id for seen in observation.workers.values()} - set(world.held)
    asked = {intent.job_id for intent in inputs.inbox.intents}
    jobs |= {job_id for job_id in world.held if job_id in asked}  # to go on again
    bookings = {*world.bookings, *(booking.name for booking in inputs.inbox.bookings)}
    nodes = {node.name for node in world.nodes.values() if node.intent is not NodeIntent.HELD} | set(observation.nodes)
    return [
        *(Subject(SubjectKind.JOB, str(job_id)) for job_id in sorted(jobs, reverse=True)),
        *(Subject(SubjectKind.POD, demand.name) for demand in observation.demands),
        *(Subject(SubjectKind.BOOKING, name) for name in sorted(bookings)),
        *(Subject(SubjectKind.NODE, name) for name in sorted(nodes)),
    ]


def without_held(inputs: TickInputs) -> TickInputs:
    """The inputs without withheld subjects, and with nothing of held jobs except their presence."""
    world, observation = inputs.world, inputs.observation
    nodes = [node.name for node in world.nodes_apart() if node.intent is NodeIntent.HELD]
    if not (world.held or world.withheld or nodes):
        return inputs
    pods = {subject.name for subject in world.withheld if subject.kind is SubjectKind.POD}
    jobs = {*world.held, *(JobId(int(each.name)) for each in world.withheld if each.kind is SubjectKind.JOB)}
    seen = replace(
        observation,
        nodes={**observation.nodes, **_bare_nodes(observation.nodes, nodes, world)},
        workers={**observation.workers, **_plain_workers(observation.workers, jobs)},
        loads={name: loads for name, loads in observation.loads.items() if name not in nodes},
        demands=tuple(demand for demand in observation.demands if demand.name not in pods),
    )
    return replace(inputs, observation=seen, world=world.with_withheld(_still_seen(world, observation)))


def with_plain_node(inputs: TickInputs, name: NodeName) -> TickInputs:
    """The inputs with plenty of everything on this node and nothing special about it."""
    world, observation = inputs.world, inputs.observation
    plenty = {"cpus": 1e6, "memory_mib": 1 << 40, "labels": (), "gpu_type": None, "oversell": 1.0, "closed": ""}
    if name in world.nodes:
        node = replace(world.nodes[name], failures=(), closed_slots=(), accepted_faults=())
        nodes = {**world.nodes, name: replace(node, slots=_slots(node.slots), **plenty)}  # type: ignore[arg-type]
        world = replace(world, nodes=nodes, crowded={k: v for k, v in world.crowded.items() if k != name})
        world = world.with_foreign({k: v for k, v in world.foreign.items() if k != name}, world.demands)
    if name in observation.nodes:
        seen = observation.nodes[name]
        plain = NodeObservation(name, str(seen.host), _slots(seen.slots), up=bool(seen.up), **plenty)  # type: ignore[arg-type]
        loads = {k: v for k, v in observation.loads.items() if k != name}
        observation = replace(observation, nodes={**observation.nodes, name: plain}, loads=loads)
    return replace(inputs, world=world, observation=observation)


def _bare_nodes(
    seen: Mapping[NodeName, NodeObservation], names: Collection[NodeName], world: World
) -> dict[NodeName, NodeObservation]:
    """Held nodes, without free capacity; the capacity that workers hold there is counted by itself."""
    held = ((name, world.nodes[name]) for name in names if name in seen)
    return {
        name: NodeObservation(name, node.host, 0, up=bool(seen[name].up), closed=node.closed) for name, node in held
    }


def _plain_workers(
    seen: Mapping[WorkerId, WorkerObservation], jobs: Collection[JobId]
) -> dict[WorkerId, WorkerObservation]:
    """Workers of held jobs, with numbers that can be counted with."""
    return {
        worker_id: replace(
            worker,
            slot_ids=tuple(slot for slot in worker.slot_ids if slot in _SLOTS),
            cpus=_number(worker.cpus),
            memory_mib=int(_number(worker.memory_mib)),
        )
        for worker_id, worker in seen.items()
        if worker.job_id in jobs
    }


def _still_seen(world: World, observation: Observation) -> dict[Subject, str]:
    """Subjects that stay withheld as long as they exist."""
    pods = {demand.name for demand in observation.demands}
    jobs = {str(worker.job_id) for worker in observation.workers.values()}
    there = {SubjectKind.POD: pods, SubjectKind.JOB: jobs}
    return {subject: why for subject, why in world.withheld.items() if subject.name in there[subject.kind]}


def _slots(slots: object) -> int:
    return min(int(_number(slots)), len(_SLOTS))


def _number(value: object) -> float:
    """The number, or 0 where it is none to count with."""
    return float(value) if isinstance(value, int | float) and 0 <= value < math.inf else 0.0
