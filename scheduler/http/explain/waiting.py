"""Why a job waits."""

from typing import assert_never

from scheduler.config import PolicySettings
from scheduler.http.away import those_closed, why_away
from scheduler.http.explain.room import free_extra, free_slots
from scheduler.http.explain.words import job_name
from scheduler.http.feasible import most_workers, needs, needs_fixed, wishes
from scheduler.model.job import Job, Placement, WaitReason
from scheduler.model.node import Node
from scheduler.model.shape import WorkerShape
from scheduler.model.world import World
from scheduler.policy.check_plan import FIXED_SIZES


def why_waiting(job: Job, reason: WaitReason, world: World, settings: PolicySettings, now: float) -> str:
    """The sentence for the reason."""
    size = job.preferred_workers if settings.name in FIXED_SIZES else job.min_workers
    need = f"it needs {needs(job.spec, size)}{needs_fixed(job.spec)}"
    suitable = [node for node in world.nodes.values() if node.suits(job.shape)]
    free = sum(free_slots(node, world) for node in suitable if node.schedulable)
    match reason:
        case WaitReason.SUBMITTED:
            return "Waits for the next look at the queue; it was submitted or resumed just now."
        case WaitReason.INSUFFICIENT_SLOTS:
            behind = f" It is behind {job_name(job.wait_for, world)}." if job.wait_for is not None else ""
            return (
                f"Waits for free slots: {need}, and {free} of {sum(node.slots for node in suitable)} slots that "
                f"suit it are free{_to_share(job, suitable, world)}. Nothing less important holds enough to make room "
                f"for it.{behind}"
            )
        case WaitReason.WAITING_FOR_VICTIMS:
            held = _places(job.reservation)
            return f"Starts as soon as {_who_leaves(job, world)} have left: {held} held for it and being freed."
        case WaitReason.BEHIND_RESERVATION:
            return (
                f"Would fit, but waits behind {job_name(job.wait_for, world)}, for which slots are held: {need}, and "
                "starting now could delay it. A time limit that ends sooner, or an elastic job, could fill the gap."
            )
        case WaitReason.BACKOFF:
            pause_seconds = max(0.0, job.not_before - now)
            return f"Starts again in {pause_seconds:.0f} s, after a failure: {job.detail or 'a worker failed'}."
        case WaitReason.NO_MATCHING_NODE:
            lacking = wishes(_lacking(job, world))
            return f"No node has {lacking or 'what it asks for'}: add such a node, or submit it without."
        case WaitReason.EXCEEDS_CLUSTER:
            total = sum(node.slots for node in suitable)
            besides = ", or less beside its fixed group" if job.spec.fixed is not None else ""
            return (
                f"Too large for the cluster: {need}, and the nodes that suit it have {total} slots and would hold "
                f"{most_workers(job.spec, suitable)} workers when empty{besides}. "
                f"Lower its minimum, or add nodes.{those_closed(suitable)}"
            )
        case WaitReason.NODES_UNAVAILABLE:
            away = ", ".join(f"{n.name} ({why_away(n)})" for n in suitable if not n.schedulable)
            return f"Waits for nodes that take no new workers now: {away or 'none is known'}."
        case WaitReason.BOOKED_LATER | WaitReason.BOOKING_FULL:
            return _why_booked(job, need, world, now)
        case WaitReason.BEHIND_BOOKING:
            return (
                f"Would fit, but could not be out of booked slots in time: {need}. A time limit that ends before the "
                'booking starts, or an elastic job, could use them ("sched bookings" lists them).'
            )
        case WaitReason.POLICY_WITHOUT_FIXED:
            return f"Waits for another policy: {settings.name}, which is in force, knows nothing of fixed groups."
        case WaitReason.BEHIND_FOREIGN:
            return f"Would fit, but others than this scheduler's jobs wait for that room: {need}."
        case _:
            assert_never(reason)


def _lacking(job: Job, world: World) -> WorkerShape:
    """The shape of its workers, or of fixed ones where these are what no node suits."""
    fixed, nodes = job.spec.fixed, world.nodes.values()
    return job.shape if fixed is None or not any(node.suits(job.shape) for node in nodes) else fixed.shape


def _to_share(job: Job, suitable: list[Node], world: World) -> str:
    """What a job that accepts to share finds, and why it may be less than it seems."""
    if not job.shape.oversell:
        return ""
    free = sum(free_extra(node, world) for node in suitable if node.schedulable)
    crowded = sum(len(world.crowded.get(node.name, ())) for node in suitable)
    busy = f", but nobody new may share {crowded} that are or were too busy" if crowded else ""
    return f", and {free} to share{busy}"


def _why_booked(job: Job, need: str, world: World, now: float) -> str:
    booking = world.booking_of(job)
    if booking is None:
        return f"Its booking {job.spec.booking} is over: it is looked at as an ordinary job next."
    if booking.start_at > now:
        return f"Waits for its booking {booking.name}, which starts in {booking.start_at - now:.0f} s."
    return f"Waits for other jobs of its booking {booking.name}, which has {booking.slots} slots: {need}."


def _who_leaves(job: Job, world: World) -> str:
    other = world.job(job.wait_for) if job.wait_for is not None else None
    equal = other is not None and other.priority >= job.priority
    return "workers of jobs that share with it" if equal else "less important jobs"


def _places(placement: Placement) -> str:
    if not placement:
        return "slots are"
    workers = sum(count for _, count in placement)
    nodes = ", ".join(node for node, _ in placement[:5])
    return f"room for {workers} worker{'s' if workers > 1 else ''} on {nodes} is"
