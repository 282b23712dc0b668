"""The waiting queue, in order: each job starts, gets a reservation, or stays where it is.

Jobs come in classes of alike jobs. A class whose next job cannot start whatever is tried is parked: none of its jobs is
looked at again before something opens.

Of jobs for which the pass may take nothing more from others (`Draft.may_take`), the first is protected as any blocked
job is.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from scheduler.model.job import Job
from scheduler.model.job_state import WaitReason
from scheduler.model.plan import Waiting
from scheduler.policy.capacity.ledger import View
from scheduler.policy.capacity.pools import Placements
from scheduler.policy.capacity.request import Chosen, Part, Request, impossible
from scheduler.policy.capacity.resources import Headroom
from scheduler.policy.draft import Draft
from scheduler.policy.preempt.search import Taker, apply, find_takings
from scheduler.policy.preempt.victims import Victims
from scheduler.policy.queues.tree import Lane
from scheduler.policy.queues.turns import Turn
from scheduler.policy.snapshot.order import Rank
from scheduler.policy.snapshot.taking import Taking
from scheduler.policy.snapshot.waiting_jobs import Head, JobClass, Judge, Minimum
from scheduler.policy.start.backfill import HeadReservation, held_by_less_important, promise
from scheduler.policy.start.backfill_limit import BackfillLimit
from scheduler.policy.start.failed_attempts import Failures
from scheduler.policy.start.hopes import Hopes, always
from scheduler.policy.start.line import Line
from scheduler.policy.start.overbooked import drop_overbooked
from scheduler.policy.start.queue_rules import QueueRules
from scheduler.policy.start.redraft import BackfillGains
from scheduler.policy.start.wait_reasons import explain


class Starts:
    """One pass over the queue. Afterwards `left` are the jobs outside all job classes that have no reason yet."""

    def __init__(self, draft: Draft, backfill_gains: BackfillGains, *, promises: bool = True) -> None:
        """Without promises, a job that cannot be placed is not protected from those behind it.

        `backfill_gains` were got in the draft before this one; jobs that could take them may have them instead.
        """
        self.draft = draft
        self._promises = promises
        self._backfill_gains = backfill_gains
        #: The first job that could not be placed; jobs behind it must not delay it.
        self.head_reservation: HeadReservation | None = None
        self.left: list[Job] = []
        #: Of the jobs in the blocked job's queue that only this one may have kept from starting: that of the highest
        #: priority.
        self.kept_back: Job | None = None
        #: Why jobs with these minimums cannot start whatever is free.
        self._impossible = self._find_impossible()
        self.victims = Victims(draft)
        self._rules = QueueRules(draft)
        self.hopes = Hopes(draft, self.victims)
        #: By queue and priority.
        self._limits: dict[tuple[str, int], BackfillLimit] = {}
        #: Attempts that failed for lack of capacity alone, and behind the blocked job; by queue.
        self._failed: defaultdict[str, Failures] = defaultdict(Failures)
        self._failed_behind: defaultdict[str, Failures] = defaultdict(Failures)
        #: Why each of these requests of jobs that are looked at alone can never be granted; None: it can.
        self._never: dict[Request, WaitReason | None] = {}
        self._requests: dict[Minimum, Request] = {}
        #: The index of the first job of a class that could not be placed, where it may be tried once more.
        self._first_failed: dict[JobClass, int] = {}
        drop_overbooked(draft)
        self._line = Line(draft, self._judge, self.hopes.in_others)
        self._line.line_up(self._first_heads())

    def run(self) -> None:
        """Look at all jobs."""
        while self.turn() is not None:
            self.serve()

    def turn(self) -> Turn | None:
        """The turn of the queue whose job is next; None: every job has had its own."""
        return self._line.turn()

    def serve(self) -> None:
        """Look at the next job."""
        head = self._line.pop()
        if head is None:
            return
        rank, k, job_class = head
        openings = self.draft.openings
        if job_class is None:
            self._single(self.draft.world.queued[rank[2]])
        else:
            self._next_of(job_class, k)
        if self.draft.openings > openings:
            self._line.rejoin(rank)

    def _judge(self, lane: Lane) -> Judge:
        """What tells whether the jobs of a class of this lane have to be looked at.

        One that cannot be placed may become the blocked job, and others of its queue may be kept back by it.
        """
        head_reservation = self.head_reservation
        if self._promises if head_reservation is None else head_reservation.among(lane):
            return always
        return self.hopes.judge(lane)

    def _find_impossible(self) -> dict[Minimum, WaitReason]:
        feasible, minimums = self.draft.places.feasible, self.draft.snapshot.waiting_jobs.minimums
        each = ((minimum, feasible(minimum.shape).impossible(minimum.workers)) for minimum in minimums)
        return {minimum: reason for minimum, reason in each if reason is not None}

    def _first_heads(self) -> Iterator[tuple[Lane, Iterable[Head]]]:
        """Jobs that are looked at alone, and the first of each class that may start at all."""
        waiting_jobs, impossible = self.draft.snapshot.waiting_jobs, self._impossible
        for job in waiting_jobs.singles.values():
            yield self.draft.lane(job), [(self._rank(job), 0, None)]
        for lane, jobs in waiting_jobs.lanes.items():
            heads = jobs.heads
            if impossible:
                heads = [head for head in heads if head[2] is not None and head[2].minimum not in impossible]
            if heads:
                yield lane, heads

    def explain(self) -> None:
        """Give every job that this pass left waiting its reason, judged by what the finished draft leaves."""
        left = (job for job in self.left if job.id not in self.draft.holding)

        def never_in(lane: Lane) -> Callable[[JobClass], WaitReason | None]:
            left_by_limits = self._rules.left(lane)

            def never(job_class: JobClass) -> WaitReason | None:
                reason = self._impossible.get(job_class.minimum)
                if reason is not None or (job_class.preemptible and job_class.minimum.slots <= left_by_limits):
                    return reason
                return self._rules.why_not(self._member(job_class, 0))

            return never

        explain(self.draft, left, never_in, self._request, self.head_reservation)

    def _request(self, job_class: JobClass) -> Request:
        """The request of each job of the class."""
        request = self._requests.get(job_class.minimum)
        if request is None:
            request = self._requests[job_class.minimum] = self.draft.request(self._member(job_class, 0))
        return request

    def _rank(self, job: Job) -> Rank:
        """The job's rank; before its equals where all that is reserved for it is free: they would delay it."""
        importance, _, job_id = rank = self.draft.order.rank(job)
        own = self.draft.holding.get(job.id, ())
        ready = own and self._reserved(self.draft.request(job), own, View.FREE) is not None
        return (importance, -math.inf, job_id) if ready else rank

    def _next_of(self, job_class: JobClass, k: int) -> None:
        """Place the next job of the class, or find the next one that has a chance."""
        job, draft = self._member(job_class, k), self.draft
        if job.id in draft.starts or job.id in draft.holding:  # it was placed before the class was parked
            self._go_on(job_class, k + 1)
            return
        hopeful = self._hopeful(job_class, k) if self._rules.why_never(job) is None else None
        if hopeful == k and not self._attempt(job, self._request(job_class), ()):
            self._first_failed.setdefault(job_class, k)
            hopeful = None if self._rules.lacking(job) else k
        if hopeful is None:  # none behind it has a chance
            self._line.park(job_class, self._first_failed.pop(job_class, k))
        else:
            self._go_on(job_class, k + 1 if hopeful == k else hopeful)

    def _go_on(self, job_class: JobClass, k: int) -> None:
        """Go on with this job of the class; behind the last one, those that failed wait for something to open."""
        self._line.push(job_class, k)
        if k >= len(job_class.ranks) and job_class in self._first_failed:
            self._line.park(job_class, self._first_failed.pop(job_class))

    def _hopeful(self, job_class: JobClass, k: int) -> int | None:
        """Index of the first job, from `k` on, for which no attempt as easy failed already; None: there is none."""
        job, openings, head_reservation = self._member(job_class, k), self.draft.openings, self.head_reservation
        request, first, queue = self._rules.bounded(job, self._request(job_class)), job.priority, job_class.lane.own
        failed = self._failed[queue].up_to(openings, request)
        if first <= failed:
            return None
        if head_reservation is None or first > self._failed_behind[queue].up_to(openings, request):
            return k
        # only jobs that the blocked job does not bound have a chance
        end = job_class.first_below(failed + 1, k)
        if self.draft.now + min(job_class.limits, default=math.inf) > head_reservation.promised_at:
            if head_reservation.bounds_all(job_class.lane, -math.inf, job_class.preemptible):
                k = end
            elif head_reservation.among(job_class.lane):
                k = job_class.first_below(head_reservation.job.priority, k)
        return next((j for j in range(k, end) if self._headroom(self._member(job_class, j)) is None), None)

    def _member(self, job_class: JobClass, k: int) -> Job:
        return self.draft.world.queued[job_class.ranks[k][2]]

    def _headroom(self, job: Job) -> Headroom | None:
        """The headroom that limits the job if it starts now; None if nothing does."""
        return self.head_reservation.bounds(self.draft, job) if self.head_reservation is not None else None

    def _single(self, job: Job) -> None:
        draft, request = self.draft, self.draft.request(job)
        if request not in self._never:
            self._never[request] = impossible(request, draft.world.nodes.values())
        if self._never[request] is not None or job.not_before > draft.now:
            self._pass_over(job, self._never[request])
            return
        own = draft.unhold(job) if job.id in draft.holding else ()
        limited = self._rules.why_never(job)
        if limited is not None:
            draft.openings += bool(own)
            draft.waiting[job.id] = Waiting(limited)
            return
        queue, bounded = draft.lane(job).own, self._rules.bounded(job, request)
        failed = self._failed[queue].up_to(draft.openings, bounded)
        if self._headroom(job) is not None:
            failed = max(failed, self._failed_behind[queue].up_to(draft.openings, bounded))
        hopeless = not own and job.priority <= failed
        if not hopeless and self._attempt(job, request, own):
            return
        limited = self._rules.why_not(job)
        if limited is not None:
            draft.waiting[job.id] = Waiting(limited)
        else:
            self.left.append(job)

    def _pass_over(self, job: Job, reason: WaitReason | None) -> None:
        """A job that cannot start whatever is free holds nothing."""
        draft = self.draft
        if job.id in draft.holding:
            draft.unhold(job)
            draft.openings += 1
        draft.waiting[job.id] = Waiting(reason or WaitReason.BACKOFF)
        if reason is None:
            draft.look_at(job.not_before)

    def _attempt(self, job: Job, request: Request, own: Placements) -> bool:
        """Whether the job starts or gets a reservation; `own` is what was reserved for it until now."""
        limit, bounded = self._limit(job), self._rules.bounded(job, request)
        if self._start(job, bounded, own, limit) or self._keep(job, bounded, own) or self._reserve(job, bounded, limit):
            return True
        if bounded is not request and self._reserve_of_a_type(job, limit):
            return True
        if own:
            self.draft.openings += 1
        if self.head_reservation is None and self._promises and self._rules.may_be_promised(job):
            self.head_reservation = promise(self.draft, job, bounded)
        return False

    def _limit(self, job: Job) -> BackfillLimit | None:
        """Headroom behind the blocked job, plus what less important jobs hold; None if nothing limits the job."""
        headroom = self._headroom(job)
        if headroom is None:
            return None
        key = (self.draft.lane(job).own, job.priority)
        limit = self._limits.get(key)
        below = held_by_less_important(self.draft, job)
        state = (self.draft.openings, self._backfill_gains.uses)
        if limit is None or limit.below is not below or (self._backfill_gains and limit.state != state):
            lent = self._backfill_gains.added(below, job.priority) if self._in_queue_of_head(job) else below
            limit = self._limits[key] = BackfillLimit(
                headroom, below, lent, headroom.widened(lent), self._backfill_gains, state
            )
        return limit

    def _use(self, limit: BackfillLimit | None, job: Job, request: Request, chosen: Chosen) -> None:
        """The job has these nodes now; what was taken for it is lent no more."""
        if limit is not None:
            self.draft.victim_table.below(job.priority)
            limit.use(job, request.amounts(chosen))

    def _start(self, job: Job, request: Request, own: Placements, limit: BackfillLimit | None) -> bool:
        """Start the job on open slots, on its reservation, or on reservations of less important jobs."""
        draft, headroom = self.draft, limit.bounds if limit else None
        if not self._rules.has_room(job):
            return False
        chosen = request.place(View.OPEN, headroom)
        sparing = request if chosen is None else self._rules.sparing(job, request)
        if sparing is not request:
            chosen = sparing.place(View.OPEN, headroom) or chosen
        if chosen is None and draft.holding and self._take_over(job, request, headroom):
            chosen = request.place(View.OPEN, headroom)
        if chosen is not None:
            self._use(limit, job, request, chosen)
        else:
            # A reservation made before does not delay a job that came to be ahead later.
            chosen = self._reserved(request, own, View.OPEN)
        if chosen is None:
            return False
        draft.start(job, chosen)
        if self.head_reservation is not None and self.head_reservation.job.id == job.id:
            self.head_reservation = None  # something came free for it after its turn
        return True

    def _take_over(self, job: Job, request: Request, headroom: Headroom | None) -> bool:
        """Give up the fewest reservations of less important jobs that let this one start; none if they cannot."""
        draft, (feasible, count), dominated = self.draft, request.workers, self.draft.dominated_by(job)
        if not dominated or self.victims.reach_of_reservations(job, feasible, headroom) < count:
            return False
        given_up: list[tuple[Job, Placements]] = []
        for holder in dominated:
            if request.fits(View.OPEN, headroom):
                break
            given_up.append((holder, draft.unhold(holder)))
        fitted = request.fits(View.OPEN, headroom)
        for holder, held in reversed(given_up):
            draft.hold(holder, held)
            if fitted and not request.fits(View.OPEN, headroom):
                draft.unhold(holder)
                draft.openings += 1
        return fitted

    def _keep(self, job: Job, request: Request, own: Placements) -> bool:
        """Keep the reservation, if its slots are still being freed."""
        if self._reserved(request, own, View.SOON) is None or self._rules.lacking(job):
            return False
        self._hold(job, own)
        return True

    def _reserved(self, request: Request, own: Placements, view: View) -> Chosen | None:
        """The reserved nodes, if they are still what the job needs and available in this view."""
        chosen = tuple(node_counts for each in own if (node_counts := self.draft.places.node_counts(each)))
        return chosen if len(chosen) == len(request.parts) and request.still(chosen, view) else None

    def _reserve(self, job: Job, request: Request, limit: BackfillLimit | None) -> bool:
        """Reserve slots that are being freed already, or else take from less important jobs."""
        draft, headroom = self.draft, limit.bounds if limit else None
        chosen = request.place(View.SOON, headroom)
        if chosen is None or self._rules.lacking(job):
            takings = self._takings(job, request, headroom)
            if takings is None:
                return False
            if headroom is not None:  # it may use what it takes
                self._pass_on(job, takings)
                headroom = headroom.as_it_is()
            apply(draft, job, takings, self.victims)
            chosen = request.place(View.SOON, headroom)
        assert chosen is not None, "takings are enough for the job"
        self._use(limit, job, request, chosen)
        self._hold(job, tuple(map(draft.places.named, chosen)))
        return True

    def _reserve_of_a_type(self, job: Job, limit: BackfillLimit | None) -> bool:
        """Reserve slots of a GPU type of which jobs of its own queues hold all that their limits allow."""
        full = self._rules.of_full_types(job)
        typed = next((each for each in full if self._reserve(each, self.draft.request(each), limit)), None)
        if typed is not None:
            self.draft.hold(job, self.draft.unhold(typed))
        return typed is not None

    def _takings(self, job: Job, request: Request, headroom: Headroom | None) -> list[Taking] | None:
        """Takings that let the job fit; None if it does not fit whatever is taken, in this pass."""
        draft, victims, (feasible, count) = self.draft, self.victims, request.workers
        if not draft.may_take():
            self._fail(job, request, headroom)
            return None
        taker = Taker(draft, job, request, victims, headroom, self._passes_on_at(job))
        takings = find_takings(taker) if self.hopes.in_takings(job) else None
        if takings is None and not self._rules.lacking(job):
            reach = victims.reach_of_any(job, feasible, taker.bound)
            self._fail(job, request._replace(workers=Part(feasible, min(reach + 1, count))), headroom)
            slots = draft.places.feasible(replace(job.shape, cpus=0.0, memory_mib=0))
            reach = victims.reach_of_any(job, slots, taker.bound)
            if reach < count:  # whatever CPUs and memory it needs
                self._fail(job, request._replace(workers=Part(slots, reach + 1)), headroom)
        return takings

    def _pass_on(self, job: Job, takings: list[Taking]) -> None:
        """Let the job, which the blocked one bounds, have what jobs of other queues give up for it."""
        own = self.draft.lane(job).own
        if self.head_reservation is not None and self._passes_on_at(job) is not None:
            for taking in takings:
                if self.draft.lane(taking.victim).own != own:
                    self.head_reservation.headroom.pass_on(taking.freed)

    def _passes_on_at(self, job: Job) -> float | None:
        """See `HeadReservation.passes_on_at`."""
        return self.head_reservation.passes_on_at(self.draft.lane(job)) if self.head_reservation is not None else None

    def _fail(self, job: Job, request: Request, headroom: Headroom | None) -> None:
        """Record that a request finds no room at the job's priority."""
        if headroom is not None:
            # Only the blocked job may have kept it from starting.
            self._keep_back(job)
        failed = (self._failed if headroom is None else self._failed_behind)[self.draft.lane(job).own]
        failed.note(self.draft.openings, request, job.priority)

    def _keep_back(self, job: Job) -> None:
        if self._in_queue_of_head(job) and (self.kept_back is None or job.priority > self.kept_back.priority):
            self.kept_back = job

    def _in_queue_of_head(self, job: Job) -> bool:
        return self.head_reservation is not None and self.head_reservation.lane.own == self.draft.lane(job).own

    def _hold(self, job: Job, placements: Placements) -> None:
        self.draft.hold(job, placements)
        self.draft.waiting[job.id] = Waiting(WaitReason.WAITING_FOR_VICTIMS)
