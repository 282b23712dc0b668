"""Whether the whole cluster can keep a new booking beside the existing ones."""

from collections import Counter
from collections.abc import Iterable, Mapping

from scheduler.model.booking import Booking
from scheduler.model.ids import NodeName
from scheduler.model.job import Job
from scheduler.model.node import Node
from scheduler.model.plan import Placing
from scheduler.policy.capacity.pools import placed_by
from scheduler.policy.capacity.resources import Amount, add, fit_in, nano_cpus, needs


def refusal(booking: Booking, standing: Iterable[Booking], nodes: Mapping[NodeName, Node], now: float) -> str | None:
    """Why the booking cannot be promised; None if it can. `now` is in unix seconds."""
    if booking.end_at <= now:
        return "its window has already ended"
    if not _fit_together([booking], nodes):
        return f"it needs {described(booking)}, and the suitable nodes have {_most_slots(booking, nodes)}"
    rivals = [each for each in standing if each.name != booking.name and each.overlaps(booking)]
    for moment in sorted({max(each.start_at, booking.start_at) for each in rivals}):
        meanwhile = [each for each in rivals if each.start_at <= moment < each.end_at]
        if not _fit_together([booking, *meanwhile], nodes):
            names = ", ".join(sorted(each.name for each in meanwhile))
            return f"it needs {described(booking)}, and the cluster does not have enough left beside booking {names}"
    return None


def described(booking: Booking) -> str:
    """The booked slots, in words."""
    shape = booking.shape
    each = "" if shape.slots == 1 else f" ({booking.workers} × {shape.slots})"
    gpu_type = f" of GPU type {shape.gpu_type}" if shape.gpu_type else ""
    labels = "".join(f" with {key}={value}" for key, value in shape.node_selector)
    return f"{booking.slots} slot{'' if booking.slots == 1 else 's'}{each}{gpu_type}{labels}"


def scarcest_first(bookings: Iterable[Booking], nodes: Mapping[NodeName, Node]) -> list[Booking]:
    """Bookings that can use fewer nodes first; then by start and name."""

    def key(booking: Booking) -> tuple[int, float, str]:
        return sum(node.suits(booking.shape) for node in nodes.values()), booking.start_at, booking.name

    return sorted(bookings, key=key)


def _most_slots(booking: Booking, nodes: Mapping[NodeName, Node]) -> str:
    """The most slots that nodes of one GPU type have, in words."""
    slots: dict[str | None, int] = {}
    for node in nodes.values():
        if node.suits(booking.shape):
            slots[node.gpu_type] = slots.get(node.gpu_type, 0) + node.slots
    return f"{max(slots.values(), default=0)}" + (" of one GPU type" if len(slots) > 1 else "")


def _fit_together(bookings: list[Booking], nodes: Mapping[NodeName, Node]) -> bool:
    """Whether empty nodes hold all of them at once, each on GPUs of one type."""
    return slots_kept(bookings, nodes, room_of(nodes.values())) == sum(booking.slots for booking in bookings)


def room_of(nodes: Iterable[Node]) -> dict[NodeName, Amount]:
    """Capacity of the nodes when empty."""
    return {node.name: (node.slots, nano_cpus(node.cpus), node.memory_mib) for node in nodes}


def slots_kept(bookings: Iterable[Booking], nodes: Mapping[NodeName, Node], room: Mapping[NodeName, Amount]) -> int:
    """Number of booked slots that this room holds at once, each booking on GPUs of one type."""
    return sum(allot(bookings, nodes, dict(room)).values())


def allot(
    bookings: Iterable[Booking],
    nodes: Mapping[NodeName, Node],
    room: dict[NodeName, Amount],
    idle: Mapping[NodeName, int] | None = None,
) -> Counter[NodeName]:
    """Take the needs of bookings out of the room, as far as it goes; returns their slots on each node.

    Of nodes with equal room, those with fewer `idle` slots come first.
    """
    slots = Counter[NodeName]()
    for booking in scarcest_first(bookings, nodes):
        slots.update(_allot_one(booking, nodes, room, idle or {}))
    return slots


def workers_of(action: Placing) -> int:
    """Number of workers that the action places, without a fixed group."""
    return sum(count for _, count in action.placement)


def pour(room: dict[NodeName, Amount], job: Job, action: Placing, sign: int) -> None:
    """Add what the action gives the job to the room, or with sign -1 subtract it."""
    for name, shape, count in placed_by(job, action):
        if name in room:
            room[name] = add(room[name], needs(shape, count), sign)


def _allot_one(
    booking: Booking, nodes: Mapping[NodeName, Node], room: dict[NodeName, Amount], idle: Mapping[NodeName, int]
) -> dict[NodeName, int]:
    """Take the booking's needs out of the room, roomiest nodes first, as far as it goes; returns the slots taken."""
    fits: dict[str | None, list[tuple[int, NodeName]]] = {}
    for name, amount in room.items():
        if nodes[name].suits(booking.shape):
            fits.setdefault(nodes[name].gpu_type, []).append((fit_in(needs(booking.shape), amount), name))
    totals = {kind: sum(fit for fit, _ in found) for kind, found in fits.items()}
    if not totals:
        return {}
    # of the types that have enough, the one with the least room leaves most to others
    enough = {kind: total for kind, total in totals.items() if total >= booking.workers}
    kind = min(enough or totals, key=lambda kind: (totals[kind] if enough else -totals[kind], kind or ""))
    left = booking.workers
    slots: dict[NodeName, int] = {}
    for fit, name in sorted(fits[kind], key=lambda found: (-found[0], idle.get(found[1], 0), found[1])):
        taken = min(fit, left)
        if taken <= 0:
            break
        room[name] = add(room[name], needs(booking.shape, taken), -1)
        slots[name] = taken * booking.shape.slots
        left -= taken
    return slots
