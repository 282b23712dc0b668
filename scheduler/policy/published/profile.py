"""A profile of free slots over time, and the jobs that wait so that no promised start is delayed."""

import math
from bisect import bisect_right

from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.job_state import JobState, WaitReason
from scheduler.model.node import Node
from scheduler.model.plan import Waiting
from scheduler.model.worker import Worker
from scheduler.model.world import World
from scheduler.policy.capacity.ledger import left_of_empty
from scheduler.policy.capacity.resources import Amount, amount_of, fit_in, needs
from scheduler.policy.snapshot.order import end_of
from scheduler.policy.snapshot.placeholder import waiting_behind

GpuType = str | None
#: Nodes that take workers, each with its capacity for them.
FreeNodes = list[tuple[Node, Amount]]
#: Number of promises that one plan makes; jobs behind them do not start before one of the promised jobs has.
PROMISES_MAX = 500


class Profile:
    """Free slots from now on: `slots[k]` from `times[k]` until the next time."""

    def __init__(self, now: float, slots: int) -> None:
        self.times = [now]
        self.slots = [slots]

    def change(self, start: float, end: float, slots: int) -> None:
        """Add slots between the two moments; a start before the profile counts as now."""
        first, last = self._cut(max(start, self.times[0])), self._cut(end)
        for k in range(first, last):
            self.slots[k] += slots

    def earliest(self, slots: int, seconds: float) -> float:
        """The first moment from which `slots` are free for `seconds`; infinite if there is none."""
        start: float | None = None
        for k, free in enumerate(self.slots):
            if free < slots:
                start = None
            elif start is None:
                start = self.times[k]
            if start is not None and (k + 1 == len(self.times) or self.times[k + 1] >= start + seconds):
                return start
        return math.inf

    def _cut(self, at: float) -> int:
        """The index of the step that begins at this moment."""
        if at == math.inf:
            return len(self.times)
        k = bisect_right(self.times, at) - 1
        if self.times[k] < at:
            k += 1
            self.times.insert(k, at)
            self.slots.insert(k, self.slots[k - 1])
        return k


def held_back(world: World, now: float) -> dict[JobId, Waiting]:
    """Waiting jobs whose promised start is later than now, each with its reason."""
    back: dict[JobId, Waiting] = {}
    booked: list[tuple[GpuType, float, float, int]] = []
    queue = sorted(world.queued.values(), key=lambda job: (-job.priority, job.submitted_at, job.id))
    profiles: dict[GpuType, Profile] = {}
    room = _room(world)
    priority: float = math.inf
    first: Job | None = None
    for place, job in enumerate(queue):
        if job.priority < priority:
            priority = job.priority
            profiles = _profiles(world, room, now, job.priority)
            for gpu_type, start, end, slots in booked:
                profiles[gpu_type].change(start, end, -slots)
        if job.not_before > now or not _possible(job, room):
            continue
        start, gpu_type = _promise(job, world, profiles) if place < PROMISES_MAX else (math.inf, None)
        slots = job.min_workers * job.shape.slots
        if start < math.inf:
            end = start + _seconds(job)
            profiles[gpu_type].change(start, end, -slots)
            booked.append((gpu_type, start, end, slots))
        if start > now:
            fits_now = any(profiles[each].slots[0] >= slots for each in _types(job, world))
            back[job.id] = waiting_behind(first) if fits_now else Waiting(WaitReason.INSUFFICIENT_SLOTS)
            first = job if first is None else first
    return back


def _promise(job: Job, world: World, profiles: dict[GpuType, Profile]) -> tuple[float, GpuType]:
    """The earliest start and its GPU type: of types with equally early ones, that with the fewest free slots now.

    Large jobs behind it need the others.
    """
    slots = job.min_workers * job.shape.slots
    starts = [(profiles[each].earliest(slots, _seconds(job)), each) for each in _types(job, world)]
    return min(starts, key=lambda start: (start[0], profiles[start[1]].slots[0]), default=(math.inf, None))


def _seconds(job: Job) -> float:
    return job.spec.time_limit_seconds if job.spec.time_limit_seconds is not None else math.inf


def _types(job: Job, world: World) -> list[GpuType]:
    suitable = {node.gpu_type for node in world.nodes.values() if node.schedulable and node.suits(job.shape)}
    return sorted(suitable, key=str)


def _room(world: World) -> FreeNodes:
    """Capacity of nodes beside foreign processes, whose ends are unknown."""
    return [(node, left_of_empty(node, world)) for node in world.nodes.values() if node.schedulable]


def _possible(job: Job, room: FreeNodes) -> bool:
    """Whether nodes without jobs would hold the job; the planner has the reason if no node suits it."""
    fits: dict[GpuType, int] = {}
    for node, amount in room:
        if node.suits(job.shape):
            fits[node.gpu_type] = fits.get(node.gpu_type, 0) + fit_in(needs(job.shape), amount)
    return max(fits.values(), default=0) >= job.min_workers


def _profiles(world: World, room: FreeNodes, now: float, priority: int) -> dict[GpuType, Profile]:
    """Profiles for one priority: slots that are free, being freed, held by less important jobs, or freed later."""
    profiles = {node.gpu_type: Profile(now, 0) for node in world.nodes.values()}
    # foreign processes, closed slots and workers may exceed a node's slots: that takes nothing from other nodes
    left = {node.name: max(slots, 0) for node, (slots, _, _) in room}
    for node, _ in room:
        profiles[node.gpu_type].change(now, math.inf, left[node.name])
    for until, worker in _held(world, now, priority):
        node = world.nodes[worker.node]
        slots = min(amount_of(worker, node)[0], left.get(node.name, 0))
        if slots:
            left[node.name] -= slots
            profiles[node.gpu_type].change(now, until, -slots)
    return profiles


def _held(world: World, now: float, priority: int) -> list[tuple[float, Worker]]:
    """(end, worker) of workers on own slots that jobs of this priority cannot take, the last to end first."""
    held = []
    for job in world.active.values():
        if job.state is not JobState.STOPPING and not (job.spec.preemptible and job.priority < priority):
            end = end_of(job, job.started_at)
            until = math.inf if end is None else max(end, now)
            held += [(until, worker) for worker in job.wanted_workers if not worker.shared]
    return sorted(held, key=lambda each: -each[0])
