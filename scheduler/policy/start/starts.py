"""The waiting queue, in order: each job starts, gets a reservation, or stays where it is.

Jobs come in classes of alike jobs. A class whose next job cannot start whatever is tried is parked: none of its jobs is
looked at again before something opens.

One pass takes from others for a limited number of jobs (`TAKERS_MAX`), so that it stays short in any cluster; the rest
are looked at again soon after, and the first of them is protected as any blocked job is.
"""

import heapq
import math
from bisect import bisect_right
from dataclasses import dataclass, replace

from scheduler.model.job import Job, Placement
from scheduler.model.job_state import WaitReason
from scheduler.model.plan import Waiting
from scheduler.model.shape import WorkerShape
from scheduler.policy.capacity.ledger import View
from scheduler.policy.capacity.placement import FeasibleNodes, Fits, NodeCounts
from scheduler.policy.capacity.resources import Headroom, Rows, row
from scheduler.policy.draft import Draft
from scheduler.policy.preempt.reservations import dominated
from scheduler.policy.preempt.search import apply, find_takings, share_with
from scheduler.policy.preempt.victims import Victims
from scheduler.policy.snapshot.order import Rank
from scheduler.policy.snapshot.queue import JobClass
from scheduler.policy.snapshot.taking import Taking
from scheduler.policy.start.backfill import HeadReservation, promise
from scheduler.policy.start.failed_attempts import Failures
from scheduler.policy.start.group_attempt import GroupLimit, GroupStarts
from scheduler.policy.start.redraft import BackfillGains

#: Number of jobs for which one pass takes from others; the next pass goes on.
TAKERS_MAX = 128
#: Time until the next pass goes on, in seconds.
GO_ON_SECONDS = 1.0
#: The rank of the next job, its index in its job class, and the class; None where the job is looked at alone.
Head = tuple[Rank, int, JobClass | None]


class Starts:
    """One pass over the queue. Afterwards `left` are the jobs outside all job classes that have no reason yet."""

    def __init__(
        self,
        draft: Draft,
        victims: Victims,
        group_starts: GroupStarts,
        backfill_gains: BackfillGains,
        *,
        promises: bool = True,
    ) -> None:
        """Without promises, a job that cannot be placed is not protected from those behind it.

        `backfill_gains` were got in the draft before this one; jobs that could take them may have them instead.
        """
        self.draft = draft
        self._promises = promises
        self._backfill_gains = backfill_gains
        #: The first job that could not be placed; jobs behind it must not delay it.
        self.head_reservation: HeadReservation | None = None
        self.left: list[tuple[Job, FeasibleNodes]] = []
        #: The highest priority of jobs that only the blocked job may have kept from starting.
        self.kept_back: int | None = None
        #: Job classes that cannot start whatever is free.
        self.impossible: dict[JobClass, WaitReason] = {}
        self._victims = victims
        self._limits: dict[int, BackfillLimit] = {}
        #: Attempts that failed for lack of capacity alone, and behind the blocked job.
        self._failed = Failures()
        self._failed_behind = Failures()
        self._group_starts = group_starts
        #: Number of jobs for which this pass took from others.
        self._takers = 0
        self._parked: list[JobClass] = []

    def run(self) -> None:
        draft = self.draft
        heads: list[Head] = [(draft.order.rank(job), 0, None) for job in draft.snapshot.queue.singles.values()]
        for each in draft.snapshot.queue.job_classes:
            impossible = draft.places.feasible(each.shape).impossible(each.min_workers)
            if impossible is None:
                heads.append((each.ranks[0], 0, each))
            else:
                self.impossible[each] = impossible
        heapq.heapify(heads)
        while heads:
            rank, k, job_class = heapq.heappop(heads)
            openings = draft.openings
            if job_class is None:
                self._single(draft.world.queued[rank[2]])
            else:
                self._next_of(job_class, k, heads)
            if draft.openings > openings:
                for parked in self._parked:
                    _push(heads, parked, bisect_right(parked.ranks, rank))
                self._parked.clear()

    def _next_of(self, job_class: JobClass, k: int, heads: list[Head]) -> None:
        """Place the next job of the class, or find the next one that has a chance."""
        hopeful = self._hopeful(job_class, k)
        if hopeful is None:
            self._parked.append(job_class)
        elif hopeful > k:
            _push(heads, job_class, hopeful)
        else:
            self._attempt(
                self.draft.world.queued[job_class.ranks[k][2]], self.draft.places.feasible(job_class.shape), ()
            )
            _push(heads, job_class, k + 1)

    def _hopeful(self, job_class: JobClass, k: int) -> int | None:
        """Index of the first job, from `k` on, for which no attempt as easy failed already; None: there is none."""
        attempt = (self.draft.openings, job_class.shape, job_class.min_workers)
        failed, head_reservation, first = (
            self._failed.up_to(*attempt),
            self.head_reservation,
            self._member(job_class, k).priority,
        )
        if first <= failed:
            return None
        if head_reservation is None or first > self._failed_behind.up_to(*attempt):
            return k
        # only jobs that the blocked job does not bound have a chance
        end = self._first_below(job_class, k, failed + 1)
        if self.draft.now + min(job_class.limits, default=math.inf) > head_reservation.promised_at:
            k = self._first_below(job_class, k, head_reservation.job.priority) if job_class.preemptible else end
        return next((j for j in range(k, end) if self._headroom(self._member(job_class, j)) is None), None)

    def _first_below(self, job_class: JobClass, k: int, priority: float) -> int:
        """The index of the first job, from `k` on, that has a lower priority."""
        return bisect_right(job_class.ranks, -priority, k, key=lambda rank: -self.draft.world.queued[rank[2]].priority)

    def _member(self, job_class: JobClass, k: int) -> Job:
        return self.draft.world.queued[job_class.ranks[k][2]]

    def _headroom(self, job: Job) -> Headroom | None:
        """The headroom that limits the job if it starts now; None if nothing does."""
        return self.head_reservation.bounds(self.draft, job) if self.head_reservation is not None else None

    def _single(self, job: Job) -> None:
        draft = self.draft
        feasible = draft.places.feasible(job.shape)
        fixed = job.spec.fixed is not None
        impossible = self._group_starts.impossible(job) if fixed else feasible.impossible(job.min_workers)
        if impossible is not None or job.not_before > draft.now:
            self._pass_over(job, impossible)
            return
        if fixed:
            if not self._attempt_with_fixed(job):
                self.left.append((job, feasible))
            return
        own = draft.unhold(job)[0] if job.id in draft.holding else ()
        behind = not own and self._headroom(job) is not None
        failed = self._failed_behind.up_to(draft.openings, job.shape, job.min_workers)
        hopeless = behind and job.priority <= failed
        if hopeless or not self._attempt(job, feasible, own):
            self.left.append((job, feasible))

    def _pass_over(self, job: Job, impossible: WaitReason | None) -> None:
        """A job that cannot start whatever is free holds nothing."""
        draft = self.draft
        if job.id in draft.holding:
            draft.unhold(job)
            draft.openings += 1
        draft.waiting[job.id] = Waiting(impossible or WaitReason.BACKOFF)
        if impossible is None:
            draft.look_at(job.not_before)

    def _attempt(self, job: Job, feasible: FeasibleNodes, own: Placement) -> bool:
        """Whether the job starts or gets a reservation; `own` is what was reserved for it until now."""
        limit = self._limit(job)
        if (
            self._start(job, feasible, own, limit)
            or self._keep(job, feasible, own)
            or self._reserve(job, feasible, limit)
        ):
            return True
        self._leave_waiting(job, own)
        return False

    def _attempt_with_fixed(self, job: Job) -> bool:
        """Whether a job with a fixed group starts or gets a reservation."""
        draft = self.draft
        own: tuple[Placement, Placement] = draft.unhold(job) if job.id in draft.holding else ((), ())
        limit = self._limit(job)
        may_take = self._takers < TAKERS_MAX
        bounds = GroupLimit(limit.bounds, (limit.headroom,)) if limit is not None else None
        got = self._group_starts.attempt(job, own, bounds, may_take=may_take)
        if got is None:
            if not may_take:
                draft.look_at(draft.now + GO_ON_SECONDS)
            if limit is not None:
                self._keep_back(job)
            self._leave_waiting(job, own[0])
            return False
        self._takers += got.takes
        if limit is not None:
            self._use(limit, job, got.node_counts)
        if got.held is not None:
            draft.waiting[job.id] = Waiting(WaitReason.WAITING_FOR_VICTIMS)
        return True

    def _leave_waiting(self, job: Job, own: Placement) -> None:
        """Leave the job waiting; `own` was reserved for it until now."""
        if own:
            self.draft.openings += 1
        if self.head_reservation is None and self._promises:
            self.head_reservation = promise(self.draft, job)

    def _limit(self, job: Job) -> "BackfillLimit | None":
        """Headroom behind the blocked job, plus what less important jobs hold; None if nothing limits the job."""
        headroom = self._headroom(job)
        if headroom is None:
            return None
        limit = self._limits.get(job.priority)
        below = self.draft.victim_table.below(job.priority)
        state = (self.draft.openings, self._backfill_gains.uses)
        if limit is None or limit.below is not below or (self._backfill_gains and limit.state != state):
            lent = self._backfill_gains.added(below, job.priority)
            limit = self._limits[job.priority] = BackfillLimit(
                headroom, below, lent, headroom.widened(lent), self._backfill_gains, state
            )
        return limit

    def _use(self, limit: "BackfillLimit", job: Job, node_counts: NodeCounts) -> None:
        """The job has these nodes now; what was taken for it is lent no more."""
        self.draft.victim_table.below(job.priority)
        limit.use(job, node_counts)

    def _start(self, job: Job, feasible: FeasibleNodes, own: Placement, limit: "BackfillLimit | None") -> bool:
        """Start the job on open slots, on its reservation, or on reservations of less important jobs."""
        draft = self.draft
        fits = feasible.fits(View.OPEN, limit.bounds if limit else None)
        node_counts = fits.place(job.min_workers)
        if node_counts is not None or (draft.holding and self._take_over(job, feasible, fits, limit)):
            node_counts = node_counts or fits.place(job.min_workers)
            if limit is not None:
                self._use(limit, job, node_counts or {})
        else:
            # A reservation made before does not delay a job that came to be ahead later.
            node_counts = self._fitting(job, feasible, own, View.OPEN)
        if node_counts is None:
            return False
        draft.start(job, node_counts)
        return True

    def _take_over(self, job: Job, feasible: FeasibleNodes, fits: Fits, limit: "BackfillLimit | None") -> bool:
        """Give up the fewest reservations of less important jobs that let this one start; none if they cannot."""
        draft = self.draft
        if self._victims.room_with_reservations(job, feasible, limit.bounds if limit else None) < job.min_workers:
            return False
        given_up: list[tuple[Job, tuple[Placement, Placement]]] = []
        for holder in dominated(draft, job):
            if fits.most() >= job.min_workers:
                break
            given_up.append((holder, draft.unhold(holder)))
        fitted = fits.most() >= job.min_workers
        for holder, held in reversed(given_up):
            draft.hold(holder, *held)
            if fitted and fits.most() < job.min_workers:
                draft.unhold(holder)
                draft.openings += 1
        return fitted

    def _keep(self, job: Job, feasible: FeasibleNodes, own: Placement) -> bool:
        """Keep the reservation, if its slots are still being freed."""
        if self._fitting(job, feasible, own, View.SOON) is None:
            return False
        self._hold(job, own)
        return True

    def _fitting(self, job: Job, feasible: FeasibleNodes, own: Placement, view: View) -> NodeCounts | None:
        """The reserved nodes, if they are still what the job needs and available in this view."""
        node_counts = self.draft.places.node_counts(own)
        if (
            not node_counts
            or sum(node_counts.values()) != job.min_workers
            or not feasible.types.keys() >= node_counts.keys()
        ):
            return None
        fits = feasible.fits(view)
        if len({feasible.types[i] for i in node_counts}) > 1 or any(
            fits.known(i) < count for i, count in node_counts.items()
        ):
            return None
        return node_counts

    def _reserve(self, job: Job, feasible: FeasibleNodes, limit: "BackfillLimit | None") -> bool:
        """Reserve slots that are being freed already, or else take from less important jobs."""
        draft = self.draft
        headroom = limit.bounds if limit else None
        soon = feasible.fits(View.SOON, headroom)
        node_counts = soon.place(job.min_workers)
        if node_counts is None:
            takings = self._takings(job, feasible, headroom)
            if takings is None:
                return False
            if headroom is not None:  # it may use what it takes
                soon = feasible.fits(View.SOON, headroom.as_it_is())
            apply(draft, job, takings, self._victims)
            self._takers += 1
            node_counts = soon.place(job.min_workers)
        assert node_counts is not None, "takings are enough for the job"
        if limit is not None:
            self._use(limit, job, node_counts)
        self._hold(job, draft.places.named(node_counts))
        return True

    def _takings(self, job: Job, feasible: FeasibleNodes, headroom: Headroom | None) -> list[Taking] | None:
        """Takings that let the job fit; None if it does not fit whatever is taken, in this pass."""
        draft, victims = self.draft, self._victims
        if self._takers >= TAKERS_MAX:
            draft.look_at(draft.now + GO_ON_SECONDS)
            self._fail(job, job.shape, job.min_workers, headroom)
            return None
        takings = None
        reach = victims.reach(job, feasible, headroom)
        if reach >= job.min_workers:
            takings = find_takings(draft, job, feasible, victims, headroom)
        if takings is None:
            with_equals = victims.reach_with_equals(job, feasible, headroom)
            if with_equals >= job.min_workers:
                takings = share_with(draft, job, feasible, victims, headroom)
            reach = max(reach, with_equals)
        if takings is None:
            self._fail(job, job.shape, min(reach + 1, job.min_workers), headroom)
            slots = replace(job.shape, cpus=0.0, memory_mib=0)
            reach = victims.reach_of_any(job, draft.places.feasible(slots), headroom)
            if reach < job.min_workers:  # whatever CPUs and memory it needs
                self._fail(job, slots, reach + 1, headroom)
        return takings

    def _fail(self, job: Job, shape: WorkerShape, count: int, headroom: Headroom | None) -> None:
        """Record that `count` workers of this shape find no room at the job's priority."""
        if headroom is not None:
            self._keep_back(job)
        failed = self._failed if headroom is None else self._failed_behind
        failed.note(self.draft.openings, shape, count, job.priority)

    def _keep_back(self, job: Job) -> None:
        """Record that only the blocked job may have kept the job from starting."""
        self.kept_back = job.priority if self.kept_back is None else max(self.kept_back, job.priority)

    def _hold(self, job: Job, placement: Placement) -> None:
        self.draft.hold(job, placement)
        self.draft.waiting[job.id] = Waiting(WaitReason.WAITING_FOR_VICTIMS)


@dataclass(frozen=True, slots=True)
class BackfillLimit:
    """Bounds of a job behind the blocked one: what that one leaves, and what less important jobs hold anyway."""

    headroom: Headroom
    #: Amounts held by jobs that are less important than this one, as the draft goes on.
    below: Rows
    #: Amounts that less important jobs hold, and would get by backfill.
    lent: Rows
    bounds: Headroom
    backfill_gains: BackfillGains
    #: Openings of the draft and uses of the backfill gains when the limit was made.
    state: tuple[int, int]

    def use(self, job: Job, node_counts: NodeCounts) -> None:
        """The job has these nodes now."""
        for i, count in node_counts.items():
            self.headroom.use_beyond(row(self.lent, i), i, job.shape, count)
        self.backfill_gains.use(node_counts, job.shape, job.priority)


def _push(heads: list[Head], job_class: JobClass, k: int) -> None:
    if k < len(job_class.ranks):
        heapq.heappush(heads, (job_class.ranks[k], k, job_class))
