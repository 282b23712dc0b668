"""Why a running job does not get one more worker, in the planner's own terms."""

import math
from dataclasses import dataclass
from enum import StrEnum

from scheduler.config import PolicySettings
from scheduler.model.booking import Booking
from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.plan import Grow
from scheduler.model.shape import WorkerShape
from scheduler.model.world import World
from scheduler.policy.capacity.ledger import View
from scheduler.policy.capacity.pools import Group, group_of
from scheduler.policy.checks.plan import FIXED_SIZES
from scheduler.policy.estimate.marginal_gain import MarginalGain
from scheduler.policy.explain.held_slots import Keeper, Look
from scheduler.policy.explain.shortage import Lack, Vacancies, vacancies_of
from scheduler.policy.snapshot.order import end_of
from scheduler.policy.snapshot.peers import cooled_at, may_change, pays_back


class Limit(StrEnum):
    """Why a running job does not grow; the first that holds, in this order."""

    #: It has its maximum of workers.
    MAXIMUM = "MAXIMUM"
    #: The policy in force gives it no other size.
    FIXED_SIZE = "FIXED_SIZE"
    #: One of its workers has already ended with success.
    FINISHING = "FINISHING"
    #: A resize is under way: leaving workers are not gone, or the new group is not formed yet.
    CHANGING = "CHANGING"
    #: Its time limit is near.
    NEAR_END = "NEAR_END"
    #: More workers are tried once it has reported the speed at this size, or after a set time.
    UNTRIED = "UNTRIED"
    #: More workers would add nothing, by the speeds that it reported.
    NO_GAIN = "NO_GAIN"
    #: A resize costs more than it would gain before the job ends.
    PAYBACK = "PAYBACK"
    #: There is no room for one more worker.
    NO_ROOM = "NO_ROOM"
    #: The free room is held for a waiting job.
    RESERVED = "RESERVED"
    #: Its booking has no more slots.
    BOOKING_FULL = "BOOKING_FULL"
    #: A queue of it is at its limit, or its guarantee does not cover more of a job that is not preemptible.
    QUEUE = "QUEUE"
    #: The planner keeps the free room for another job.
    KEPT = "KEPT"
    #: Its last resize was too short a time ago.
    COOLDOWN = "COOLDOWN"
    #: Nothing: it grows at the next tick.
    NOTHING = "NOTHING"
    #: There is room, and whether this job gets it is not known.
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Growth:
    """Whether a running job can grow, and what is in the way."""

    limit: Limit
    #: When the limit ends by itself; unix seconds.
    until: float | None = None
    #: Free slots on nodes where its workers may run.
    slots: int = 0
    lack: Lack | None = None
    keeper: Keeper | None = None
    #: A waiting job that holds the free slots.
    holder: JobId | None = None

    @property
    def has_room(self) -> bool:
        """Whether only the planner can tell more."""
        return self.limit in (Limit.COOLDOWN, Limit.UNKNOWN)


@dataclass(frozen=True, slots=True)
class _Room:
    """Room for one more worker of a shape in a group of nodes."""

    #: Open slots, or those that are held where none are open.
    slots: int
    lack: Lack | None
    #: Whether a worker fits into open slots.
    open: bool


class GrowthLimits:
    """Growth limits of all jobs of one world."""

    def __init__(self, world: World, now: float, settings: PolicySettings, look: Look | None = None) -> None:
        """`look` is the planner's look at the same world; without it, less is known."""
        self._world = world
        self._now = now
        self._settings = settings
        self._look = look
        self._vacancies: Vacancies | None = None
        self._rooms: dict[tuple[WorkerShape, Group], _Room] = {}
        self._growing = frozenset[JobId]()
        if look is not None:
            self._growing = frozenset(action.job_id for action in look.plan.actions if isinstance(action, Grow))

    def of(self, job: Job) -> Growth:
        """Why this job, which has workers, does not get one more."""
        size = len(job.wanted_workers)
        if size >= job.max_workers:
            return Growth(Limit.MAXIMUM)
        if self._settings.name in FIXED_SIZES and size >= job.preferred_workers:
            return Growth(Limit.FIXED_SIZE)
        if job.finishing:
            return Growth(Limit.FINISHING)
        if job.id in self._growing:
            return Growth(Limit.NOTHING)
        if not may_change(job):
            return Growth(Limit.CHANGING)
        return self._by_its_own(job) or self._by_room(job) or self._by_others(job)

    def _by_its_own(self, job: Job) -> Growth | None:
        """A limit that lies in the job itself; none applies inside an open booking."""
        if self._settings.name != "elastic" or self._open_booking(job) is not None:
            return None
        end = end_of(job, job.started_at)
        if end is not None and end - self._now < self._settings.near_end_seconds:
            return Growth(Limit.NEAR_END)
        marginal_gain = MarginalGain(job, self._now, self._settings)
        size = len(job.workers)
        if not marginal_gain.wants_idle(size):
            untried = size >= marginal_gain.cap
            until = marginal_gain.widens_at if marginal_gain.widens_at < math.inf else None
            return Growth(Limit.UNTRIED if untried else Limit.NO_GAIN, until)
        return None if pays_back(job, marginal_gain, self._settings) else Growth(Limit.PAYBACK)

    def _by_room(self, job: Job) -> Growth | None:
        """A limit of room: none is free, or it is held for another job."""
        room = self._room(job)
        if room.lack is not None:
            return Growth(Limit.NO_ROOM, slots=room.slots, lack=room.lack)
        return None if room.open else Growth(Limit.RESERVED, slots=room.slots, holder=self._holder(job))

    def _room(self, job: Job) -> "_Room":
        group = group_of(self._world, job.workers[0])
        room = self._rooms.get((job.shape, group))
        if room is None:
            if self._vacancies is None:
                self._vacancies = vacancies_of(self._world)
            free, shape = self._vacancies, job.shape
            lack, fit = free.lack(shape, 1, View.FREE, group), free.fit(shape, View.OPEN, group)
            room = _Room(free.slots(shape, View.OPEN if fit else View.FREE, group), lack, fit > 0)
            self._rooms[shape, group] = room
        return room

    def _by_others(self, job: Job) -> Growth:
        """A limit that lies in the planner's use of the room."""
        slots = self._room(job).slots
        if self._used_up_booking(job):
            return Growth(Limit.BOOKING_FULL, slots=slots)
        if self._look is not None and not self._look.admitted_by_queues(job, group_of(self._world, job.workers[0])):
            return Growth(Limit.QUEUE, slots=slots)
        keeper = self._look.keeper_from(job, group_of(self._world, job.workers[0])) if self._look is not None else None
        if keeper is not None:
            return Growth(Limit.KEPT, slots=slots, keeper=keeper)
        cooled = cooled_at(job, self._settings)
        if cooled > self._now:
            return Growth(Limit.COOLDOWN, cooled, slots)
        return Growth(Limit.UNKNOWN, slots=slots)

    def _used_up_booking(self, job: Job) -> bool:
        """Whether the job's booking has too little left for one more worker."""
        booking = self._open_booking(job)
        if booking is None:
            return False
        members = (other for other in self._world.active.values() if booking.admits(other))
        used = sum(len(worker.slot_ids) for other in members for worker in other.wanted_workers)
        return booking.slots - used < job.shape.slots

    def _open_booking(self, job: Job) -> Booking | None:
        """The job's booking, once the window has begun."""
        booking = self._world.booking_of(job)
        return booking if booking is not None and booking.start_at <= self._now else None

    def _holder(self, job: Job) -> JobId | None:
        """The most important waiting job with a reservation on nodes that suit this one."""
        nodes = self._world.nodes
        holders = [
            other
            for other in self._world.reserved.values()
            if any(name in nodes and nodes[name].suits(job.shape) for name, _ in other.reservation)
        ]
        return min(holders, key=lambda other: (-other.priority, other.id)).id if holders else None
