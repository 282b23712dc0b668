"""Who may use booked slots before the window: only who can be out of them by then.

Elastic preemptible jobs can be, by their grace; others where their time limit ends before. All others are kept to what
leaves the bookings enough room at every moment.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import replace

from scheduler.config import PolicySettings
from scheduler.model.booking import Booking
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job
from scheduler.model.plan import Grow, Plan, Reserve, Start
from scheduler.model.world import World
from scheduler.policy.amounts import Amount, add, amount_of, foreign_amount, needs
from scheduler.policy.bookable import room_of, slots_kept
from scheduler.policy.booking import Seen, hold_from
from scheduler.policy.halves import parts_of
from scheduler.policy.order import Order, end_of

#: Plans made until all that stay too long get nothing.
ROUNDS_MAX = 6


def plan_around(world: World, now: float, settings: PolicySettings, make: Callable[[World], Plan]) -> Plan:
    """The plan that `make` gives for a world without bookings, made to honour them."""
    if not world.bookings:
        return make(world)
    guard = _Guard(world, now, settings)
    kept_to: dict[JobId, int] = {}
    split: frozenset[str] = frozenset()
    cramped: dict[JobId, int] = {}
    for _ in range(ROUNDS_MAX):
        seen = Seen(world, now, settings, kept_to, split, cramped)
        made = make(seen.world)
        unmet, less = seen.unmet(made), seen.cramped(made)
        limits = {} if unmet or less else guard.limits(seen.plan(made))
        if not unmet and not less and not limits:
            return seen.plan(made)
        kept_to, split = kept_to | limits, split | unmet
        if not unmet:  # of a booking that is not split yet, other parts may do
            cramped |= less
    seen = Seen(world, now, settings, guard.all_that_stay(), split, cramped)
    return seen.plan(make(seen.world))


Taking = Start | Grow | Reserve


class _Guard:
    """Keeps an account, for the start of each booking, of the room that those who stay leave."""

    def __init__(self, world: World, now: float, settings: PolicySettings) -> None:
        self._world = world
        self._now = now
        self._settings = settings
        self._order = Order(now, settings)
        self._moments = sorted({max(booking.start_at, now) for booking in world.bookings.values()})

    def limits(self, made: Plan) -> dict[JobId, int]:
        """Jobs that this plan lets into room that bookings need when they are still there: the most workers of each."""
        limits: dict[JobId, int] = {}
        for moment in self._moments:
            bookings = [each for each in self._world.bookings.values() if each.start_at <= moment < each.end_at]
            room = self._room(moment)
            kept = slots_kept(bookings, self._world.nodes, room)
            for job, action in self._taking(made):
                if job.id in limits or not self._stays(job, moment, new=True) or self._inside(job, bookings):
                    continue
                workers = self._beside(bookings, kept, room, job, action)
                if workers < _workers(action):
                    limits[job.id] = len(job.wanted_workers) + workers
                else:
                    room = _less(room, job, action)
        return limits

    def _beside(
        self, bookings: list[Booking], kept: int, room: Mapping[NodeName, Amount], job: Job, action: Taking
    ) -> int:
        """How many of the workers that the job is to get leave the bookings as many slots as they can keep."""

        def crowds(workers: int) -> bool:
            return slots_kept(bookings, self._world.nodes, _less(room, job, _first(action, workers))) < kept

        wanted = _workers(action)
        return max(bisect_left(range(wanted), True, key=crowds) - 1, 0) if crowds(wanted) else wanted

    def _taking(self, made: Plan) -> list[tuple[Job, Taking]]:
        """Who gets slots of their own; the first in the queue first, as what is left goes to them."""
        taking = [
            (job, action)
            for action in made.actions
            if isinstance(action, Start | Grow | Reserve) and not action.shared
            if (job := self._world.job(action.job_id)) is not None
        ]
        return sorted(taking, key=lambda each: self._order.rank(each[0]))

    def all_that_stay(self) -> dict[JobId, int]:
        """The same, for everybody who might be among them, with no worker more."""
        jobs = [*self._world.queued.values(), *self._world.active.values()]
        return {
            job.id: len(job.wanted_workers)
            for job in jobs
            if self._world.booking_of(job) is None and any(self._stays(job, each, new=True) for each in self._moments)
        }

    def _room(self, moment: float) -> dict[NodeName, Amount]:
        """What is not held then by jobs that stay."""
        bookings = [each for each in self._world.bookings.values() if each.start_at <= moment < each.end_at]
        near = any(self._now >= hold_from(each, self._world, self._settings) for each in bookings)
        # until a later one nodes may come back
        room = room_of(node for node in self._world.nodes.values() if node.schedulable or not near)
        for name, foreign in self._world.foreign.items():
            if name in room:
                room[name] = add(room[name], foreign_amount(foreign), -1)
        for job in self._world.active.values():
            if self._stays(job, moment, new=False) and not self._inside(job, bookings):
                for worker in (*job.fixed_workers, *job.wanted_workers):
                    if worker.node in room and not worker.shared:
                        held = amount_of(worker, self._world.nodes[worker.node])
                        room[worker.node] = add(room[worker.node], held, -1)
        return room

    def _stays(self, job: Job, moment: float, *, new: bool) -> bool:
        """Whether the job would still be where it is at that moment, and could not be made to leave by then."""
        end = end_of(job, job.started_at if job.state.active else self._now)
        if end is not None and end <= moment:
            return False
        if not (job.elastic and job.spec.preemptible):
            return True
        lead = job.spec.stop_seconds + self._settings.booking_lead_seconds + self._settings.near_end_seconds
        return new and self._now < moment < self._now + lead

    def _inside(self, job: Job, bookings: list[Booking]) -> bool:
        """Whether what it holds is part of what is booked."""
        return any(booking.admits(job) for booking in bookings)


def _workers(action: Taking) -> int:
    return sum(count for _, count in action.placement)


def _first(action: Taking, workers: int) -> Taking:
    """The same for only so many of its workers."""
    placement: list[tuple[NodeName, int]] = []
    for name, count in action.placement:
        placement.append((name, min(count, workers)))
        workers -= placement[-1][1]
    return replace(action, placement=tuple(placement))


def _less(room: Mapping[NodeName, Amount], job: Job, action: Taking) -> dict[NodeName, Amount]:
    """The room without what the action gives the job."""
    less = dict(room)
    for name, shape, count in parts_of(job, action):
        if name in less:
            less[name] = add(less[name], needs(shape, count), -1)
    return less
