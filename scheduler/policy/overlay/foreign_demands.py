"""Room for foreign processes, in the terms of the planner.

A foreign demand stands in the queue as a placeholder job, more important than all jobs but those of bookings. Where it
would start, the room stays free until the cluster gives it to the process; where it would preempt, workers leave. The
plan for this world, without placeholders, is the plan for the real one.

A demand that no node would hold even without workers waits for foreign processes to end: no plan could help it, so
nothing is kept free for it.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from scheduler.model.foreign import Demand
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import JobSpec
from scheduler.model.job_state import StopReason
from scheduler.model.node import Node
from scheduler.model.plan import Plan
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import LeaveReason
from scheduler.model.world import Changes, World
from scheduler.policy.capacity.ledger import left_of_empty
from scheduler.policy.capacity.resources import fit_in, needs
from scheduler.policy.overlay.placeholders import DEMAND_PRIORITY, free_ids, without
from scheduler.policy.snapshot.placeholder import Placeholder

#: A label for nodes on which a demand may run; no node of a user has it.
LABEL = "\0demand"


def plan_beside_others(world: World, now: float, make: Callable[[World], Plan]) -> Plan:
    """The plan that `make` gives for a world without foreign demands, changed to make room for them."""
    demands = list(_served(world))
    if not demands:
        return make(world)
    numbered = zip(free_ids(world), demands, strict=False)
    placeholders = {job_id: _placeholder(job_id, demand, now) for job_id, demand in numbered}
    seen = world.evolve(Changes(jobs=tuple(placeholders.values()), nodes=tuple(_marked(world, demands))))
    return without(make(seen), placeholders, StopReason.FOREIGN, LeaveReason.FOREIGN)


def _served(world: World) -> Iterator[Demand]:
    """Demands that count, and for which workers could make room."""
    possible: dict[tuple[WorkerShape, frozenset[NodeName] | None], bool] = {}
    for demand in (awaited.demand for awaited in world.demands if awaited.ignored_until is None):
        kind = (demand.shape, demand.nodes)
        if kind not in possible:
            possible[kind] = any(_would_hold(world, node, demand) for node in world.nodes.values())
        if possible[kind]:
            yield demand


def _would_hold(world: World, node: Node, demand: Demand) -> bool:
    """Whether the node has room for it where it holds no workers."""
    if not (node.schedulable and demand.may_use(node.name) and node.suits(demand.shape)):
        return False
    return fit_in(needs(demand.shape), left_of_empty(node, world)) > 0


def _placeholder(job_id: JobId, demand: Demand, now: float) -> Placeholder:
    shape = demand.shape
    if demand.nodes is not None:
        shape = replace(shape, node_selector=tuple(sorted((*shape.node_selector, (LABEL, demand.name)))))
    place = float(-job_id)  # they are served in the order in which they are named
    return Placeholder(job_id, JobSpec("", (), shape=shape), DEMAND_PRIORITY, 1, 1, submitted_at=place, queued_at=now)


def _marked(world: World, demands: list[Demand]) -> Iterator[Node]:
    """Nodes with a label for each demand that may run there and not everywhere."""
    labels: dict[NodeName, list[tuple[str, str]]] = {}
    for demand in demands:
        for name in demand.nodes or ():
            labels.setdefault(name, []).append((LABEL, demand.name))
    for name, added in labels.items():
        if name in world.nodes:
            node = world.nodes[name]
            yield replace(node, labels=tuple(sorted((*node.labels, *added))))
