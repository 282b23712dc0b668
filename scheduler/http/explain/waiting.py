"""Why a job waits."""

from typing import assert_never

from scheduler.bounds import NAMED_MAX
from scheduler.config import PolicySettings
from scheduler.http.explain.feasible import most_workers, needs, needs_fixed, too_large, wishes
from scheduler.http.explain.node_reasons import those_closed, why_away
from scheduler.http.explain.queue_words import held_by_queues, who_gives, why_kept_by_queues
from scheduler.http.explain.room import away, away_text, closed_text, free_extra, free_slots
from scheduler.http.explain.words import are, job_name, keeper_name, lack_text, named
from scheduler.model.job import Job, Placement
from scheduler.model.job_state import WaitReason
from scheduler.model.node import Node
from scheduler.model.queue_tree import cannot_be_read, unreadable_of
from scheduler.model.shape import WorkerShape
from scheduler.model.words import counted
from scheduler.model.world import World
from scheduler.policy.capacity.ledger import View
from scheduler.policy.checks.plan import FIXED_SIZES
from scheduler.policy.explain.held_slots import Look
from scheduler.policy.explain.shortage import Lack, vacancies_of


def why_waiting(
    job: Job, reason: WaitReason, world: World, settings: PolicySettings, now: float, look: Look | None
) -> str:
    """The sentence for the reason; `look`: the planner's look at the world, if it was asked."""
    size = job.preferred_workers if settings.name in FIXED_SIZES else job.min_workers
    need = f"it needs {needs(job.spec, size)}{needs_fixed(job.spec)}"
    suitable = [node for node in world.nodes.values() if node.suits(job.shape)]
    free = sum(free_slots(node, world) for node in suitable if node.schedulable)
    match reason:
        case WaitReason.SUBMITTED:
            return "Waits for the next scheduling pass: it has just been submitted or resumed."
        case WaitReason.INSUFFICIENT_SLOTS:
            behind = f" It waits behind {job_name(job.wait_for, world)}." if job.wait_for is not None else ""
            return (
                f"Waits for free slots: {need}, and {free} of {sum(node.slots for node in suitable)} suitable slots "
                f"{are(free)} free{_kept(job, look, world)}{_to_share(job, suitable, world)}"
                f"{_what_lacks(job, size, world)}. {who_gives(world)} do not hold enough slots to make room for it."
                f"{held_by_queues(job, look)}{behind}"
                f"{away_text(away(job, world), world)}{closed_text(job.shape, world)}"
            )
        case WaitReason.WAITING_FOR_VICTIMS:
            held = _places(job.reservation)
            return f"Starts when {_who_leaves(job, world)} have left: {held} reserved for it and being freed."
        case WaitReason.BEHIND_RESERVATION:
            return (
                f"Would fit, but waits behind {job_name(job.wait_for, world)}, for which slots are reserved: "
                f"{need}, and starting now could delay that job. A shorter time limit, or an elastic job, could fit."
            )
        case WaitReason.BACKOFF:
            pause_seconds = max(0.0, job.not_before - now)
            return f"Starts again in {pause_seconds:.0f} s after a failure: {job.detail or 'a worker failed'}."
        case WaitReason.NO_MATCHING_NODE:
            if not world.nodes:
                return "Waits for nodes: the cluster has none."
            lacking = wishes(_lacking(job, world))
            return f"No node has {lacking or 'what it requires'}: add such a node, or submit the job without it."
        case WaitReason.EXCEEDS_CLUSTER:
            return _why_too_large(job, need, suitable, world)
        case WaitReason.NODES_UNAVAILABLE:
            return _why_unavailable(job, world)
        case WaitReason.BOOKED_LATER | WaitReason.BOOKING_FULL:
            return _why_booked(job, need, world, now)
        case WaitReason.BEHIND_BOOKING:
            if kept := _kept(job, look, world):
                slots = sum(node.slots for node in suitable)
                held = f"{free} of {slots} suitable slots {are(free)} free{kept}"
                return f"Would fit, but on reserved slots: {need}, and {held}."
            return (
                f"Would fit, but could not leave the booked slots in time: {need}. An elastic job, or a "
                'time limit that ends before the booking starts, could use them ("sched bookings" lists bookings).'
            )
        case WaitReason.POLICY_WITHOUT_FIXED:
            return f"Waits for another policy: the current policy {settings.name} does not support fixed groups."
        case WaitReason.BEHIND_FOREIGN:
            return f"Would fit, but workloads outside this scheduler wait for these slots: {need}."
        case WaitReason.QUEUE_UNREADABLE:
            unread = unreadable_of(world.queues, job.spec.queue) or job.spec.queue
            return f"Waits because {cannot_be_read(unread)}, so that its limits are not known."
        case WaitReason.QUEUE_LIMIT | WaitReason.USER_LIMIT | WaitReason.NOT_GUARANTEED | WaitReason.BUDGET_SPENT:
            return why_kept_by_queues(job, reason, need)
        case _:
            assert_never(reason)


def _why_unavailable(job: Job, world: World) -> str:
    nodes = named([f"{node.name} ({why_away(node)})" for node in _closed(job, world)])
    if not nodes:
        return f"Waits for slots.{closed_text(job.shape, world)}"
    return f"Waits for nodes that are closed to new workers: {nodes}.{closed_text(job.shape, world)}"


def _why_too_large(job: Job, need: str, suitable: list[Node], world: World) -> str:
    fixed = job.spec.fixed
    for shape in (job.shape, *([fixed.shape] if fixed is not None else [])):
        worker = too_large(shape, [node for node in world.nodes.values() if node.suits(shape)])
        if worker:
            return f"Too large for every node: {worker}.{those_closed(suitable)}"
    most = counted(most_workers(job.spec, suitable), "worker")
    besides = ", or fewer with its fixed group" if fixed is not None else ""
    return (
        f"Too large for the cluster: {need}, and the suitable nodes have "
        f"{counted(sum(node.slots for node in suitable), 'slot')} and could hold {most} when empty{besides}. "
        f"Lower its minimum, or add nodes.{those_closed(suitable)}"
    )


def _what_lacks(job: Job, size: int, world: World) -> str:
    """The resources that are missing besides slots, if enough slots are free."""
    if job.spec.fixed is not None:
        return ""
    vacancies = vacancies_of(world)
    lack = vacancies.lack(job.shape, size, View.FREE)
    if lack is None or lack is Lack.SLOTS:
        return ""
    room = vacancies.fit(job.shape, View.FREE)
    return f", but {lack_text(lack, job.shape)}, so {room or 'none'} would fit"


def _kept(job: Job, look: Look | None, world: World) -> str:
    """The owner of most of the free capacity that the planner keeps."""
    kept = look.kept(job.shape)[:1] if look is not None else []
    return "".join(
        f", of which {count} {are(count)} reserved for {keeper_name(keeper, world)}" for keeper, count in kept
    )


def _closed(job: Job, world: World) -> list[Node]:
    """Nodes that suit any of its workers, fixed ones included, and accept no new ones."""
    shapes = [job.shape] if job.spec.fixed is None else [job.shape, job.spec.fixed.shape]
    nodes = world.nodes.values()
    return [node for node in nodes if not node.schedulable and any(node.suits(shape) for shape in shapes)]


def _lacking(job: Job, world: World) -> WorkerShape:
    """The shape of its workers, or that of its fixed ones if no node suits those."""
    fixed, nodes = job.spec.fixed, world.nodes.values()
    return job.shape if fixed is None or not any(node.suits(job.shape) for node in nodes) else fixed.shape


def _to_share(job: Job, suitable: list[Node], world: World) -> str:
    """The shared capacity for a job that accepts to share, and why it may be less than it seems."""
    if not job.shape.oversell:
        return ""
    free = sum(free_extra(node, world) for node in suitable if node.schedulable)
    crowded = sum(len(world.crowded.get(node.name, ())) for node in suitable)
    busy = f", except {crowded} that {are(crowded)} too busy for more workers" if crowded else ""
    return f", and {free} to share{busy}"


def _why_booked(job: Job, need: str, world: World, now: float) -> str:
    booking = world.booking_of(job)
    if booking is None:
        return f"Its booking {job.spec.booking} is over: the next pass treats it as an ordinary job."
    if booking.start_at > now:
        return f"Waits for its booking {booking.name}, which starts in {booking.start_at - now:.0f} s."
    slots = counted(booking.slots, "slot")
    return f"Waits for other jobs of its booking {booking.name}, which has {slots}: {need}."


def _who_leaves(job: Job, world: World) -> str:
    """The jobs whose workers are already leaving for it."""
    victims = [other.id for other in world.leaving.values() if any(w.leave_for == job.id for w in other.all_leaving)]
    if not victims:
        return "other workers"
    more = f" and {len(victims) - NAMED_MAX} more jobs" if len(victims) > NAMED_MAX else ""
    first = ", ".join(job_name(each, world) for each in sorted(victims)[:NAMED_MAX])
    return f"the workers of {first}{more}"


def _places(placement: Placement) -> str:
    if not placement:
        return "slots are"
    workers = sum(count for _, count in placement)
    nodes = named([node for node, _ in placement])
    return f"room for {workers} worker{'s' if workers > 1 else ''} on {nodes} is"
