"""Places beside bookings: a job that would stay for too long on booked slots may have those of less important jobs.

Slots that are booked for later, or lent, are free for the planner. It would let the job start there, which a booking
forbids, and so it looks for no victims. Here it is asked again, about a world in which booked slots belong to others.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from scheduler.model.foreign import NO_FOREIGN
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job
from scheduler.model.job_state import JobState, WaitReason
from scheduler.model.plan import Plan, Reserve, Shrink, StopJob, Waiting
from scheduler.model.world import Changes, World
from scheduler.policy.capacity.ledger import left_of
from scheduler.policy.capacity.pools import owner_of, placed, placed_by, reserved
from scheduler.policy.capacity.resources import NOTHING, Amount, add, amount_of, enough, needs, with_amount
from scheduler.policy.overlay.booking_moment import Moment
from scheduler.policy.snapshot.order import Order

#: Wait reasons of jobs that could not start now whatever others leave.
_LATER = frozenset({WaitReason.BOOKED_LATER, WaitReason.BOOKING_FULL, WaitReason.BACKOFF})


def first_behind(world: World, around: Plan, order: Order) -> Job | None:
    """The first of the queue, if it waits for booked slots and nothing is held for it."""

    def reason(job: Job) -> WaitReason | None:
        return around.waiting[job.id].reason if job.id in around.waiting else job.wait_reason

    able = (job for job in world.queued.values() if reason(job) not in _LATER)
    first = min(able, key=order.rank, default=None)
    behind = first is not None and reason(first) is WaitReason.BEHIND_BOOKING and not first.reservation
    return first if behind else None


def taking_places(
    world: World, job: Job, moments: Collection[Moment], order: Order, make: Callable[[World], Plan]
) -> Plan | None:
    """A plan by which less important jobs that stay as long leave for this one; None if there is none.

    `moments` are those at which the job would still be there.
    """
    stayers = {
        each.id
        for each in world.active.values()
        if all(moment.stays(each, gets_at=None) and not moment.admits(each) for moment in moments)
    }
    if not any(order.more_important(job, world.active[each]) for each in stayers):
        return None
    made = make(_with_booked_slots_of_others(world, job, moments, stayers))
    takings = [a for a in made.actions if isinstance(a, Shrink | StopJob) and a.for_job == job.id]
    held = [a for a in made.actions if isinstance(a, Reserve) and a.job_id == job.id and not a.shared]
    if not takings or not held or not _fits_soon(world, job, held[0], takings):
        return None
    return Plan((*takings, *held), {job.id: Waiting(WaitReason.WAITING_FOR_VICTIMS)})


def beside_booked(world: World, moments: Collection[Moment]) -> World:
    """The world in which others hold all idle room that jobs which stay until these moments must not use."""
    held: dict[NodeName, Amount] = {}
    for name in {name for moment in moments for name in moment.booked}:
        idle = left_of(world.nodes[name], world.used(name), world.foreign.get(name, NO_FOREIGN))
        kept = (add(m.room[name], m.booked[name], -1) for m in moments if name in m.booked)
        held[name] = _most([NOTHING, *(add(idle, amount, -1) for amount in kept)])
    return _with_held_by_others(world, held)


def _with_booked_slots_of_others(
    world: World, job: Job, moments: Collection[Moment], stayers: Collection[JobId]
) -> World:
    """The world with the stayers, the job, and those for which something is held, where others hold what is booked."""
    away = {
        each.id: replace(each, state=JobState.SUSPENDED, workers=(), fixed_workers=())
        for each in world.active.values()
        if each.id not in stayers
    }
    away |= {
        each.id: replace(each, state=JobState.SUSPENDED)
        for each in world.queued.values()
        if each.id != job.id and not each.reservation
    }
    names = {name for moment in moments for name in moment.booked}
    held = {name: _most([moment.booked.get(name, NOTHING) for moment in moments]) for name in names}
    return _with_held_by_others(world.evolve(Changes(jobs=tuple(away.values()))), held)


def _with_held_by_others(world: World, held: Mapping[NodeName, Amount]) -> World:
    """The world in which others hold these amounts besides."""
    more = {name: with_amount(world.foreign.get(name, NO_FOREIGN), amount) for name, amount in held.items()}
    return world.with_foreign({**world.foreign, **more}, world.demands)


def _most(amounts: Collection[Amount]) -> Amount:
    """Of each part of these amounts the most."""
    slots, cpus, memory_mib = map(max, zip(*amounts, strict=True))
    return slots, cpus, memory_mib


def _fits_soon(world: World, job: Job, held: Reserve, takings: Collection[Shrink | StopJob]) -> bool:
    """Whether what is held for the job fits once all who leave are gone, beside what is held for others."""
    room: dict[NodeName, Amount] = {
        name: left_of(node, world.used(name), world.foreign.get(name, NO_FOREIGN))
        for name, node in world.nodes.items()
        if node.schedulable
    }
    leaving = {id_ for each in takings if isinstance(each, Shrink) for id_ in each.workers}
    stopped = {each.job_id for each in takings if isinstance(each, StopJob)}
    for other in world.active.values():
        for worker in other.all_workers:
            leaves = not worker.wanted or worker.id in leaving or other.id in stopped
            if leaves and worker.node in room and not worker.shared:
                room[worker.node] = add(room[worker.node], amount_of(worker, world.nodes[worker.node]))
    others = (part for other in world.reserved.values() for part in placed(other, reserved(other)))
    for half, shape, count in (*others, *placed_by(job, held)):
        name, shared = owner_of(half)
        slots, cpus, memory_mib = needs(shape, count)
        amount = (0 if shared else slots, cpus, memory_mib)
        room[name] = add(room.get(name, NOTHING), amount, -1)
        if not enough(room[name], amount):
            return False
    return True
