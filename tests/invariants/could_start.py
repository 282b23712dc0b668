"""Whether a waiting job could start at once, judged by the world alone."""

from scheduler.model.job import Job
from scheduler.model.job_state import StopReason
from scheduler.model.node import Node
from scheduler.model.queue_tree import chain, nearest
from scheduler.model.world import World as Snapshot
from scheduler.policy.snapshot.order import Order
from tests.invariants.free import free_slots
from tests.invariants.queues import whose


def could_start(job: Job, size: int, snapshot: Snapshot, order: Order, promised: int) -> bool:
    """Whether what strictly less important preemptible jobs hold would do, on nodes of one GPU type.

    Free slots help unless somebody waits before it, or there are queues; among these, only what jobs of its own queue
    hold helps. What is reserved, leaving, booked, awaited by others or one of the
    `promised` slots counts as not available, nor does a GPU type of which its queues are limited, so that it errs
    towards False.
    """
    if job.shape.cpus or job.shape.memory_mib or snapshot.booking_of(job) is not None:
        return False
    beside = _places_of_fixed(job, snapshot)
    if beside is None:
        return False
    first = not snapshot.queues and order.queue(snapshot.queued.values())[0].id == job.id
    around = chain(snapshot.queues, nearest(snapshot.queues, job.spec.queue))
    limited = {gpu_type for queue in around for gpu_type, _ in queue.limit}
    room: dict[str | None, int] = {}
    for node in snapshot.nodes.values():
        if node.schedulable and node.suits(job.shape) and node.gpu_type not in limited:
            fit = _usable(node, job, snapshot, order, free_too=first) // job.shape.slots
            room[node.gpu_type] = room.get(node.gpu_type, 0) + fit
    booked = sum(booking.slots for booking in snapshot.bookings.values())
    awaited = sum(each.demand.shape.slots for each in snapshot.demands)
    return max(room.values(), default=0) >= size + beside + -(-(booked + awaited + promised) // job.shape.slots)


def _places_of_fixed(job: Job, snapshot: Snapshot) -> int | None:
    """Places of other workers that its fixed group takes at most; None: that is not so easily told."""
    group = job.spec.fixed
    if group is None:
        return 0
    suits_all = all(node.suits(group.shape) for node in snapshot.nodes.values() if node.suits(job.shape))
    if group.shape.cpus or group.shape.memory_mib or group.shape.slots > job.shape.slots or not suits_all:
        return None
    return group.replicas if group.shape.slots else 0


def _usable(node: Node, job: Job, snapshot: Snapshot, order: Order, *, free_too: bool) -> int:
    free = free_slots(snapshot, node)
    held = sum(
        count * other.shape.slots
        for other in snapshot.queued.values()
        if other.id != job.id and not other.reservation_shared
        for name, count in other.reservation
        if name == node.name
    )
    held += sum(
        count * other.spec.fixed.shape.slots
        for other in snapshot.queued.values()
        if other.id != job.id and other.spec.fixed is not None
        for name, count in other.fixed_reservation
        if name == node.name
    )
    takeable = sum(
        len(worker.slot_ids) - len(node.closed_among(worker.slot_ids))
        for other in snapshot.active.values()
        if other.spec.preemptible
        and not other.finishing
        and other.stop_reason is not StopReason.CANCELLED
        and order.more_important(job, other)
        and (not snapshot.queues or whose(other, snapshot) == whose(job, snapshot))
        and snapshot.booking_of(other) is None
        for worker in other.all_workers
        if worker.node == node.name and not worker.shared
    )
    return (free if free_too else min(free, 0)) - held + takeable
