"""Slots and nodes, read from the world at every scrape."""

from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping

from scheduler.metrics.families import Families
from scheduler.metrics.metric import Metric
from scheduler.model.booking import BookingState
from scheduler.model.foreign import NO_FOREIGN
from scheduler.model.ids import NodeName
from scheduler.model.job_state import JobState
from scheduler.model.node import Node, NodeHealth, NodeIntent
from scheduler.model.node_usage import NO_USAGE
from scheduler.model.observation import SlotLoad
from scheduler.model.slot import SlotClosure
from scheduler.model.stray import Stray
from scheduler.model.worker import Worker
from scheduler.model.world import World

#: Types of slots whose node names none.
GPU, CPU = "gpu", "cpu"

SLOT_METRICS = (
    Metric(
        "sched_slots",
        "gauge",
        ("node", "type", "state"),
        "Physical slots by state; the states add up to all slots: used, releasing (held by leaving workers), foreign "
        "(used outside this scheduler), reserved (free, for a job), free, unhealthy (not held, and itself unhealthy or "
        "on a node that is down or quarantined), unavailable (not held, and unreadable or on a node that is closed or "
        "cordoned).",
    ),
    Metric(
        "sched_closed_slots",
        "gauge",
        ("node", "closure"),
        "Slots that take no new workers although their node does, held or not: FOREIGN (others use them), UNHEALTHY "
        "(broken or gone), UNREADABLE (the driver does not answer). Only nodes that have GPUs or such slots.",
    ),
    Metric(
        "sched_oversold_slots",
        "gauge",
        ("node", "type", "state"),
        "Slots beyond the physical ones, for jobs that allow sharing, by the same states; only oversold nodes.",
    ),
    Metric(
        "sched_crowded_slots",
        "gauge",
        ("node",),
        "Slots whose load exceeded a limit of overselling; only oversold nodes.",
    ),
    Metric(
        "sched_utilization_ratio",
        "gauge",
        (),
        "Share of slots held by workers, of all slots on nodes that are up; 0 without nodes.",
    ),
    Metric(
        "sched_busy_slots",
        "gauge",
        ("node", "type"),
        "Sum of the utilization of slots, from 0 to 1 each, read from NVML for GPUs and from the kernel for CPU slots; "
        "on Kubernetes only of oversold nodes, from the DCGM exporter and the metrics API.",
    ),
    Metric(
        "sched_measured_slots",
        "gauge",
        ("node", "type"),
        "Slots with known utilization: the denominator for sched_busy_slots.",
    ),
    Metric("sched_nodes", "gauge", ("health", "intent"), "Nodes by health and intent."),
    Metric(
        "sched_awaited_slots",
        "gauge",
        ("state",),
        "Slots that workloads outside this scheduler wait for: waiting, or ignored (did not use free slots).",
    ),
    Metric("sched_bookings", "gauge", ("state",), "Bookings by state."),
    Metric("sched_booked_slots", "gauge", ("state",), "Slots of bookings by state."),
)

_Held = Tally[tuple[NodeName, bool]]


def add_slots(families: Families, world: World) -> None:
    """Slots by node, and what follows from them."""
    reserved, strays = _reserved(world), _slots_of(world.strays.values())
    releasing = _slots_of([*world.releasing(_leaving(world)), *world.releasing_strays()])
    total = held = 0
    slots, oversold = families["sched_slots"], families["sched_oversold_slots"]
    for node in world.nodes.values():
        name, kind = node.name, slot_type(node)
        usage = world.usage.get(name, NO_USAGE)
        used = min(node.slots, usage.slots + strays[name, False])
        closed = world.closed_unheld(node)
        left = max(0, node.slots - used - closed.total())
        foreign = min(left, world.foreign.get(name, NO_FOREIGN).slots) + closed.pop(SlotClosure.FOREIGN, 0)
        slots.add([name, kind, "foreign"], foreign)
        for state, count in _split(
            node, node.slots - foreign, used, releasing[name, False], reserved[name, False], closed
        ):
            slots.add([name, kind, state], count)
        if node.has_gpus or node.closed_slots:
            _add_closed(families, node)
        if node.health is NodeHealth.UP:
            total += node.slots
            held += used
        if node.extra_slots or usage.slots_shared:
            shared = min(node.extra_slots, usage.slots_shared + strays[name, True])
            for state, count in _split(node, node.extra_slots, shared, releasing[name, True], reserved[name, True], {}):
                oversold.add([name, kind, state], count)
            families["sched_crowded_slots"].add([name], len(world.crowded.get(name, ())))
    families["sched_utilization_ratio"].add([], held / total if total else 0.0)
    _add_nodes(families, world)
    _add_claims(families, world)


def add_loads(families: Families, world: World, loads: Mapping[NodeName, tuple[SlotLoad, ...]]) -> None:
    """How busy slots are, where that is known."""
    for name, readings in loads.items():
        node = world.nodes.get(name)
        busy = [load.utilization for load in readings if load.utilization is not None]
        if node is not None and busy:
            families["sched_busy_slots"].add([name, slot_type(node)], sum(busy))
            families["sched_measured_slots"].add([name, slot_type(node)], len(busy))


def slot_type(node: Node) -> str:
    """The type of its GPUs, or what its slots are where it has no name."""
    return node.gpu_type or (GPU if node.has_gpus else CPU)


def _add_closed(families: Families, node: Node) -> None:
    closed = Tally(each.closure for each in node.closed_slots)
    for closure in SlotClosure:
        families["sched_closed_slots"].add([node.name, closure], closed[closure])


def _split(
    node: Node, slots: int, used: int, leaving: int, reserved: int, closed: Mapping[SlotClosure, int]
) -> Iterator[tuple[str, int]]:
    """Slots that others do not hold, by state. `closed`: how many that nobody holds, and why."""
    releasing = min(used, leaving)
    broken, unreadable = closed.get(SlotClosure.UNHEALTHY, 0), closed.get(SlotClosure.UNREADABLE, 0)
    left = slots - used - broken - unreadable
    held = min(left, reserved) if node.schedulable else 0
    unhealthy = node.health is NodeHealth.DOWN or node.intent is NodeIntent.QUARANTINED
    yield "used", used - releasing
    yield "releasing", releasing
    yield "reserved", held
    yield "free", left - held if node.schedulable else 0
    yield "unhealthy", broken + (left if unhealthy else 0)
    yield "unavailable", unreadable + (left if not (node.schedulable or unhealthy) else 0)


def _reserved(world: World) -> _Held:
    """Slots held for waiting jobs, by node and whether they are shared ones."""
    slots: _Held = Tally()
    for job in world.reserved.values():
        for name, workers in job.reservation:
            slots[name, job.reservation_shared] += workers * job.shape.slots
        for name, workers in job.fixed_reservation if job.spec.fixed is not None else ():
            slots[name, False] += workers * (job.spec.fixed.shape.slots if job.spec.fixed else 0)
    return slots


def _leaving(world: World) -> Iterator[Worker]:
    """Workers that were asked to leave."""
    for job in world.leaving.values():
        yield from (worker for worker in job.all_workers if job.state is JobState.STOPPING or not worker.wanted)


def _slots_of(holders: Iterable[Worker | Stray]) -> _Held:
    """Slots that they hold, by node and whether they are shared ones."""
    slots: _Held = Tally()
    for holder in holders:
        slots[holder.node, holder.shared] += len(holder.slot_ids)
    return slots


def _add_nodes(families: Families, world: World) -> None:
    nodes = Tally((node.health, node.intent) for node in world.nodes.values())
    for health in NodeHealth:
        for intent in NodeIntent:
            families["sched_nodes"].add([health, intent], nodes[health, intent])


def _add_claims(families: Families, world: World) -> None:
    awaited = Tally({"waiting": 0, "ignored": 0})
    for each in world.demands:
        awaited["waiting" if each.ignored_until is None else "ignored"] += each.demand.shape.slots
    for state, slots in awaited.items():
        families["sched_awaited_slots"].add([state], slots)
    for state in (BookingState.PLANNED, BookingState.OPEN):
        bookings = [booking for booking in world.bookings.values() if booking.state is state]
        families["sched_bookings"].add([state], len(bookings))
        families["sched_booked_slots"].add([state], sum(booking.slots for booking in bookings))
