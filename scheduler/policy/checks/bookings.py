"""Invariant of plans while a booking is open."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from scheduler.config import PolicySettings
from scheduler.model.booking import Booking
from scheduler.model.foreign import NO_FOREIGN
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.model.plan import Grow, Placing, Plan, Release, Reserve, Start
from scheduler.model.stray import Stray
from scheduler.model.worker import Worker
from scheduler.model.world import World
from scheduler.policy.capacity.ledger import left_of
from scheduler.policy.capacity.resources import Amount, add, amount_of
from scheduler.policy.checks.world import Violation
from scheduler.policy.overlay.booking_feasible import allot, pour, slots_kept, workers_of
from scheduler.policy.overlay.booking_view import hold_from
from scheduler.policy.snapshot.order import Order


def inside_booking(world: World, job: Job, now: float, settings: PolicySettings) -> bool:
    """Whether the window of the job's booking has begun, under a policy that knows bookings."""
    booking = world.booking_of(job)
    return settings.name == "elastic" and booking is not None and booking.start_at <= now


def check_bookings(
    world: World, plan: Plan, leaving: Iterable[Worker | Stray], now: float, settings: PolicySettings
) -> Iterator[Violation]:
    """I11: from the start of a booking until its slots are lent, no other job takes what it needs.

    Not checked where the planner may choose between GPU types. `leaving` are the workers that leave by then. A job that
    returns to its minimum, or moves off a draining node or an unhealthy slot, is allowed to: it has to leave next.
    """
    if settings.name != "elastic":
        return  # published policies know no bookings
    takes = [(job, each) for each in plan.actions if isinstance(each, Start | Grow) and (job := world.job(each.job_id))]
    gets: list[tuple[Job, Placing]] = [*takes, *_held_for_members(world, plan)]
    room = _room(world, gets, leaving) if world.bookings else {}
    for booking in world.bookings.values():
        kinds = {node.gpu_type for node in world.nodes.values() if node.suits(booking.shape)}
        if len(kinds) > 1 or not booking.start_at <= now < booking.start_at + settings.booking_idle_seconds:
            continue
        others = [(job, action) for job, action in takes if _takes_of(world, job, action, booking)]
        rest = _rest(world, gets, booking)
        if not _misses(world, [rest], others, room):
            continue
        if not _misses(world, _as_jobs_use(world, rest, gets, now, settings), others, room):
            continue
        held = [each for each in world.bookings.values() if each is not booking and _holds(world, each, now, settings)]
        beside = dict(room)
        allot([part for each in held for part in _parts(world, gets, each)], world.nodes, beside)
        # no violation where the booking could not have the slots anyway, because of bookings beside it
        if _misses(world, [rest], others, beside):
            names, has = ", ".join(str(job.id) for job, _ in others), slots_kept([rest], world.nodes, room)
            told = f"needs {rest.slots} more slots and has {has}, and job {names} takes some"
            yield Violation("I11", f"booking {booking.name} {told}")


def _held_for_members(world: World, plan: Plan) -> Iterator[tuple[Job, Reserve]]:
    """Reservations of waiting jobs of bookings once the plan is done: workers of their shape may need more nodes."""
    reserved = {job.id: job.reservation for job in world.reserved.values() if not job.reservation_shared}
    for action in plan.actions:
        if isinstance(action, Start | Reserve | Release):
            reserved.pop(action.job_id, None)
        if isinstance(action, Reserve) and not action.shared:
            reserved[action.job_id] = action.placement
    for job_id, placement in reserved.items():
        job = world.queued[job_id]
        if world.booking_of(job) is not None:
            yield job, Reserve(job_id, placement)


def _holds(world: World, booking: Booking, now: float, settings: PolicySettings) -> bool:
    """Whether the booked slots are held at this moment."""
    return hold_from(booking, world, settings) <= now < booking.start_at + settings.booking_idle_seconds


def _rest(world: World, gets: Iterable[tuple[Job, Placing]], booking: Booking) -> Booking:
    """The part of the booking that its jobs do not have yet, in whole workers."""
    return _parts(world, gets, booking)[0]


def _parts(world: World, gets: Iterable[tuple[Job, Placing]], booking: Booking) -> tuple[Booking, Booking]:
    """What the booking's jobs do not have yet of it: in whole workers, and the slots beside these, each by itself."""
    mine = _held(world, booking)
    mine += sum(job.shape.slots * workers_of(action) for job, action in gets if booking.admits(job))
    workers, slots = divmod(max(booking.slots - mine, 0), booking.shape.slots)
    alone = replace(booking.shape, slots=1, cpus=0.0, memory_mib=0)
    return replace(booking, workers=workers), replace(booking, shape=alone, workers=slots)


def _as_jobs_use(
    world: World, rest: Booking, gets: Iterable[tuple[Job, Placing]], now: float, settings: PolicySettings
) -> list[Booking]:
    """The rest of a booking in the shapes of its jobs' further workers, and in its own where they leave some.

    First come the minimums of jobs that pause after a failure, then what all of them could grow by.
    """
    got = Counter[JobId]()
    for job, action in gets:
        got[job.id] += workers_of(action)
    queue = Order(now, settings).queue(job for job in world.queued.values() if rest.admits(job))
    parts, left = [], rest.slots
    for job in queue:
        needed = job.min_workers * job.shape.slots
        if job.not_before > now and not got[job.id] and needed <= left:
            got[job.id] = job.min_workers
            parts.append(replace(rest, shape=job.shape, workers=job.min_workers))
            left -= needed
    active = (job for job in world.active.values() if rest.admits(job) and _grows(job))
    for job in (*active, *(job for job in queue if got[job.id])):
        size = len(job.wanted_workers) + got[job.id]
        count = max(min(job.max_workers - size, left // job.shape.slots), 0)
        parts.append(replace(rest, shape=job.shape, workers=count))
        left -= count * job.shape.slots
    return [*parts, replace(rest, workers=left // rest.shape.slots)]


def _grows(job: Job) -> bool:
    return job.state is not JobState.STOPPING and not job.finishing


def _misses(
    world: World, lacking: list[Booking], others: Iterable[tuple[Job, Start | Grow]], room: Mapping[NodeName, Amount]
) -> bool:
    """Whether this room has less for what bookings lack than it would have if the others had taken nothing."""
    before = dict(room)
    for job, action in others:
        pour(before, job, action, 1)
    return slots_kept(lacking, world.nodes, room) < slots_kept(lacking, world.nodes, before)


def _room(
    world: World, gets: Iterable[tuple[Job, Placing]], leaving: Iterable[Worker | Stray]
) -> dict[NodeName, Amount]:
    """Capacity left on nodes once the plan is done and all leaving workers are gone."""
    nodes = (
        (name, node, world.foreign.get(name, NO_FOREIGN)) for name, node in world.nodes.items() if node.schedulable
    )
    room = {name: left_of(node, world.used(name), foreign) for name, node, foreign in nodes}
    for job, action in gets:
        pour(room, job, action, -1)
    for leaver in leaving:
        if leaver.node in room and not leaver.shared:
            room[leaver.node] = add(room[leaver.node], amount_of(leaver, world.nodes[leaver.node]))
    return room


def _held(world: World, booking: Booking) -> int:
    """Slots that the booking's jobs hold and keep."""
    jobs = (job for job in world.active.values() if booking.admits(job))
    return sum(len(worker.slot_ids) for job in jobs for worker in job.wanted_workers)


def _takes_of(world: World, job: Job, action: Start | Grow, booking: Booking) -> bool:
    """Whether a job that is inside no booking of that time takes more slots than it has to."""
    inside = world.booking_of(job)
    if action.shared or (inside is not None and inside.overlaps(booking)):
        return False
    if isinstance(action, Start):
        return True
    moves = any(world.nodes[w.node].moves_off(w.slot_ids) for w in job.wanted_workers if w.node in world.nodes)
    return len(job.wanted_workers) >= job.min_workers and not moves
