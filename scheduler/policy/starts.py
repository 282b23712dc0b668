"""The waiting queue, in order: each job starts, gets a reservation, or stays where it is."""

from scheduler.model.ids import JobId
from scheduler.model.job import Job, JobState, Placement, WaitReason
from scheduler.model.plan import Waiting
from scheduler.policy.backfill import Blocked, promise
from scheduler.policy.draft import Draft
from scheduler.policy.ledger import Spare, View
from scheduler.policy.place import Fits, Spots, Suited
from scheduler.policy.preempt import apply, dominated, find_takings, spots_after, victim_order, victims_of


class Starts:
    """One pass over the queue. Afterwards `left` are the jobs for which no reason was found yet."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        #: The first job that could not be placed; those behind it must not delay it.
        self.blocked: Blocked | None = None
        self.left: list[Job] = []
        self._victims: list[Job] | None = None
        #: Shape and whether bounded -> openings, priority and count of the mildest attempt that failed.
        self._failed: dict[tuple[int, bool], tuple[int, int, int]] = {}

    def run(self) -> None:
        draft = self.draft
        for job in draft.order.queue(draft.world.queued.values()):
            suited = draft.places.suited(job.shape)
            impossible = suited.impossible(job.min_workers)
            if impossible is None and job.not_before <= draft.now:
                self._place(job, suited)
                continue
            if job.id in draft.holding:
                draft.unhold(job)
                draft.openings += 1
            if impossible is not None:
                draft.waiting[job.id] = Waiting(impossible)
            else:
                draft.waiting[job.id] = Waiting(WaitReason.BACKOFF)
                draft.look_at(job.not_before)

    def _place(self, job: Job, suited: Suited) -> None:
        spare = self.blocked.bounds(self.draft, job) if self.blocked else None
        own = self.draft.unhold(job) if job.id in self.draft.holding else ()
        if not own and self._hopeless(job, suited, spare):
            self.left.append(job)
        elif not (self._start(job, spare) or self._keep(job, own, spare) or self._reserve(job, spare)):
            if own:
                self.draft.openings += 1
            self._failed[id(suited), spare is not None] = (self.draft.openings, job.priority, job.min_workers)
            self.left.append(job)
            if self.blocked is None:
                self.blocked = promise(self.draft, job)

    def _hopeless(self, job: Job, suited: Suited, spare: Spare | None) -> bool:
        """Whether an attempt at least as mild as this one's failed before in this pass, and nothing opened since."""
        for bounded in (False, True) if spare else (False,):
            openings, priority, count = self._failed.get((id(suited), bounded), (-1, 0, 0))
            if openings == self.draft.openings and job.priority <= priority and job.min_workers >= count:
                return True
        return False

    def _start(self, job: Job, spare: Spare | None) -> bool:
        """Start it on what is open, or else on what less important jobs hold reservations for."""
        draft = self.draft
        fits = draft.places.fits(job.shape, View.OPEN, spare)
        spots = fits.place(job.min_workers)
        if spots is None and self._take_over(job, fits):
            spots = fits.place(job.min_workers)
        if spots is None:
            return False
        draft.start(job, spots)
        if spare is not None:
            _use(spare, job, spots)
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

    def _keep(self, job: Job, own: Placement, spare: Spare | None) -> bool:
        """Go on waiting for what is reserved, if that is still being freed."""
        draft = self.draft
        spots = draft.places.spots(own) if own else None
        if spots is None or sum(spots.values()) != job.min_workers:
            return False
        suited = draft.places.suited(job.shape)
        fits = draft.places.fits(job.shape, View.SOON)
        if any(i not in suited.types or fits.fit(i) < spots[i] for i in spots):
            return False
        self._hold(job, own, spare, self._waited_for(job, own))
        return True

    def _reserve(self, job: Job, spare: Spare | None) -> bool:
        """Wait for what is being freed already, or else take from less important jobs."""
        draft = self.draft
        spots = spots_after(draft, job, spare)
        victim: JobId | None = None
        if spots is None:
            takings = find_takings(draft, job, victims_of(draft, job, self._candidates()), spare)
            if takings is None:
                return False
            victim = apply(draft, job, takings)
            spots = spots_after(draft, job, spare)
        placement = draft.places.named(spots or {})
        self._hold(job, placement, spare, victim if victim is not None else self._waited_for(job, placement))
        return True

    def _hold(self, job: Job, placement: Placement, spare: Spare | None, waits_for: JobId | None) -> None:
        self.draft.hold(job, placement)
        if spare is not None:
            _use(spare, job, self.draft.places.spots(placement) or {})
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

    def _candidates(self) -> list[Job]:
        if self._victims is None:
            self._victims = victim_order(self.draft)
        return self._victims


def _use(spare: Spare, job: Job, spots: Spots) -> None:
    for i, count in spots.items():
        spare.take(i, job.shape, count)
