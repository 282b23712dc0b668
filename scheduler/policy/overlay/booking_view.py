"""Bookings, in the terms of the planner.

Jobs of an open booking rank above all others, so that no job preempts them and they preempt any preemptible job. Booked
slots that they do not hold yet are requested by *claims*, which are placeholder jobs. A claim that would start keeps
free slots free, and one that would preempt makes other jobs leave in time; it has no other effect.
The plan for this world, without the claims, is the plan for the real one.

    ahead    until only the lead and the graces of jobs that may have to leave remain: no claims
    held     up to the start and for a while after it: claims for all that is booked
    lent     then until the end: claims for what jobs of the booking could use
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from scheduler.config import PolicySettings
from scheduler.model.booking import Booking
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job, JobSpec, Placement
from scheduler.model.job_state import JobState, StopReason, WaitReason
from scheduler.model.plan import Action, Grow, Plan, Release, Reserve, Start, Waiting
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import LeaveReason
from scheduler.model.world import Changes, World
from scheduler.policy.capacity.barred_nodes import barred_from
from scheduler.policy.overlay.booking_feasible import scarcest_first
from scheduler.policy.overlay.placeholders import CLAIM_PRIORITY, MEMBER_PRIORITY, free_ids, without
from scheduler.policy.snapshot.order import Order
from scheduler.policy.snapshot.peers import cooled_at
from scheduler.policy.snapshot.placeholder import Placeholder
from scheduler.policy.snapshot.waiting_jobs import not_carried

#: Wait reasons of jobs that find no room on nodes where they may run.
_LACKS = frozenset({WaitReason.INSUFFICIENT_SLOTS, WaitReason.NODES_UNAVAILABLE})
_SIZED = frozenset({JobState.STARTING, JobState.RUNNING, JobState.RESIZING})


@dataclass(slots=True)
class Terms:
    """What a plan around bookings has to observe, as far as earlier plans have shown."""

    #: The most workers of jobs, and the nodes on which jobs get no slots, as bookings need the room.
    kept_to: dict[JobId, int] = field(default_factory=dict)
    barred: dict[JobId, frozenset[NodeName]] = field(default_factory=dict)
    #: Bookings of which a part is enough.
    split: set[str] = field(default_factory=set)
    #: The most workers of jobs of bookings for which there is room now: what else is booked is held for other jobs.
    cramped: dict[JobId, int] = field(default_factory=dict)


def scheduled_job(world: World, job_id: JobId) -> Job:
    """A job that waits or is active."""
    return world.queued.get(job_id) or world.active[job_id]


def hold_from(booking: Booking, world: World, settings: PolicySettings) -> float:
    """When clearing of booked slots begins: the lead, and the longest grace of jobs there, before the start.

    A job stopped for a booking counts, too: otherwise it would come back once it is gone.
    """
    shapes: dict[WorkerShape, bool] = {}
    grace_seconds = 0.0
    stopped = (job for job in world.queued.values() if job.stop_reason is StopReason.BOOKED)
    for job in (*world.active.values(), *stopped):
        if job.spec.stop_seconds > grace_seconds and not booking.admits(job):
            if job.shape not in shapes:
                nodes = world.nodes.values()
                shapes[job.shape] = any(node.suits(booking.shape) and node.suits(job.shape) for node in nodes)
            if shapes[job.shape] or job.spec.fixed is not None:
                grace_seconds = job.spec.stop_seconds
    return booking.start_at - grace_seconds - settings.booking_lead_seconds


def pieces(count: int) -> Iterator[int]:
    """The number in halves, quarters and so on, so that some of the pieces make up any part of it."""
    while count > 1:
        yield count // 2
        count -= count // 2
    if count:
        yield count


class Seen:
    """The world as the planner sees it, and the translation of its plan to the real world."""

    def __init__(self, real: World, now: float, settings: PolicySettings, terms: Terms) -> None:
        self._real = real
        self._now = now
        self._settings = settings
        self._terms = terms
        self._ids = free_ids(real)
        #: Waiting jobs of bookings that may start now.
        self._admitted: set[JobId] = set()
        self._changed: dict[JobId, Job] = {}
        self._claims: dict[JobId, Placeholder] = {}
        #: Jobs that the planner does not see, and why they wait.
        self._apart: dict[JobId, WaitReason] = {}
        self._looks: list[float] = []
        for job_id in sorted(terms.kept_to):
            self._keep_to(job_id, terms.kept_to[job_id])
        for job_id in sorted(terms.barred):
            self._changed[job_id] = barred_from(scheduled_job(real, job_id), terms.barred[job_id])
        for booking in scarcest_first(real.bookings.values(), real.nodes):
            self._see(booking)
        self.world = real.evolve(Changes(jobs=tuple((self._changed | self._claims).values())))

    def concede(self, made: Plan) -> bool:
        """Settle for less where this plan does not meet all claims; whether that changed the terms.

        Where a booking is only now split, no job is limited yet: other parts of it may be enough.
        """
        got = self._got(made)
        unmet = {claim.booking for claim in self._claims.values() if claim.booking and claim.id not in got}
        unmet -= self._terms.split
        less = self._cramped(got)
        self._terms.split.update(unmet)
        if not unmet:
            self._terms.cramped.update(less)
        return bool(unmet or less)

    def _got(self, made: Plan) -> dict[JobId, Placement]:
        """What waiting jobs start on, or what is held for them; where it was before, the plan does not say so again."""
        released = {each.job_id for each in made.actions if isinstance(each, Release)}
        waiting = (job for job_id, job in self.world.reserved.items() if job_id in self.world.queued)
        kept = {job.id: job.reservation for job in waiting if job.id not in released}
        return kept | {each.job_id: each.placement for each in made.actions if isinstance(each, Start | Reserve)}

    def _cramped(self, got: Mapping[JobId, Placement]) -> dict[JobId, int]:
        """Jobs of bookings that got less room than they could use, and the number of workers that fit."""
        wanted: Counter[JobId] = Counter()
        found: Counter[JobId] = Counter()
        for claim in self._claims.values():
            if claim.member is not None:
                wanted[claim.member] += claim.min_workers
                found[claim.member] += sum(count for _, count in got.get(claim.id, ()))
        for job_id in self._admitted:
            minimum = self._changed[job_id].min_workers
            wanted[job_id] += minimum
            found[job_id] = found[job_id] + minimum if job_id in got else 0
        return {job_id: found[job_id] for job_id in wanted if found[job_id] < wanted[job_id]}

    def plan(self, made: Plan) -> Plan:
        """Translate this plan for the seen world to the real one."""
        real = without(made, self._claims, StopReason.BOOKED, LeaveReason.BOOKED)
        takes = {action.job_id: action for action in real.actions if isinstance(action, Start | Grow)}
        frees: list[Action] = [action for action in real.actions if not isinstance(action, Start | Grow)]
        frees += [Release(job_id) for job_id in sorted(self._apart) if self._real.queued[job_id].reservation]
        for action in made.actions:
            claim = self._claims.get(action.job_id)
            if claim is not None and claim.member is not None and isinstance(action, Start):
                self._hand_over(claim.member, action.placement, takes, frees)
        actions = (*frees, *sorted(takes.values(), key=lambda each: isinstance(each, Grow)))
        looks = [*self._looks, *([] if made.next_look_at is None else [made.next_look_at])]
        next_look_at = min((at for at in looks if at > self._now), default=None)
        return Plan(actions, self._waiting(real), next_look_at, made.shares)

    def _see(self, booking: Booking) -> None:
        now, begun = self._now, booking.start_at <= self._now
        from_, until = (
            hold_from(booking, self._real, self._settings),
            booking.start_at + self._settings.booking_idle_seconds,
        )
        self._looks += [from_, until]
        members = [job for job in self._real.active.values() if begun and booking.admits(job)]
        waiting = Order(now, self._settings).queue(job for job in self._real.queued.values() if booking.admits(job))
        left = max(booking.slots - sum(map(_used, members)), 0)  # a user may have raised the minimum of one that runs
        for job in members:
            most = min(job.max_workers, _size(job))
            self._changed[job.id] = replace(job, priority=MEMBER_PRIORITY, max_workers=most)
        if not begun:
            for job in waiting:
                self._set_apart(job, WaitReason.BOOKED_LATER)
            if now < from_:
                return
        admitted = []
        for job in waiting:
            needed = job.min_workers * job.shape.slots
            if begun and (self._room_for(job) < job.min_workers or not self._possible(job)):
                continue
            if needed <= left:
                left -= needed
                admitted.append(job)
                self._admit(booking, job, len(admitted), begun=begun)
            elif begun:
                self._set_apart(job, WaitReason.BOOKING_FULL)
        for job in [*members, *admitted]:
            left -= self._claim_growth(booking, job, left, begun=begun)
        if now < until:
            whole, rest = divmod(left, booking.shape.slots)
            self._claim(booking, booking.shape, whole)
            self._claim(booking, replace(booking.shape, slots=1, cpus=0.0, memory_mib=0), rest)

    def _admit(self, booking: Booking, job: Job, rank: int, *, begun: bool) -> None:
        """Let the job start at its minimum; where it may not yet, claim the room for that."""
        if begun and job.not_before <= self._now:
            first = replace(job, priority=MEMBER_PRIORITY, max_workers=job.min_workers, submitted_at=float(rank))
            self._changed[job.id] = first
            self._admitted.add(job.id)
        else:
            self._claim_at_once(booking, job.shape, job.min_workers, None)

    def _room_for(self, job: Job) -> int:
        """Number of further workers of the job that find room."""
        return self._terms.cramped.get(job.id, job.max_workers)

    def _possible(self, job: Job) -> bool:
        """Whether the nodes that take workers, if empty, would hold the job; if not, the planner gives the reason."""
        nodes = self._real.nodes.values()
        return sum(node.reduced().fits_empty(job.shape) for node in nodes if node.schedulable) >= job.min_workers

    def _claim_growth(self, booking: Booking, job: Job, left: int, *, begun: bool) -> int:
        """Claim the slots by which the job could grow; returns their number.

        What is booked are slots of its own, which a job on shared slots may not have besides.
        """
        if job.finishing or (job.state is not JobState.QUEUED and job.state not in _SIZED):
            return 0
        if any(worker.shared for worker in job.workers):
            return 0
        found = self._room_for(job) - (0 if job.workers else job.min_workers)
        room = max(min(job.max_workers - _size(job), left // job.shape.slots, found), 0)
        shape = job.shape
        if job.workers and job.workers[0].node in self._real.nodes:
            shape = replace(shape, gpu_type=self._real.nodes[job.workers[0].node].gpu_type)
        self._claim(booking, shape, room, job.id if begun else None)
        return room * shape.slots

    def _claim(self, booking: Booking, shape: WorkerShape, count: int, member: JobId | None = None) -> None:
        """Claim all workers together, or for a split booking as many pieces as there is room for on one GPU type."""
        split = booking.name in self._terms.split
        if split and shape.gpu_type is None:
            shape = replace(shape, gpu_type=self._kind(booking))
        for piece in pieces(count) if split or count == 0 else (count,):
            self._claim_at_once(booking, shape, piece, member)

    def _kind(self, booking: Booking) -> str | None:
        """The GPU type that has most slots for the booking, beside those that its jobs hold."""
        slots: dict[str | None, int] = {}
        for job in self._real.active.values():
            for worker in job.workers if booking.admits(job) else ():
                if worker.node in self._real.nodes:
                    kind = self._real.nodes[worker.node].gpu_type
                    slots[kind] = slots.get(kind, 0) - len(worker.slot_ids)
        for node in self._real.nodes.values():
            if node.schedulable and node.suits(booking.shape):
                slots[node.gpu_type] = slots.get(node.gpu_type, 0) + node.slots
        return min(slots, key=lambda kind: (-slots[kind], kind or ""), default=None)

    def _claim_at_once(self, booking: Booking, shape: WorkerShape, count: int, member: JobId | None) -> None:
        job_id, spec = next(self._ids), JobSpec("", (), shape=replace(shape, oversell=False))
        # each claim ranks below the one before, which then does not block it where it has no use for the room
        priority = CLAIM_PRIORITY - 1 - len(self._claims)
        self._claims[job_id] = Placeholder(
            job_id, spec, priority, count, count, self._now, self._now, booking=booking.name, member=member
        )

    def _keep_to(self, job_id: JobId, most: int) -> None:
        """The job neither starts nor grows beyond `most` workers."""
        job = scheduled_job(self._real, job_id)
        if job.state is not JobState.QUEUED:
            self._changed[job_id] = replace(job, max_workers=min(job.max_workers, max(_size(job), most)))
        elif most < job.min_workers:
            self._set_apart(job, WaitReason.BEHIND_BOOKING)
        else:
            self._changed[job_id] = replace(job, max_workers=min(job.max_workers, most))

    def _set_apart(self, job: Job, reason: WaitReason) -> None:
        self._changed[job.id] = replace(job.unreserved(), state=JobState.SUSPENDED)
        self._apart[job.id] = reason

    def _hand_over(
        self, member: JobId, placement: Placement, takes: dict[JobId, Start | Grow], frees: list[Action]
    ) -> None:
        """Let the member start larger, or grow, by what was claimed for it, if it can use that now."""
        mine = takes.get(member)
        if mine is not None:
            if not mine.shared and self._alike(
                (*(name for name, _ in mine.placement), *(name for name, _ in placement))
            ):
                takes[member] = replace(mine, placement=_together(mine.placement, placement))
            return
        job = self._real.active.get(member)
        if job is None or job.state is not JobState.RUNNING or not all(w.wanted and w.member for w in job.workers):
            return
        cooled = cooled_at(job, self._settings)
        if cooled > self._now:
            self._looks.append(cooled)
        elif self._alike((job.workers[0].node, *(name for name, _ in placement))) and all(
            action.job_id != member for action in frees
        ):
            takes[member] = Grow(member, placement)

    def _alike(self, names: Iterable[NodeName]) -> bool:
        """Whether the nodes have GPUs of one type."""
        return len({self._real.nodes[name].gpu_type for name in names}) == 1

    def _waiting(self, made: Plan) -> dict[JobId, Waiting]:
        waiting = dict(made.waiting)
        started = {action.job_id for action in made.actions if isinstance(action, Start)}
        for job_id in {each for each in self._terms.barred if each in self._real.queued}:
            said = waiting[job_id].reason if job_id in waiting else self._real.queued[job_id].wait_reason
            if said in _LACKS and job_id not in started:
                waiting[job_id] = Waiting(WaitReason.BEHIND_BOOKING)
        waiting |= {job_id: Waiting(reason) for job_id, reason in self._apart.items()}
        return not_carried(self._real, waiting)


def _size(job: Job) -> int:
    """Workers that the job has, at least its minimum: a job below it is topped up."""
    return max(len(job.wanted_workers), job.min_workers)


def _used(job: Job) -> int:
    """Slots that the active job holds, and those that it lacks for its minimum."""
    held = sum(len(worker.slot_ids) for worker in job.wanted_workers)
    if job.finishing or job.state not in _SIZED:
        return held
    return held + (_size(job) - len(job.wanted_workers)) * job.shape.slots


def _together(one: Placement, other: Placement) -> Placement:
    counts = dict(one)
    for name, count in other:
        counts[name] = counts.get(name, 0) + count
    return tuple(sorted(counts.items()))
