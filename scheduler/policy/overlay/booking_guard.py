"""Use of booked slots before the window: only by jobs that can leave them in time.

Elastic preemptible jobs can, within their grace; others if their time limit ends before. All others are placed on nodes
that no booking needs, or limited to a size that leaves the bookings enough room at every moment.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from scheduler.config import PolicySettings
from scheduler.model.booking import Booking
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job
from scheduler.model.plan import Placing, Plan, Release, Reserve, Start
from scheduler.model.world import NO_USAGE, World
from scheduler.policy.capacity.pools import placed_by
from scheduler.policy.capacity.resources import Amount, add, amount_of, foreign_amount
from scheduler.policy.overlay.booking_feasible import allot, pour, room_of, slots_kept
from scheduler.policy.overlay.booking_view import Seen, hold_from, scheduled_job
from scheduler.policy.snapshot.order import Order, end_of

#: Number of plans made before all jobs that stay too long are barred from nodes together, not one by one.
ROUNDS_MAX = 6


def plan_around(world: World, now: float, settings: PolicySettings, make: Callable[[World], Plan]) -> Plan:
    """The plan that `make` gives for a world without bookings, changed to honour them."""
    if not world.bookings:
        return make(world)
    guard = _Guard(world, now, settings)
    split: frozenset[str] = frozenset()
    cramped: dict[JobId, int] = {}
    for _ in range(ROUNDS_MAX):
        seen = Seen(world, now, settings, guard.kept_to, guard.barred, split, cramped)
        made = make(seen.world)
        unmet, less = seen.unmet(made), seen.cramped(made)
        split |= unmet
        if not unmet:  # of a booking that is not split yet, other parts may do
            cramped |= less
        if not unmet and not less:
            around = seen.plan(made)
            if not guard.confine(around):
                return around
    for nodes in (guard.needed, guard.usable):
        guard.confine_all(nodes)
        seen = Seen(world, now, settings, guard.kept_to, guard.barred, split, cramped)
        around = seen.plan(make(seen.world))
        if not guard.crowding(around):
            break
    return around


@dataclass(frozen=True, slots=True)
class _Crowding:
    """A job that a plan lets into room that bookings need while it is still there."""

    #: The most workers, present ones included, for which there is room where the plan places them.
    workers: int
    #: Nodes on which the bookings find what they need.
    needed: frozenset[NodeName]

    def with_(self, other: "_Crowding") -> "_Crowding":
        """Both crowdings in one, of bookings at different moments."""
        return _Crowding(min(self.workers, other.workers), self.needed | other.needed)


class _Guard:
    """Tracks, for the start of each booking, the room that staying jobs leave.

    A job that crowds bookings is first barred from the nodes that these need. If that leaves it with fewer workers than
    it could have had there, it is limited to that number instead. Running jobs get what they lack for their minimum in
    any case.
    """

    def __init__(self, world: World, now: float, settings: PolicySettings) -> None:
        self._world = world
        self._now = now
        self._settings = settings
        self._order = Order(now, settings)
        self._moments = sorted({max(booking.start_at, now) for booking in world.bookings.values()})
        #: The most workers of jobs, and the nodes from which jobs are barred.
        self.kept_to: dict[JobId, int] = {}
        self.barred: dict[JobId, frozenset[NodeName]] = {}
        #: The most workers of barred jobs if they were not barred.
        self._otherwise: dict[JobId, int] = {}
        #: Caches, by moments.
        self._usable: dict[frozenset[float], frozenset[NodeName]] = {}
        self._needed: dict[frozenset[float], frozenset[NodeName]] = {}

    def confine(self, made: Plan) -> bool:
        """Bar or limit jobs that crowd bookings by this plan, or get less than they could; False if there are none."""
        crowding = self.crowding(made)
        for job_id, crowds in crowding.items():
            if job_id in self.kept_to:
                self.kept_to[job_id] = crowds.workers
            elif job_id in self.barred:
                self.barred[job_id] = self.usable(self._outstayed(scheduled_job(self._world, job_id)))
            else:
                self.barred[job_id], self._otherwise[job_id] = crowds.needed, crowds.workers
        got = self._got(made)
        worse_off = [
            job_id
            for job_id in self.barred
            if job_id not in crowding and got[job_id] < max(self._otherwise[job_id], self._size(job_id) + 1)
        ]
        for job_id in worse_off:
            del self.barred[job_id]
            self.kept_to[job_id] = self._otherwise[job_id]
        return bool(crowding or worse_off)

    def confine_all(self, nodes: Callable[[frozenset[float]], frozenset[NodeName]]) -> None:
        """Bar waiting jobs that might crowd bookings from `nodes` of these moments; running ones may not grow."""
        outstayed = {
            job.id: moments
            for job in (*self._world.queued.values(), *self._world.active.values())
            if self._world.booking_of(job) is None and (moments := self._outstayed(job))
        }
        self.kept_to = {job_id: self._size(job_id) for job_id in outstayed if job_id in self._world.active}
        self.barred = {job_id: nodes(outstayed[job_id]) for job_id in outstayed if job_id in self._world.queued}

    def crowding(self, made: Plan) -> dict[JobId, _Crowding]:
        """Jobs that take room that bookings need."""
        crowding: dict[JobId, _Crowding] = {}
        taking = self._taking(made)
        for moment in self._moments:
            bookings = self._open_at(moment)
            staying = [
                (job, action)
                for job, action in taking
                if self._stays(job, moment, new=True) and not self._inside(job, bookings)
                if not self.usable(frozenset({moment})).isdisjoint(name for name, _, _ in placed_by(job, action))
            ]
            if staying:
                self._find_crowding(moment, staying, crowding)
        return crowding

    def _find_crowding(
        self, moment: float, taking: list[tuple[Job, Placing]], crowding: dict[JobId, _Crowding]
    ) -> None:
        """Add those of the jobs that take room that bookings need at this moment."""
        bookings, nodes, room = self._open_at(moment), self._world.nodes, self._room(moment)
        kept = slots_kept(bookings, nodes, room)
        needed: frozenset[NodeName] = frozenset()
        for job, action in taking:
            owed = self._owed(job, action)
            workers = max(self._beside(bookings, kept, room, job, action), owed)
            if workers < _workers(action):
                needed = needed or frozenset(allot(bookings, nodes, dict(room), self._idle))
                found = _Crowding(len(job.wanted_workers) + workers, needed)
                crowding[job.id] = found.with_(crowding[job.id]) if job.id in crowding else found
            elif job.id not in crowding:
                room, needed = _less(room, job, action), frozenset()
                kept = slots_kept(bookings, nodes, room) if owed else kept

    def _owed(self, job: Job, action: Placing) -> int:
        """Number of these workers that the job gets although they crowd a booking."""
        if self._world.booking_of(job) is not None:
            return _workers(action)
        return max(job.min_workers - self._size(job.id), 0) if job.state.active and job.id in self.kept_to else 0

    def _beside(
        self, bookings: list[Booking], kept: int, room: Mapping[NodeName, Amount], job: Job, action: Placing
    ) -> int:
        """Number of the job's new workers that leave the bookings all slots that they can keep."""

        def crowds(workers: int) -> bool:
            return slots_kept(bookings, self._world.nodes, _less(room, job, _first(action, workers))) < kept

        wanted = _workers(action)
        return max(bisect_left(range(wanted), True, key=crowds) - 1, 0) if crowds(wanted) else wanted

    def _taking(self, made: Plan) -> list[tuple[Job, Placing]]:
        """Jobs that get slots of their own, in queue order, as the room left goes to the first of them."""
        taking = [
            (job, action)
            for action in made.actions
            if isinstance(action, Placing) and not action.shared
            if (job := self._world.job(action.job_id)) is not None
        ]
        return sorted(taking, key=lambda each: self._order.rank(each[0]))

    def _open_at(self, moment: float) -> list[Booking]:
        return [each for each in self._world.bookings.values() if each.start_at <= moment < each.end_at]

    def _outstayed(self, job: Job) -> frozenset[float]:
        """Tracked moments at which the job, if it gets more, would still be there."""
        return frozenset(moment for moment in self._moments if self._stays(job, moment, new=True))

    def usable(self, moments: frozenset[float]) -> frozenset[NodeName]:
        """Nodes that would hold a worker of a booking of one of these moments."""
        if moments not in self._usable:
            shapes = {each.shape for moment in moments for each in self._open_at(moment)}
            nodes = self._world.nodes.values()
            useful = (node.name for node in nodes if any(node.fits_empty(shape) for shape in shapes))
            self._usable[moments] = frozenset(useful)
        return self._usable[moments]

    def needed(self, moments: frozenset[float]) -> frozenset[NodeName]:
        """Nodes on which the bookings of these moments find what they need."""
        if moments not in self._needed:
            found = (
                allot(self._open_at(moment), self._world.nodes, self._room(moment), self._idle)
                for moment in sorted(moments)
            )
            self._needed[moments] = frozenset(name for slots in found for name in slots)
        return self._needed[moments]

    def _got(self, made: Plan) -> Counter[JobId]:
        """Workers that jobs have, get, or have reserved."""
        got = Counter({job.id: len(job.wanted_workers) for job in self._world.active.values()})
        got.update({job.id: sum(count for _, count in job.reservation) for job in self._world.reserved.values()})
        for action in made.actions:
            if isinstance(action, Start | Reserve | Release):
                got[action.job_id] = 0
            if isinstance(action, Placing):
                got[action.job_id] += _workers(action)
        return got

    @cached_property
    def _idle(self) -> dict[NodeName, int]:
        """Slots of each node that are neither held nor closed."""
        used = self._world.usage
        return {
            node.name: node.slots - (used.get(node.name, NO_USAGE).slot_mask | node.closed_mask).bit_count()
            for node in self._world.nodes.values()
        }

    def _size(self, job_id: JobId) -> int:
        return len(scheduled_job(self._world, job_id).wanted_workers)

    def _room(self, moment: float) -> dict[NodeName, Amount]:
        """Capacity that staying jobs do not hold at that moment."""
        bookings = self._open_at(moment)
        near = any(self._now >= hold_from(each, self._world, self._settings) for each in bookings)
        # until a later one nodes may come back
        room = room_of(node for node in self._world.nodes.values() if node.schedulable or not near)
        for name in room:
            closed = self._world.nodes[name].closed_mask.bit_count()
            room[name] = add(room[name], (closed, 0, 0), -1) if closed else room[name]
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
        """Whether one of the bookings admits the job."""
        return any(booking.admits(job) for booking in bookings)


def _workers(action: Placing) -> int:
    return sum(count for _, count in action.placement)


def _first(action: Placing, workers: int) -> Placing:
    """The action with only its first `workers` workers."""
    placement: list[tuple[NodeName, int]] = []
    for name, count in action.placement:
        placement.append((name, min(count, workers)))
        workers -= placement[-1][1]
    return replace(action, placement=tuple(placement))


def _less(room: Mapping[NodeName, Amount], job: Job, action: Placing) -> dict[NodeName, Amount]:
    """The room less what the action gives the job."""
    less = dict(room)
    pour(less, job, action, -1)
    return less
