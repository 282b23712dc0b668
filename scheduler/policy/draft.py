"""A plan in the making: the decisions so far, and the ledger that they leave."""

from collections.abc import Iterable, Iterator

from scheduler.model.fixed import FixedGroup
from scheduler.model.ids import JobId
from scheduler.model.job import Job, Placement
from scheduler.model.job_state import StopReason
from scheduler.model.plan import Action, Grow, Plan, Release, Reserve, Shrink, Start, StopJob, Waiting
from scheduler.model.worker import LeaveReason, Worker
from scheduler.policy.capacity.placement import NodeCounts
from scheduler.policy.capacity.pools import halves, whole
from scheduler.policy.capacity.priority_sums import SumsBelow
from scheduler.policy.capacity.resources import Amount, Held, Rows, needs, pour
from scheduler.policy.snapshot.order import end_of
from scheduler.policy.snapshot.snapshot import Snapshot
from scheduler.policy.snapshot.usage_index import held_by


class Draft:
    """Decisions so far. Every method keeps the ledger in step with them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.world = snapshot.world
        self.now = snapshot.order.now
        self.settings = snapshot.settings
        self.order = snapshot.order
        self.ledger = snapshot.ledger
        self.places = snapshot.places
        self.usages = snapshot.usages
        self.victim_table = snapshot.victim_table
        #: Grows with every change that may let a job fit that did not fit before.
        self.openings = 0
        self.starts: dict[JobId, NodeCounts] = {}
        #: Placement of the fixed groups of starting jobs.
        self.fixed_starts: dict[JobId, NodeCounts] = {}
        self.grows: dict[JobId, NodeCounts] = {}
        self.shrinks: dict[JobId, list[Shrink]] = {}
        self.stops: dict[JobId, StopJob] = {}
        #: Capacity held for queued jobs, in the order in which it was held.
        self.holding: dict[JobId, Placement] = {}
        #: Capacity held for the fixed groups of queued jobs.
        self.holding_fixed: dict[JobId, Placement] = {}
        #: Jobs with held capacity, by priority.
        self._holders: dict[int, dict[JobId, Job]] = {}
        self._held_below = SumsBelow(len(self.ledger.nodes), self._pour_between)
        self.waiting: dict[JobId, Waiting] = {}
        self.next_look_at: float | None = None
        self._staying: dict[JobId, tuple[Worker, ...]] = {}
        for job_id in sorted(self.world.reserved):
            if job_id in self.world.queued:
                job = self.world.reserved[job_id]
                self.hold(job, halves(job.reservation, job.reservation_shared), job.fixed_reservation)

    def staying(self, job: Job) -> tuple[Worker, ...]:
        """The active job's workers that nobody asked to leave, in the world or in this draft; oldest first."""
        return self._staying[job.id] if job.id in self._staying else self.usages[job.id].staying

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

    def start(self, job: Job, node_counts: NodeCounts) -> None:
        self.starts[job.id] = dict(node_counts)
        self._occupy(job, node_counts)

    def start_fixed(self, job: Job, group: FixedGroup, node_counts: NodeCounts) -> None:
        """Place the job's fixed group; `start` has to follow."""
        self.fixed_starts[job.id] = node_counts
        for i, count in node_counts.items():
            self.ledger.take(i, group.shape, count)

    def given_to(self, job: Job) -> Iterator[tuple[int, Amount]]:
        """Amounts that a job started by this draft gets, by position."""
        for i, count in self.starts[job.id].items():
            yield from self.ledger.spread(i, needs(job.shape, count))
        for i, count in self.fixed_starts.get(job.id, {}).items():
            assert job.spec.fixed is not None
            yield from self.ledger.spread(i, needs(job.spec.fixed.shape, count))

    def added_to(self, job: Job) -> Iterator[tuple[int, Amount]]:
        """Amounts that a job grown by this draft gets, by position."""
        for i, count in self.grows[job.id].items():
            yield from self.ledger.spread(i, needs(job.shape, count))

    def grow(self, job: Job, node_counts: NodeCounts) -> None:
        """Add workers to a running job, or to one that this draft starts."""
        total = self.starts[job.id] if job.id in self.starts else self.grows.setdefault(job.id, {})
        for i, count in node_counts.items():
            total[i] = total.get(i, 0) + count
        self._occupy(job, node_counts)

    def shrink(self, job: Job, workers: tuple[Worker, ...], reason: LeaveReason, for_job: JobId | None = None) -> None:
        ids = {worker.id for worker in workers}
        self._staying[job.id] = tuple(w for w in self.staying(job) if w.id not in ids)
        leaving = tuple(w.id for w in workers)
        self.shrinks.setdefault(job.id, []).append(Shrink(job.id, leaving, reason, for_job))
        self._leave(job, workers)

    def stop(self, job: Job, reason: StopReason, for_job: JobId | None = None) -> None:
        """Stop the job; this replaces its earlier shrinks in the draft."""
        leaving, self._staying[job.id] = self.staying(job) + self._fixed(job), ()
        self.shrinks.pop(job.id, None)
        self.stops[job.id] = StopJob(job.id, reason, for_job)
        self._leave(job, leaving)

    def hold(self, job: Job, placement: Placement, fixed: Placement = ()) -> None:
        """Hold capacity for the waiting job and its fixed group."""
        self.holding[job.id] = placement
        if fixed:
            self.holding_fixed[job.id] = fixed
        self._holders.setdefault(job.priority, {})[job.id] = job
        self._hold(job, placement, fixed, 1)

    def unhold(self, job: Job) -> tuple[Placement, Placement]:
        """Stop holding capacity for the job; returns what was held for it and its fixed group."""
        placement, fixed = self.holding.pop(job.id), self.holding_fixed.pop(job.id, ())
        del self._holders[job.priority][job.id]
        self._hold(job, placement, fixed, -1)
        return placement, fixed

    def held_for(self, job: Job) -> list[tuple[int, Amount]]:
        """Amounts held for the waiting job, by position."""
        return self._amounts(job, self.holding[job.id], self.holding_fixed.get(job.id, ()))

    def holders_below(self, priority: int) -> Iterator[Job]:
        """Waiting jobs of lower priority with held capacity."""
        for other, holders in self._holders.items():
            if other < priority:
                yield from holders.values()

    def holders_of(self, priority: int) -> Iterable[Job]:
        """Waiting jobs of this priority with held capacity."""
        return self._holders.get(priority, {}).values()

    def held_below(self, priority: int) -> Rows:
        """Amounts held for waiting jobs of lower priority; see `SumsBelow.below`."""
        return self._held_below.below(priority)

    def look_at(self, when: float) -> None:
        """Ask for another plan at this time, which may differ although nothing else happens."""
        if when > self.now and (self.next_look_at is None or when < self.next_look_at):
            self.next_look_at = when

    def plan(self) -> Plan:
        """The plan: actions that free slots come first, then reservations, then actions that take slots."""
        actions: list[Action] = [self.stops[job_id] for job_id in sorted(self.stops)]
        for job_id in sorted(self.shrinks):
            actions += self.shrinks[job_id]
        actions += self._reservation_actions()
        actions += [self._start_action(job_id, node_counts) for job_id, node_counts in self.starts.items()]
        actions += [Grow(job_id, *whole(self.places.named(node_counts))) for job_id, node_counts in self.grows.items()]
        return Plan(tuple(actions), self.waiting, self.next_look_at)

    def _reservation_actions(self) -> list[Action]:
        actions: list[Action] = [
            Release(job_id)
            for job_id in sorted(self.world.reserved)
            if job_id not in self.holding and job_id not in self.starts
        ]
        for job_id, placement in self.holding.items():
            job = self.world.queued[job_id]
            fixed = self.holding_fixed.get(job_id, ())
            if halves(job.reservation, job.reservation_shared) != placement or job.fixed_reservation != fixed:
                actions.append(Reserve(job_id, *whole(placement), fixed))
        return actions

    def _start_action(self, job_id: JobId, node_counts: NodeCounts) -> Start:
        fixed = self.fixed_starts.get(job_id)
        return Start(job_id, *whole(self.places.named(node_counts)), self.places.named(fixed) if fixed else ())

    def _pour_between(self, rows: Rows, least: float, above: float, sign: int) -> None:
        """Add the amounts held for waiting jobs of these priorities."""
        for priority, holders in self._holders.items():
            if least <= priority < above:
                for holder in holders.values():
                    pour(rows, self.held_for(holder), sign)

    def _hold(self, job: Job, placement: Placement, fixed: Placement, sign: int) -> None:
        self.ledger.hold(placement, job.shape, sign)
        if fixed and job.spec.fixed is not None:
            self.ledger.hold(fixed, job.spec.fixed.shape, sign)
        self._held_below.note(job.priority, tuple(self._amounts(job, placement, fixed)), sign)

    def _amounts(self, job: Job, placement: Placement, fixed: Placement) -> list[tuple[int, Amount]]:
        amounts = self.places.amounts(placement, job.shape)
        if fixed and job.spec.fixed is not None:
            amounts += self.places.amounts(fixed, job.spec.fixed.shape)
        return amounts

    def _fixed(self, job: Job) -> tuple[Worker, ...]:
        """Staying workers of the active job's fixed group."""
        return () if job.id in self.stops else self.usages[job.id].fixed

    def _occupy(self, job: Job, node_counts: NodeCounts) -> None:
        for i, count in node_counts.items():
            self.ledger.take(i, job.shape, count)

    def _leave(self, job: Job, workers: Iterable[Worker]) -> None:
        freed = held_by(workers, self.ledger)
        if self.usages[job.id].takeable:
            self.victim_table.take(job.id, self._staying[job.id], self._fixed(job), freed)
        for i, amount in freed:
            self.ledger.come(i, amount)
        self.openings += 1
