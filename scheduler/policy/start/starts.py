"""The waiting queue, in order: each job starts, gets a reservation, or stays where it is.

Jobs come in lines of those that are alike. A line whose next job cannot start whatever is tried is parked: nobody in it
is looked at again before something opens.

One pass takes from others for so many jobs only that it stays short in any cluster; those who are left are looked at
again soon after, and the first of them is protected as any blocked job is.
"""

import heapq
import math
from bisect import bisect_right
from dataclasses import dataclass, replace

from scheduler.model.job import Job, Placement, WaitReason
from scheduler.model.plan import Waiting
from scheduler.model.shape import WorkerShape
from scheduler.policy.capacity.ledger import View
from scheduler.policy.capacity.placement import Fits, Spots, Suited
from scheduler.policy.capacity.resources import Rows, Spare, row
from scheduler.policy.draft import Draft
from scheduler.policy.preempt.search import apply, dominated, find_takings, share_with
from scheduler.policy.preempt.victims import Victims
from scheduler.policy.snapshot.order import Rank
from scheduler.policy.snapshot.queue import Line
from scheduler.policy.snapshot.taking import Taking
from scheduler.policy.start.backfill import Blocked, promise
from scheduler.policy.start.failed_attempts import Failures
from scheduler.policy.start.fixed_starts import FixedStarts, promise_with_fixed
from scheduler.policy.start.fixed_starts import Limit as FixedLimit
from scheduler.policy.start.redraft import Fillers

#: Jobs for which one pass takes from others at most; the next one goes on.
TAKERS_MAX = 128
#: When that is, in seconds.
GO_ON_SECONDS = 1.0
#: The rank of the next job, its index in its line, and the line; none where the job is looked at alone.
Head = tuple[Rank, int, Line | None]


class Starts:
    """One pass over the queue. Afterwards `left` are the jobs outside all lines for which no reason was found yet."""

    def __init__(self, draft: Draft, fillers: Fillers, *, promises: bool = True) -> None:
        """Without promises, who cannot be placed is not protected from those behind it.

        `fillers` got in the draft before this one what those may have who could take it from them.
        """
        self.draft = draft
        self._promises = promises
        self._fillers = fillers
        #: The first job that could not be placed; those behind it must not delay it.
        self.blocked: Blocked | None = None
        self.left: list[tuple[Job, Suited]] = []
        #: The highest priority of those whom only the blocked job may have kept from starting.
        self.kept_back: int | None = None
        #: Lines that cannot start whatever is free.
        self.impossible: dict[Line, WaitReason] = {}
        self._victims = Victims(draft)
        self._limits: dict[int, Limit] = {}
        #: Attempts that failed with nothing in their way but capacity, and behind the blocked job.
        self._failed = Failures()
        self._failed_behind = Failures()
        self._fixed = FixedStarts(draft, self._victims)
        #: Jobs for which this pass took from others.
        self._takers = 0
        self._parked: list[Line] = []

    def run(self) -> None:
        draft = self.draft
        heads: list[Head] = [(draft.order.rank(job), 0, None) for job in draft.survey.queue.singles.values()]
        for each in draft.survey.queue.lines:
            impossible = draft.places.suited(each.shape).impossible(each.min_workers)
            if impossible is None:
                heads.append((each.ranks[0], 0, each))
            else:
                self.impossible[each] = impossible
        heapq.heapify(heads)
        while heads:
            rank, k, line = heapq.heappop(heads)
            openings = draft.openings
            if line is None:
                self._single(draft.world.queued[rank[2]])
            else:
                self._next_of(line, k, heads)
            if draft.openings > openings:
                for parked in self._parked:
                    _push(heads, parked, bisect_right(parked.ranks, rank))
                self._parked.clear()

    def _next_of(self, line: Line, k: int, heads: list[Head]) -> None:
        """Place the job at the head of its line, or find out who of the line comes next."""
        hopeful = self._hopeful(line, k)
        if hopeful is None:
            self._parked.append(line)
        elif hopeful > k:
            _push(heads, line, hopeful)
        else:
            self._attempt(self.draft.world.queued[line.ranks[k][2]], self.draft.places.suited(line.shape), ())
            _push(heads, line, k + 1)

    def _hopeful(self, line: Line, k: int) -> int | None:
        """The first of the line, from this one on, for whom no attempt as easy failed already; None: there is none."""
        attempt = (self.draft.openings, line.shape, line.min_workers)
        failed, blocked, first = self._failed.up_to(*attempt), self.blocked, self._member(line, k).priority
        if first <= failed:
            return None
        if blocked is None or first > self._failed_behind.up_to(*attempt):
            return k
        # only those have hope that the blocked job does not bound
        end = self._first_below(line, k, failed + 1)
        if self.draft.now + min(line.limits, default=math.inf) > blocked.shadow:
            k = self._first_below(line, k, blocked.job.priority) if line.preemptible else end
        return next((j for j in range(k, end) if self._spare(self._member(line, j)) is None), None)

    def _first_below(self, line: Line, k: int, priority: float) -> int:
        """The index of the first of the line, from this one on, that has a lower priority."""
        return bisect_right(line.ranks, -priority, k, key=lambda rank: -self.draft.world.queued[rank[2]].priority)

    def _member(self, line: Line, k: int) -> Job:
        return self.draft.world.queued[line.ranks[k][2]]

    def _spare(self, job: Job) -> Spare | None:
        """What limits the job if it starts now."""
        return self.blocked.bounds(self.draft, job) if self.blocked is not None else None

    def _single(self, job: Job) -> None:
        draft = self.draft
        suited = draft.places.suited(job.shape)
        fixed = job.spec.fixed is not None
        impossible = self._fixed.impossible(job) if fixed else suited.impossible(job.min_workers)
        if impossible is not None or job.not_before > draft.now:
            self._pass_over(job, impossible)
            return
        if fixed:
            if not self._attempt_with_fixed(job):
                self.left.append((job, suited))
            return
        own = draft.unhold(job)[0] if job.id in draft.holding else ()
        behind = not own and self._spare(job) is not None
        failed = self._failed_behind.up_to(draft.openings, job.shape, job.min_workers)
        hopeless = behind and job.priority <= failed
        if hopeless or not self._attempt(job, suited, own):
            self.left.append((job, suited))

    def _pass_over(self, job: Job, impossible: WaitReason | None) -> None:
        """A job that cannot start whatever is free holds nothing."""
        draft = self.draft
        if job.id in draft.holding:
            draft.unhold(job)
            draft.openings += 1
        draft.waiting[job.id] = Waiting(impossible or WaitReason.BACKOFF)
        if impossible is None:
            draft.look_at(job.not_before)

    def _attempt(self, job: Job, suited: Suited, own: Placement) -> bool:
        """Whether it starts or gets a reservation; `own` is what was reserved for it until now."""
        limit = self._limit(job)
        if self._start(job, suited, own, limit) or self._keep(job, suited, own) or self._reserve(job, suited, limit):
            return True
        self._leave_waiting(job, own)
        return False

    def _attempt_with_fixed(self, job: Job) -> bool:
        """The same for a job with a fixed group."""
        draft = self.draft
        own: tuple[Placement, Placement] = draft.unhold(job) if job.id in draft.holding else ((), ())
        limit = self._limit(job)
        may_take = self._takers < TAKERS_MAX
        bounds = FixedLimit(limit.bounds, (limit.spare,)) if limit is not None else None
        got = self._fixed.attempt(job, own, bounds, may_take=may_take)
        if got is None:
            if not may_take:
                draft.look_at(draft.now + GO_ON_SECONDS)
            if limit is not None:
                self._keep_back(job)
            self._leave_waiting(job, own[0])
            return False
        self._takers += got.takes
        if limit is not None:
            self._use(limit, job, got.spots)
        if got.held is not None:
            draft.waiting[job.id] = Waiting(WaitReason.WAITING_FOR_VICTIMS)
        return True

    def _leave_waiting(self, job: Job, own: Placement) -> None:
        """It gets nothing; `own` was reserved for it until now."""
        if own:
            self.draft.openings += 1
        if self.blocked is None and self._promises:
            promised = promise if job.spec.fixed is None else promise_with_fixed
            self.blocked = promised(self.draft, job)

    def _limit(self, job: Job) -> "Limit | None":
        """The blocked job's claim does not protect who is less important than this one, too."""
        spare = self._spare(job)
        if spare is None:
            return None
        limit = self._limits.get(job.priority)
        below = self.draft.stakes.below(job.priority)
        state = (self.draft.openings, self._fillers.uses)
        if limit is None or limit.below is not below or (self._fillers and limit.state != state):
            lent = self._fillers.added(below, job.priority)
            limit = self._limits[job.priority] = Limit(spare, below, lent, spare.widened(lent), self._fillers, state)
        return limit

    def _use(self, limit: "Limit", job: Job, spots: Spots) -> None:
        """The job has these spots now; what was taken for it is lent no more."""
        self.draft.stakes.below(job.priority)
        limit.use(job, spots)

    def _start(self, job: Job, suited: Suited, own: Placement, limit: "Limit | None") -> bool:
        """Start it on what is open, on what was reserved for it, or on what less important jobs hold."""
        draft = self.draft
        fits = suited.fits(View.OPEN, limit.bounds if limit else None)
        spots = fits.place(job.min_workers)
        if spots is not None or (draft.holding and self._take_over(job, suited, fits, limit)):
            spots = spots or fits.place(job.min_workers)
            if limit is not None:
                self._use(limit, job, spots or {})
        else:
            # What was promised before does not delay a job that came to be ahead later.
            spots = self._fitting(job, suited, own, View.OPEN)
        if spots is None:
            return False
        draft.start(job, spots)
        return True

    def _take_over(self, job: Job, suited: Suited, fits: Fits, limit: "Limit | None") -> bool:
        """Give up as few reservations of less important jobs as let this one start; none if that cannot be."""
        draft = self.draft
        if self._victims.room_with_reservations(job, suited, limit.bounds if limit else None) < job.min_workers:
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

    def _keep(self, job: Job, suited: Suited, own: Placement) -> bool:
        """Go on waiting for what is reserved, if that is still being freed."""
        if self._fitting(job, suited, own, View.SOON) is None:
            return False
        self._hold(job, own)
        return True

    def _fitting(self, job: Job, suited: Suited, own: Placement, view: View) -> Spots | None:
        """The reserved spots, if they are still what the job needs and available in this view."""
        spots = self.draft.places.spots(own)
        if not spots or sum(spots.values()) != job.min_workers or not suited.types.keys() >= spots.keys():
            return None
        fits = suited.fits(view)
        if len({suited.types[i] for i in spots}) > 1 or any(fits.known(i) < count for i, count in spots.items()):
            return None
        return spots

    def _reserve(self, job: Job, suited: Suited, limit: "Limit | None") -> bool:
        """Wait for what is being freed already, or else take from less important jobs."""
        draft = self.draft
        spare = limit.bounds if limit else None
        soon = suited.fits(View.SOON, spare)
        spots = soon.place(job.min_workers)
        if spots is None:
            takings = self._takings(job, suited, spare)
            if takings is None:
                return False
            if spare is not None:  # it may use what it takes
                soon = suited.fits(View.SOON, spare.as_it_is())
            apply(draft, job, takings, self._victims)
            self._takers += 1
            spots = soon.place(job.min_workers)
        assert spots is not None, "takings are enough for the job"
        if limit is not None:
            self._use(limit, job, spots)
        self._hold(job, draft.places.named(spots))
        return True

    def _takings(self, job: Job, suited: Suited, spare: Spare | None) -> list[Taking] | None:
        """What has to be taken for the job to fit; None if it does not fit whatever is taken, in this pass."""
        draft, victims = self.draft, self._victims
        if self._takers >= TAKERS_MAX:
            draft.look_at(draft.now + GO_ON_SECONDS)
            self._fail(job, job.shape, job.min_workers, spare)
            return None
        takings = None
        reach = victims.reach(job, suited, spare)
        if reach >= job.min_workers:
            takings = find_takings(draft, job, suited, victims, spare)
        if takings is None:
            with_equals = victims.reach_with_equals(job, suited, spare)
            if with_equals >= job.min_workers:
                takings = share_with(draft, job, suited, victims, spare)
            reach = max(reach, with_equals)
        if takings is None:
            self._fail(job, job.shape, min(reach + 1, job.min_workers), spare)
            slots = replace(job.shape, cpus=0.0, memory_mib=0)
            reach = victims.reach_of_any(job, draft.places.suited(slots), spare)
            if reach < job.min_workers:  # whatever CPUs and memory it needs
                self._fail(job, slots, reach + 1, spare)
        return takings

    def _fail(self, job: Job, shape: WorkerShape, count: int, spare: Spare | None) -> None:
        """So many workers of this shape find no room at the job's priority."""
        if spare is not None:
            self._keep_back(job)
        failed = self._failed if spare is None else self._failed_behind
        failed.note(self.draft.openings, shape, count, job.priority)

    def _keep_back(self, job: Job) -> None:
        """Only the blocked job may have kept it from starting."""
        self.kept_back = job.priority if self.kept_back is None else max(self.kept_back, job.priority)

    def _hold(self, job: Job, placement: Placement) -> None:
        self.draft.hold(job, placement)
        self.draft.waiting[job.id] = Waiting(WaitReason.WAITING_FOR_VICTIMS)


@dataclass(frozen=True, slots=True)
class Limit:
    """What a job behind the blocked one may use: what that one leaves, and what less important jobs hold anyway."""

    spare: Spare
    #: Held by jobs that are less important than this one, as the draft goes on.
    below: Rows
    #: The same, and what they would get.
    lent: Rows
    bounds: Spare
    fillers: Fillers
    #: Openings of the draft and uses of the fillers when it was made.
    state: tuple[int, int]

    def use(self, job: Job, spots: Spots) -> None:
        """The job has these spots now."""
        for i, count in spots.items():
            self.spare.use_beyond(row(self.lent, i), i, job.shape, count)
        self.fillers.use(spots, job.shape, job.priority)


def _push(heads: list[Head], line: Line, k: int) -> None:
    if k < len(line.ranks):
        heapq.heappush(heads, (line.ranks[k], k, line))
