"""The waiting queue, in order: each job starts, gets a reservation, or stays where it is."""

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.model.ids import JobId
from scheduler.model.job import Job, JobState, Placement, WaitReason
from scheduler.model.plan import Waiting
from scheduler.policy.backfill import Blocked, promise
from scheduler.policy.draft import Draft
from scheduler.policy.ledger import NOTHING, Amount, Spare, View
from scheduler.policy.place import Fits, Spots, Suited
from scheduler.policy.preempt import apply, dominated, find_takings
from scheduler.policy.victims import Victims

#: Openings of the draft, priority and count of an attempt that failed.
Failure = tuple[int, int, int]
_NONE: Failure = (-1, 0, 0)


class Starts:
    """One pass over the queue. Afterwards `left` are the jobs for which no reason was found yet."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        #: The first job that could not be placed; those behind it must not delay it.
        self.blocked: Blocked | None = None
        self.left: list[tuple[Job, Suited]] = []
        self._victims: Victims | None = None
        #: By shape: the easiest attempt that failed with nothing in its way but capacity, and behind the blocked job.
        self._failed: dict[Suited, Failure] = {}
        self._failed_behind: dict[Suited, Failure] = {}

    def run(self) -> None:
        draft = self.draft
        now, suited_for, failed, left = draft.now, draft.places.suited, self._failed, self.left
        for job in draft.order.queue(draft.world.queued.values()):
            suited = suited_for(job.spec.shape)
            if job.min_workers > suited.most_ready or job.not_before > now:
                self._pass_over(job, suited)
            elif not job.reservation and self._hopeless(failed, job, suited):
                left.append((job, suited))
            else:
                self._place(job, suited)

    def _pass_over(self, job: Job, suited: Suited) -> None:
        """A job that cannot start whatever is free holds nothing."""
        draft = self.draft
        if job.id in draft.holding:
            draft.unhold(job)
            draft.openings += 1
        impossible = suited.impossible(job.min_workers)
        draft.waiting[job.id] = Waiting(impossible or WaitReason.BACKOFF)
        if impossible is None:
            draft.look_at(job.not_before)

    def _place(self, job: Job, suited: Suited) -> None:
        draft = self.draft
        spare = self.blocked.bounds(draft, job) if self.blocked else None
        own = draft.unhold(job) if job.id in draft.holding else ()
        failed = self._failed if spare is None else self._failed_behind
        if not own and spare is not None and self._hopeless(failed, job, suited):
            self.left.append((job, suited))
            return
        limit = self._limit(job, spare) if spare is not None else None
        if self._start(job, suited, own, limit) or self._keep(job, suited, own) or self._reserve(job, suited, limit):
            return
        if own:
            draft.openings += 1
        self.left.append((job, suited))
        if self.blocked is None:
            self.blocked = promise(draft, job)

    def _limit(self, job: Job, spare: Spare) -> "Limit":
        """The blocked job's claim does not protect who is less important than this one, too."""
        victims = self._victims = self._victims or Victims(self.draft)
        lent = victims.held_below(job.priority)
        return Limit(spare, lent, spare.widened(lent) if lent else spare)

    def _hopeless(self, failed: dict[Suited, Failure], job: Job, suited: Suited) -> bool:
        """Whether an attempt at least as easy as this one's failed before in this pass, and nothing opened since."""
        openings, priority, count = failed.get(suited, _NONE)
        return job.min_workers >= count and job.priority <= priority and openings == self.draft.openings

    def _start(self, job: Job, suited: Suited, own: Placement, limit: "Limit | None") -> bool:
        """Start it on what is open, on what was reserved for it, or on what less important jobs hold."""
        draft = self.draft
        fits = suited.fits(View.OPEN, limit.bounds if limit else None)
        spots = fits.place(job.min_workers)
        if spots is not None or (draft.holding and self._take_over(job, fits)):
            spots = spots or fits.place(job.min_workers)
            if limit is not None:
                limit.use(job, spots or {})
        else:
            # What was promised before does not delay a job that came to be ahead later.
            spots = self._fitting(job, suited, own, View.OPEN)
        if spots is None:
            return False
        draft.start(job, spots)
        return True

    def _take_over(self, job: Job, fits: Fits) -> bool:
        """Give up as few reservations of less important jobs as let this one start; none if that cannot be."""
        draft = self.draft
        given_up: list[tuple[Job, Placement]] = []
        for holder in dominated(draft, job):
            if fits.most() >= job.min_workers:
                break
            given_up.append((holder, draft.unhold(holder)))
        fitted = fits.most() >= job.min_workers
        for holder, placement in reversed(given_up):
            draft.hold(holder, placement)
            if fitted and fits.most() < job.min_workers:
                draft.unhold(holder)
                draft.openings += 1
        return fitted

    def _keep(self, job: Job, suited: Suited, own: Placement) -> bool:
        """Go on waiting for what is reserved, if that is still being freed."""
        if self._fitting(job, suited, own, View.SOON) is None:
            return False
        self._hold(job, own, self._waited_for(job, own))
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
        victim: JobId | None = None
        if spots is None:
            victims = self._victims = self._victims or Victims(draft)
            reach = victims.reach(job, suited, spare)
            takings = None
            if reach >= job.min_workers:
                takings = find_takings(draft, job, suited, victims, spare)
            if takings is None:
                failed = self._failed if spare is None else self._failed_behind
                failed[suited] = (draft.openings, job.priority, min(reach + 1, job.min_workers))
                return False
            victim = apply(draft, job, takings, victims)
            spots = soon.place(job.min_workers)
        assert spots is not None, "takings are enough for the job"
        if limit is not None:
            limit.use(job, spots)
        placement = draft.places.named(spots)
        self._hold(job, placement, victim if victim is not None else self._waited_for(job, placement))
        return True

    def _hold(self, job: Job, placement: Placement, waits_for: JobId | None) -> None:
        self.draft.hold(job, placement)
        self.draft.waiting[job.id] = Waiting(WaitReason.WAITING_FOR_VICTIMS, waits_for)

    def _waited_for(self, job: Job, placement: Placement) -> JobId | None:
        """Whom the job waits for: as said before, or the first job with workers that are leaving those nodes."""
        if job.wait_reason is WaitReason.WAITING_FOR_VICTIMS:
            return job.wait_for
        names = {name for name, _ in placement}
        leaving = (
            other.id
            for other in self.draft.world.active.values()
            if any(w.node in names for w in (other.workers if other.state is JobState.STOPPING else other.leaving))
        )
        return min(leaving, default=None)


@dataclass(frozen=True, slots=True)
class Limit:
    """What a job behind the blocked one may use: what that one leaves, and what less important jobs hold anyway."""

    spare: Spare
    #: Held by jobs that are less important than this one, by position.
    lent: Mapping[int, Amount]
    bounds: Spare

    def use(self, job: Job, spots: Spots) -> None:
        """The job has these spots now."""
        for i, count in spots.items():
            self.spare.use_beyond(self.lent.get(i, NOTHING), i, job.shape, count)
