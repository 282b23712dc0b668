"""Changes that would let a waiting job start: plans are made for worlds that each differ from this one in one thing.

A world in which the job starts, or gets a reservation, at the planner's first look is an answer; others say nothing.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from scheduler.model.booking import BookingState
from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.model.node import NodeHealth, NodeIntent
from scheduler.model.plan import Plan, Reserve, Shrink, Start, StopJob
from scheduler.model.world import Changes, World

#: Number of holders whose end is tried, those with most slots first.
HOLDERS_MAX = 4
#: Number of bookings whose end is tried, soonest first.
BOOKINGS_MAX = 4


@dataclass(frozen=True, slots=True)
class Rise:
    """A priority with which the job would start or get a reservation."""

    priority: int
    #: Jobs that would lose workers for it.
    victims: tuple[JobId, ...]


@dataclass(frozen=True, slots=True)
class End:
    """A job that has to end, and the priority needed besides; None: the waiting job's own is enough."""

    job_id: JobId
    priority: int | None


class Trials:
    """Counterfactuals of one waiting job. Each question costs a plan; without time for it, the answer is no."""

    def __init__(self, world: World, job: Job, plan: Callable[[World], Plan], in_time: Callable[[], bool]) -> None:
        self._world = world
        self._job = job
        self._plan = plan
        self._in_time = in_time

    def starts_with(self, minimum: int) -> bool:
        """Whether the job starts at once with this minimum."""
        made = self._served(Changes(jobs=(replace(self._job, min_workers=minimum),)))
        return made is not None and any(isinstance(a, Start) and a.job_id == self._job.id for a in made.actions)

    def starts_with_nodes(self, *, down: bool) -> bool:
        """Whether the job is served once nodes that users or failures closed (`down`: also down ones) take workers."""
        nodes = tuple(
            replace(node, health=NodeHealth.UP, intent=NodeIntent.ACTIVE)
            for node in self._world.nodes.values()
            if node.suits(self._job.shape) and not node.closed and not node.schedulable
            if down or node.health is NodeHealth.UP
        )
        return bool(nodes) and self._served(Changes(nodes=nodes)) is not None

    def starts_with_closed_slots(self) -> bool:
        """Whether the job is served once closed slots take workers again."""
        nodes = tuple(
            replace(node, closed_slots=())
            for node in self._world.nodes.values()
            if node.closed_slots and node.schedulable and node.suits(self._job.shape)
        )
        return bool(nodes) and self._served(Changes(nodes=nodes)) is not None

    def rise(self, priority_max: int) -> Rise | None:
        """The lowest priority found to be enough; None if none up to `priority_max` is known."""
        candidates = self._priorities(priority_max)
        if not candidates:
            return None
        found = self._with_priority(candidates[-1])
        low, high = 0, len(candidates) - 1
        while found is not None and low < high and self._in_time():
            middle = (low + high) // 2
            served = self._with_priority(candidates[middle])
            if served is None:
                low = middle + 1
            else:
                found, high = served, middle
        return found

    def end_that_serves(self, priority_max: int) -> End | None:
        """The end of one job after which this one would be served, else one that needs a higher priority as well."""
        holders = self._holders()[:HOLDERS_MAX]
        for other in holders:
            if self._served(Changes(jobs=(_ended(other),))) is not None:
                return End(other.id, None)
        for other in holders:
            priority = max(self._priorities(priority_max, without=other.id), default=None)
            if priority is not None:
                raised = replace(self._job, priority=priority)
                if self._served(Changes(jobs=(_ended(other), raised))) is not None:
                    return End(other.id, priority)
        return None

    def booking_that_keeps_it(self) -> str | None:
        """A booking without which the job would be served."""
        bookings = sorted(self._world.bookings.values(), key=lambda each: (each.start_at, each.name))
        for booking in bookings[:BOOKINGS_MAX]:
            over = replace(booking, state=BookingState.OVER)
            if self._served(Changes(bookings=(over,))) is not None:
                return booking.name
        return None

    def _served(self, changes: Changes) -> Plan | None:
        """The plan for the world with these changes, if the job starts or gets a reservation by it."""
        if not self._in_time():
            return None
        made = self._plan(self._world.evolve(changes))
        gets = (a.job_id for a in made.actions if isinstance(a, Start | Reserve))
        return made if self._job.id in gets else None

    def _with_priority(self, priority: int) -> Rise | None:
        made = self._served(Changes(jobs=(replace(self._job, priority=priority),)))
        if made is None:
            return None
        lose = (a for a in made.actions if isinstance(a, Shrink | StopJob) and a.for_job == self._job.id)
        return Rise(priority, tuple(dict.fromkeys(action.job_id for action in lose)))

    def _priorities(self, priority_max: int, without: JobId | None = None) -> list[int]:
        """Priorities just above the jobs that may be in the way, ascending."""
        world = self._world
        jobs = (*world.active.values(), *world.queued.values())
        others = {other.priority for other in jobs if other.id not in (without, self._job.id)}
        return sorted(p + 1 for p in others if self._job.priority <= p < priority_max)

    def _holders(self) -> list[Job]:
        """Jobs with slots on nodes that suit the job, most slots first."""
        suitable = {node.name for node in self._world.nodes.values() if node.suits(self._job.shape)}
        slots = Counter[JobId]()
        for other in self._world.active.values():
            held = sum(len(worker.slot_ids) for worker in other.all_workers if worker.node in suitable)
            if held:
                slots[other.id] = held
        return [self._world.active[job_id] for job_id, _ in sorted(slots.items(), key=lambda each: (-each[1], each[0]))]


def _ended(job: Job) -> Job:
    return replace(job, state=JobState.SUCCEEDED, workers=(), fixed_workers=())
