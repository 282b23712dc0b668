"""A plan in the making: the decisions so far, and the ledger that they leave."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.job_state import StopReason
from scheduler.model.plan import Action, Grow, Plan, Release, Reserve, Shrink, Start, StopJob, Waiting
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import LeaveReason, Worker
from scheduler.policy.capacity.placement import NodeCounts
from scheduler.policy.capacity.pools import Group, Placements, is_shared, reserved, shapes_of, whole
from scheduler.policy.capacity.priority_sums import SumsBelow
from scheduler.policy.capacity.request import Chosen, Request, request_of
from scheduler.policy.capacity.resources import Amount, Held, Rows, needs, pour
from scheduler.policy.queues.shares import Counts, Shares, Standing
from scheduler.policy.queues.tree import TOP, Lane
from scheduler.policy.snapshot.order import end_of
from scheduler.policy.snapshot.snapshot import Snapshot
from scheduler.policy.snapshot.standing import standing_of
from scheduler.policy.snapshot.usage_index import held_by

#: Time for which a draft takes from others for any number of jobs, in seconds from the first of them on.
LATE_SECONDS = 0.5
#: Number of jobs for which it does so even then.
TAKERS_MIN = 128
#: Time after which it does so for no other job at all, in seconds. The first one is always served: every plan comes on.
VERY_LATE_SECONDS = 1.0
#: Time until the next plan goes on, in seconds.
GO_ON_SECONDS = 1.0


class Draft:
    """Decisions so far. Every method keeps the ledger in step with them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        #: When it was first asked for another job to take, in seconds since the plan began; None: not yet.
        self._takes_since: float | None = None
        self.world = snapshot.world
        self.now = snapshot.order.now
        self.settings = snapshot.settings
        self.order = snapshot.order
        self.ledger = snapshot.ledger
        self.places = snapshot.places
        self.usages = snapshot.usages
        self.victim_table = snapshot.victim_table
        #: What queues hold as the draft goes on; None: there are no queues.
        self.shares = Shares(_standing(snapshot)) if snapshot.tree else None
        #: Grows with every change that may let a job fit that did not fit before.
        self.openings = 0
        self.starts: dict[JobId, Chosen] = {}
        self.grows: dict[JobId, NodeCounts] = {}
        #: Running jobs to which growth gave slots, placed or not yet: nothing is taken from these.
        self.growing: set[JobId] = set()
        self.shrinks: dict[JobId, list[Shrink]] = {}
        self.stops: dict[JobId, StopJob] = {}
        #: Jobs for which this draft takes from others.
        self.takers: set[JobId] = set()
        #: Capacity held for queued jobs, in the order in which it was held.
        self.holding: dict[JobId, Placements] = {}
        #: Jobs with held capacity, by queue, as the own account of lanes.
        self._holders: defaultdict[str, dict[JobId, Job]] = defaultdict(dict)
        self._held_below = SumsBelow(len(self.ledger.nodes), self._pour_between)
        self.waiting: dict[JobId, Waiting] = {}
        self.next_look_at: float | None = None
        self._staying: dict[JobId, tuple[Worker, ...]] = {}
        for job_id in sorted(self.world.reserved):
            if job_id in self.world.queued:
                job = self.world.reserved[job_id]
                self.hold(job, reserved(job))
        #: What was held before: the same object is in `holding` as long as it is.
        self._held_before = dict(self.holding)

    def staying(self, job: Job) -> tuple[Worker, ...]:
        """The active job's workers that nobody asked to leave, in the world or in this draft; oldest first."""
        return self._staying[job.id] if job.id in self._staying else self.usages[job.id].staying

    def offered(self, job: Job) -> Held:
        """Amounts that others may take of the active job, by position."""
        if job.spec.preemptible:
            return self.held(job)
        return held_by(self.usages[job.id].offered_of(self.staying(job)), self.ledger)

    def kept(self, job: Job) -> Held:
        """Amounts that nobody may take of the active job, by position."""
        if job.spec.preemptible:
            return ()
        return held_by(self.usages[job.id].kept_of(self.staying(job)) + self._fixed(job), self.ledger)

    def held(self, job: Job) -> Held:
        """Amounts that the staying workers and the fixed group hold, by position."""
        if job.id not in self._staying:
            return self.usages[job.id].held
        return held_by(self._staying[job.id] + self._fixed(job), self.ledger)

    def touched(self, job: Job) -> bool:
        """Whether the draft changes the size of this active job."""
        return job.id in self.shrinks or job.id in self.stops or job.id in self.grows

    def near_end(self, job: Job) -> bool:
        """Whether a time limit ends its attempt, or the one that begins now, too soon for a resize to pay."""
        end = end_of(job, job.started_at if job.state.active else self.now)
        return end is not None and end - self.now < self.settings.near_end_seconds

    def request(self, job: Job) -> Request:
        """All that the job needs to start."""
        return request_of(self.ledger, self.places, job)

    def lane(self, job: Job) -> Lane:
        """The lane of the job among queues."""
        return self.snapshot.tree.lane_of(job)

    def outranks(self, a: Job, b: Job) -> bool:
        """Whether `a` may take from `b` because it is more important; among queues, importance says nothing."""
        lane = self.lane(a)
        return (lane is TOP or lane.own == self.lane(b).own) and self.order.more_important(a, b)

    def admits(self, job: Job, group: Group) -> bool:
        """Whether limits and guarantees of its queues let the job have one more worker in this group."""
        shares, lane = self.shares, self.lane(job)
        if shares is None or group[0]:
            return True
        counts = shares.standing.typed(group[1], job.shape.slots)
        return shares.room(lane, counts) and (job.spec.shrinkable or shares.pins(lane, counts))

    def may_take(self, job_id: JobId | None = None) -> bool:
        """Whether this draft may take for the job, or for one more: where it is late, the rest are looked at soon."""
        takers = len(self.takers)
        if not takers or job_id in self.takers:
            return True
        if self._takes_since is None:
            self._takes_since = self.snapshot.seconds()
        if self.snapshot.seconds() - self._takes_since < (VERY_LATE_SECONDS if takers < TAKERS_MIN else LATE_SECONDS):
            return True
        self.look_at(self.now + GO_ON_SECONDS)
        return False

    def may_reclaim(self, lane: Lane) -> bool:
        """Whether running jobs of the lane might take from other queues."""
        return self.shares is not None and lane is not TOP and self.shares.lacks(lane)

    def start(self, job: Job, chosen: Chosen) -> None:
        self.starts[job.id] = tuple(map(dict, chosen))
        for shape, node_counts in zip(shapes_of(job), chosen, strict=True):
            self._occupy(shape, node_counts)
        self.count(job, self.given_to(job), surplus=False)

    def count(self, job: Job, held: Iterable[tuple[int, Amount]], sign: int = 1, *, surplus: bool = True) -> None:
        """Count these amounts as held by the job's queues, or with sign -1 as held no more.

        `surplus`: they are beyond its minimum.
        """
        if self.shares is not None:
            takeable = job.spec.shrinkable if surplus else job.spec.preemptible
            self.shares.put(self.lane(job), held, sign, pinned=not takeable)

    def asked(self, shape: WorkerShape, slots: int) -> Counts:
        """This many slots of workers of the shape, as `Standing.asked` says; nothing where there are no queues."""
        return () if self.shares is None else self.shares.standing.asked(shape.gpu_type, slots)

    def given_to(self, job: Job) -> Iterator[tuple[int, Amount]]:
        """Amounts that a job started by this draft gets, by position."""
        for shape, node_counts in zip(shapes_of(job), self.starts[job.id], strict=True):
            for i, count in node_counts.items():
                yield from self.ledger.spread(i, needs(shape, count))

    def added_to(self, job: Job) -> Iterator[tuple[int, Amount]]:
        """Amounts that a job grown by this draft gets, by position."""
        yield from self.amounts(job, self.grows[job.id])

    def grow(self, job: Job, node_counts: NodeCounts) -> None:
        """Add workers to a running job, or to one that this draft starts."""
        total = self.starts[job.id][0] if job.id in self.starts else self.grows.setdefault(job.id, {})
        for i, count in node_counts.items():
            total[i] = total.get(i, 0) + count
        self._occupy(job.shape, node_counts)
        self.count(job, self.amounts(job, node_counts))

    def amounts(self, job: Job, node_counts: NodeCounts) -> list[tuple[int, Amount]]:
        """Amounts of this many workers of the job, by position."""
        return [piece for i, n in node_counts.items() for piece in self.ledger.spread(i, needs(job.shape, n))]

    def shrink(self, job: Job, workers: tuple[Worker, ...], reason: LeaveReason, for_job: JobId | None = None) -> None:
        """These workers leave the job; those that leave for one cause do so together."""
        ids = tuple(worker.id for worker in workers)
        gone = frozenset(ids)
        shrinks = self.shrinks.setdefault(job.id, [])
        k = next((k for k, each in enumerate(shrinks) if (each.reason, each.for_job) == (reason, for_job)), None)
        if k is None:
            shrinks.append(Shrink(job.id, ids, reason, for_job))
        else:
            shrinks[k] = replace(shrinks[k], workers=shrinks[k].workers + ids)
        self._leave(job, workers, tuple(w for w in self.staying(job) if w.id not in gone))

    def stop(self, job: Job, reason: StopReason, for_job: JobId | None = None) -> None:
        """Stop the job; this replaces its earlier shrinks in the draft."""
        leaving = self.staying(job) + self._fixed(job)
        self.shrinks.pop(job.id, None)
        self.stops[job.id] = StopJob(job.id, reason, for_job)
        self._leave(job, leaving, ())

    def hold(self, job: Job, placements: Placements) -> None:
        """Hold capacity for the waiting job."""
        self.holding[job.id] = placements
        self._holders[self.lane(job).own][job.id] = job
        self._hold(job, 1)

    def unhold(self, job: Job) -> Placements:
        """Stop holding capacity for the job; returns what was held for it."""
        self._hold(job, -1)
        del self._holders[self.lane(job).own][job.id]
        return self.holding.pop(job.id)

    def held_for(self, job: Job) -> list[tuple[int, Amount]]:
        """Amounts held for the waiting job, by position."""
        each = zip(shapes_of(job), self.holding[job.id], strict=True)
        return [piece for shape, placement in each for piece in self.places.amounts(placement, shape)]

    def dominated_by(self, job: Job) -> list[Job]:
        """Waiting jobs whose reservation this one may take over, least important first."""
        lane, priority = self.lane(job), job.priority
        queues = self._holders if lane is TOP else (lane.own,)
        lower = [holder for queue in queues for holder in self.holders_in(queue) if holder.priority < priority]
        return self.order.queue(holder for holder in lower if self.order.more_important(job, holder))[::-1]

    def carried_in(self, lane: Lane) -> Iterator[Job]:
        """Waiting jobs of the lane that have what was reserved for them before this draft."""
        return (job for job in self._reserved[lane] if self.holding.get(job.id) is self._held_before[job.id])

    @property
    def reserving(self) -> Iterable[Lane]:
        """Lanes with jobs for which something was reserved before this draft."""
        return self._reserved.keys()

    @cached_property
    def _reserved(self) -> dict[Lane, list[Job]]:
        found: defaultdict[Lane, list[Job]] = defaultdict(list)
        for job_id in self.world.reserved:
            if job_id in self.world.queued:
                job = self.world.reserved[job_id]
                found[self.lane(job)].append(job)
        return found

    def holders_in(self, own: str) -> Iterable[Job]:
        """Waiting jobs with held capacity of the queue with this account."""
        return self._holders[own].values() if own in self._holders else ()

    def active_in(self, own: str) -> Sequence[Job]:
        """Active jobs of the queue with this account."""
        return self._active.get(own, ())

    @cached_property
    def _active(self) -> dict[str, list[Job]]:
        found: defaultdict[str, list[Job]] = defaultdict(list)
        for job in self.world.active.values():
            found[self.lane(job).own].append(job)
        return found

    def last_waiting_in(self, own: str) -> Sequence[Job]:
        """Waiting jobs of the queue with this account that are looked at alone, and the last one of each class."""
        return self._last_waiting.get(own, ())

    @cached_property
    def _last_waiting(self) -> dict[str, list[Job]]:
        found, waiting_jobs = defaultdict[str, list[Job]](list), self.snapshot.waiting_jobs
        for job in waiting_jobs.singles.values():
            found[self.lane(job).own].append(job)
        for job_class in waiting_jobs.job_classes:
            found[job_class.lane.own].append(self.world.queued[job_class.ranks[-1][-1]])
        return found

    def held_below(self, priority: int) -> Rows:
        """Amounts held for waiting jobs of lower priority; see `SumsBelow.below`."""
        return self._held_below.below(priority)

    def look_at(self, when: float) -> None:
        """Ask for another plan at this time, which may differ although nothing else happens; infinite: never."""
        if self.now < when < math.inf and (self.next_look_at is None or when < self.next_look_at):
            self.next_look_at = when

    def plan(self) -> Plan:
        """The plan: actions that free slots come first, then reservations, then actions that take slots."""
        actions: list[Action] = [self.stops[job_id] for job_id in sorted(self.stops)]
        for job_id in sorted(self.shrinks):
            actions += self.shrinks[job_id]
        actions += self._reservation_actions()
        for job_id, chosen in self.starts.items():
            placement, *fixed = map(self.places.named, chosen)
            actions.append(Start(job_id, *whole(placement), *fixed))
        actions += [Grow(job_id, *whole(self.places.named(node_counts))) for job_id, node_counts in self.grows.items()]
        shares = self.shares.standing.shares if self.shares is not None else ()
        return Plan(tuple(actions), self.waiting, self.next_look_at, shares)

    def _reservation_actions(self) -> list[Action]:
        actions: list[Action] = [
            Release(job_id)
            for job_id in sorted(self.world.reserved)
            if job_id not in self.holding and job_id not in self.starts
        ]
        for job_id, placements in self.holding.items():
            if reserved(self.world.queued[job_id]) != placements:
                placement, *fixed = placements
                actions.append(Reserve(job_id, *whole(placement), *fixed))
        return actions

    def _pour_between(self, rows: Rows, least: float, above: float, sign: int) -> None:
        """Add the amounts held for waiting jobs of these priorities."""
        for holders in self._holders.values():
            for holder in holders.values():
                if least <= holder.priority < above:
                    pour(rows, self.held_for(holder), sign)

    def _hold(self, job: Job, sign: int) -> None:
        for shape, placement in zip(shapes_of(job), self.holding[job.id], strict=True):
            self.ledger.hold(placement, shape, sign)
        held = tuple(self.held_for(job))
        self._held_below.note(job.priority, held, sign)
        self.count(job, held, sign, surplus=False)
        if self.shares is not None and is_shared(self.holding[job.id]):
            # it starts where limits leave it as much as on slots of its own: others may not have that before
            counts = self.shares.standing.typed(job.shape.gpu_type, job.min_workers * job.shape.slots)
            self.shares.put_counts(self.lane(job), counts, sign, pinned=False)

    def _fixed(self, job: Job) -> tuple[Worker, ...]:
        """Staying workers of the active job's fixed group."""
        return () if job.id in self.stops else self.usages[job.id].fixed

    def _occupy(self, shape: WorkerShape, node_counts: NodeCounts) -> None:
        for i, count in node_counts.items():
            self.ledger.take(i, shape, count)

    def _leave(self, job: Job, workers: tuple[Worker, ...], staying: tuple[Worker, ...]) -> None:
        """Let these workers leave, so that those stay."""
        usage, before = self.usages[job.id], self.staying(job)
        freed = usage.held_by({worker.id for worker in workers})
        self._staying[job.id] = staying
        if self.shares is not None:
            self.shares.leave(self.lane(job), freed)
            if not job.spec.preemptible:
                unkept = usage.kept_of(before) + tuple(worker for worker in workers if worker.fixed)
                self.shares.pin(self.lane(job), held_by(unkept, self.ledger), -1)
                self.shares.pin(self.lane(job), held_by(usage.kept_of(staying), self.ledger), 1)
        if usage.takeable:
            offered, fixed = usage.offered_of(staying), self._fixed(job) if job.spec.preemptible else ()
            if not job.spec.preemptible:  # older workers may come to be those that it keeps
                ids = {worker.id for worker in offered}
                gone = (worker for worker in usage.offered_of(before) if worker.id not in ids)
                self.victim_table.take(job.id, offered, fixed, held_by(gone, self.ledger))
            else:
                self.victim_table.take(job.id, offered, fixed, freed)
        for i, amount in freed:
            self.ledger.come(i, amount)
        self.openings += 1


def _standing(snapshot: Snapshot) -> Standing:
    """Where queues stand: all drafts of a pass begin with the same."""
    if snapshot.standing is None:
        snapshot.standing = standing_of(snapshot)
    return snapshot.standing
