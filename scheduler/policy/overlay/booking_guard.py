"""Use of booked slots before the window: only by jobs that can leave them in time.

Elastic preemptible jobs can, within their grace; others if their time limit ends before. All others are placed on nodes
that no booking needs, or limited to a size that leaves the bookings enough room at every moment.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter

from scheduler.config import PolicySettings
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job
from scheduler.model.plan import Grow, Placing, Plan
from scheduler.model.worker import Worker
from scheduler.model.world import World
from scheduler.policy.capacity.pools import placed_by
from scheduler.policy.capacity.resources import Amount
from scheduler.policy.overlay.booking_entries import Entry, entries, gone_at, leavers
from scheduler.policy.overlay.booking_feasible import pour, workers_of
from scheduler.policy.overlay.booking_moment import Moment
from scheduler.policy.overlay.booking_places import beside_booked, first_behind, taking_places
from scheduler.policy.overlay.booking_view import Seen, Terms, scheduled_job
from scheduler.policy.snapshot.order import Order

#: Number of plans made before jobs that stay too long are barred from nodes together, not one by one.
ROUNDS_MAX = 6
#: Nodes of a moment from which jobs are barred.
NodesOf = Callable[[Moment], frozenset[NodeName]]
_USABLE: NodesOf = attrgetter("usable")
_NEEDED: NodesOf = attrgetter("needed")


def plan_around(world: World, now: float, settings: PolicySettings, make: Callable[[World], Plan]) -> Plan:
    """The plan that `make` gives for a world without bookings, changed to honour them.

    What a job may not have goes to another job, which only the next plan shows, so each change of the terms takes a
    whole plan, redrafts included: up to `ROUNDS_MAX` + 4 plans of up to `redraft.DRAFTS_MAX` drafts each. That is a
    limit, not a habit: of ten ticks with bookings in runs with random faults, nine made one draft, and none made more
    than four.
    """
    if not world.bookings:
        return make(world)
    guard = _Guard(world, now, settings)
    around = guard.plan(make)
    return around if around.actions else guard.taking_places(around, make)


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
    """Writes terms for jobs that crowd bookings.

    A job that crowds bookings is first barred from the nodes that these need. If that leaves it with fewer workers than
    it could have had there, it is limited to that number instead. Running jobs get what they lack for their minimum in
    any case.
    """

    def __init__(self, world: World, now: float, settings: PolicySettings) -> None:
        self._world = world
        self._now = now
        self._settings = settings
        self._terms = Terms()
        self._order = Order(now, settings)
        starts = sorted({max(booking.start_at, now) for booking in world.bookings.values()})
        self._moments = [Moment(at, world, now, settings) for at in starts]
        #: The most workers of barred jobs if they were not barred.
        self._otherwise: dict[JobId, int] = {}
        #: When jobs that crowded bookings were to get what they did not get, in unix seconds.
        self._gets_at: dict[JobId, float] = {}

    def plan(self, make: Callable[[World], Plan]) -> Plan:
        """A plan that keeps to the terms, which are changed until one does.

        Of many jobs that wait, another one comes in place of each that is barred. So in the end those that find room
        beside all that is booked get no more than that, and all others are barred; where that is not enough, all are.
        """
        around = Plan()
        for _ in range(ROUNDS_MAX):
            seen = self._seen()
            made = make(seen.world)
            if not seen.concede(made):
                around = seen.plan(made)
                if not self.confine(around):
                    return around
        fitting = self._fitting(make)
        for nodes, spares in ((_NEEDED, fitting), (_NEEDED, {}), (_USABLE, {})):
            self.confine_all(nodes, spares)
            seen = self._seen()
            around = seen.plan(make(seen.world))
            if not self.crowding(around):
                break
        return around

    def _seen(self) -> Seen:
        return Seen(self._world, self._now, self._settings, self._terms)

    def confine(self, made: Plan) -> bool:
        """Bar or limit jobs that crowd bookings by this plan, or get less than they could; False if there are none."""
        kept_to, barred = self._terms.kept_to, self._terms.barred
        crowding = self.crowding(made)
        for job_id, crowds in crowding.items():
            if job_id in kept_to:
                kept_to[job_id] = crowds.workers
            elif job_id in barred:
                barred[job_id] = _together(_USABLE, self._outstayed(scheduled_job(self._world, job_id)))
            else:
                barred[job_id], self._otherwise[job_id] = crowds.needed, crowds.workers
        got = self._got(made)
        worse_off = [
            job_id
            for job_id in barred
            if job_id not in crowding and got[job_id] < max(self._otherwise[job_id], self._size(job_id) + 1)
        ]
        for job_id in worse_off:
            del barred[job_id]
            kept_to[job_id] = self._otherwise[job_id]
        return bool(crowding or worse_off)

    def confine_all(self, nodes: NodesOf, spared: dict[JobId, int]) -> None:
        """Bar waiting jobs that might crowd bookings from `nodes` of their moments; running ones may not grow.

        Those `spared` get no more workers than is said there.
        """
        outstayed = {
            job.id: moments
            for job in (*self._world.queued.values(), *self._world.active.values())
            if self._world.booking_of(job) is None and (moments := self._outstayed(job))
        }
        barred = {moments: _together(nodes, moments) for moments in set(outstayed.values())}
        others = outstayed.keys() - spared.keys()
        self._terms.kept_to = {job_id: self._size(job_id) for job_id in others & self._world.active.keys()} | spared
        self._terms.barred = {job_id: barred[outstayed[job_id]] for job_id in others & self._world.queued.keys()}

    def _fitting(self, make: Callable[[World], Plan]) -> dict[JobId, int]:
        """Jobs that would stay too long and get more beside all that is booked, and the workers that they then have."""
        made = make(beside_booked(self._world, self._moments))
        got = self._got(made)
        return {
            job.id: got[job.id]
            for job, _, _ in self._taking(made)
            if self._world.booking_of(job) is None and self._outstayed(job)
        }

    def crowding(self, made: Plan) -> dict[JobId, _Crowding]:
        """Jobs that take room that bookings need."""
        crowding: dict[JobId, _Crowding] = {}
        taking, leaving = self._taking(made), list(leavers(self._world, made))
        gone = gone_at(self._world, leaving, self._now, self._settings)
        gets_at = {each.job.id: each.gets_at(self._now, gone) for each in taking}
        for moment in self._moments:
            longer = [
                (job, action)
                for job, action, _ in taking
                if moment.stays(job, gets_at=gets_at[job.id]) and not moment.admits(job)
                if not moment.usable.isdisjoint(name for name, _, _ in placed_by(job, action))
            ]
            if longer:
                self._find_crowding(moment, longer, leaving, crowding)
        self._gets_at |= {job_id: gets_at[job_id] for job_id in crowding}
        return crowding

    def taking_places(self, around: Plan, make: Callable[[World], Plan]) -> Plan:
        """The plan, which does nothing, or instead one by which the first that waits for booked slots gets others."""
        job = first_behind(self._world, around, self._order)
        moments = () if job is None else self._outstayed(job)
        if job is None or not moments:
            return around
        made = taking_places(self._world, job, moments, self._order, make)
        if made is None or self.crowding(made):
            return around
        return replace(around, actions=made.actions, waiting={**around.waiting, **made.waiting})

    def _find_crowding(
        self,
        moment: Moment,
        taking: list[tuple[Job, Placing]],
        leaving: list[tuple[Job, Worker]],
        crowding: dict[JobId, _Crowding],
    ) -> None:
        """Add the jobs whose new workers take room that bookings need at this moment.

        Room that others leave is judged as if they were gone, since it is when a job for which they leave starts.
        """
        room = moment.room_without(leaving)
        kept = moment.slots_kept(room)
        needed: frozenset[NodeName] = frozenset()
        for job, action in taking:
            owed = self._owed(job, action)
            workers = max(_beside(moment, kept, room, job, action), owed)
            if workers < workers_of(action):
                needed = needed or moment.needed_of(room)
                found = _Crowding(len(job.wanted_workers) + workers, needed)
                crowding[job.id] = found.with_(crowding[job.id]) if job.id in crowding else found
            elif job.id not in crowding:
                room, needed = _less(room, job, action), frozenset()
                kept = moment.slots_kept(room) if owed else kept

    def _owed(self, job: Job, action: Placing) -> int:
        """Number of these workers that the job gets although they crowd a booking."""
        if self._world.booking_of(job) is not None:
            return workers_of(action)
        return max(job.min_workers - self._size(job.id), 0) if job.state.active and job.id in self._terms.kept_to else 0

    def _taking(self, made: Plan) -> list[Entry]:
        """Who gets slots, in the order in which the room left goes to them.

        First come those for which something was held, as others left for them; then the queue, and of equally important
        jobs those that start before those that grow.
        """

        def place(each: Entry) -> tuple[bool, float, bool, float, JobId]:
            importance, age, job_id = self._order.rank(each.job)
            return (not each.job.reservation, importance, isinstance(each.action, Grow), age, job_id)

        return sorted(entries(self._world, made, self._terms.kept_to), key=place)

    def _outstayed(self, job: Job) -> tuple[Moment, ...]:
        """Moments at which the job, if it gets more, would still be there."""
        gets_at = self._gets_at.get(job.id, self._now)
        return tuple(moment for moment in self._moments if moment.stays(job, gets_at=gets_at))

    def _got(self, made: Plan) -> Counter[JobId]:
        """Workers that jobs have, get, or have reserved."""
        got = Counter({job.id: len(job.wanted_workers) for job in self._world.active.values()})
        for job, action, _ in entries(self._world, made, self._terms.kept_to):
            got[job.id] += workers_of(action)
        return got

    def _size(self, job_id: JobId) -> int:
        return len(scheduled_job(self._world, job_id).wanted_workers)


def _together(nodes: NodesOf, moments: Iterable[Moment]) -> frozenset[NodeName]:
    """These nodes of all the moments."""
    return frozenset[NodeName]().union(*map(nodes, moments))


def _beside(moment: Moment, kept: int, room: Mapping[NodeName, Amount], job: Job, action: Placing) -> int:
    """Number of the job's new workers that leave the bookings the slots that they can keep."""

    def crowds(workers: int) -> bool:
        return moment.slots_kept(_less(room, job, _first(action, workers))) < kept

    wanted = workers_of(action)
    return max(bisect_left(range(wanted), True, key=crowds) - 1, 0) if crowds(wanted) else wanted


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
