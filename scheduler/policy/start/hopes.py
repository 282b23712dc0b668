"""Whether any job of a class could start now, judged for all of them at once."""

import math
from functools import cached_property

from scheduler.model.job import Job
from scheduler.model.shape import WorkerShape
from scheduler.policy.capacity.ledger import View
from scheduler.policy.draft import Draft
from scheduler.policy.preempt.losses import Losses
from scheduler.policy.preempt.victims import Victims
from scheduler.policy.queues.shares import Counts
from scheduler.policy.queues.tree import TOP, Lane
from scheduler.policy.snapshot.standing import counts_of
from scheduler.policy.snapshot.waiting_jobs import JobClass


class Hopes:
    """What a draft holds out to job classes, so that most of them are passed by without a look at their jobs."""

    def __init__(self, draft: Draft, victims: Victims) -> None:
        self._draft = draft
        self._victims = victims
        #: Whether this many workers of a shape find room, and how much of the ledger's changes was read then.
        self._room: dict[tuple[WorkerShape, int], bool] = {}
        self._read = 0

    def of(self, job_class: JobClass, importance: float) -> bool:
        """Whether a job of this class might find room, or take it from others.

        `importance`: the effective priority of the first of them.
        """
        lane = job_class.lane
        if lane is TOP or self._draft.holders_in(lane.own) or self._finds_room(job_class):
            return True
        return self._may_take(job_class, importance) and self._draft.may_take()

    def in_takings(self, job: Job) -> bool:
        """Whether others might give up enough for the job."""
        shares, lane = self._draft.shares, self._draft.lane(job)
        if shares is None or lane is TOP:
            return True
        counts = counts_of(shares.standing, job, job.min_workers)
        return self._enough(lane, counts, self._draft.order.effective(job))

    def in_takings_to_grow(self, job: Job, shape: WorkerShape) -> bool:
        """Whether other queues might give up enough for one more worker of this shape of the running job."""
        shares = self._draft.shares
        if shares is None:
            return False
        return self._enough(self._draft.lane(job), shares.standing.typed(shape.gpu_type, shape.slots), -math.inf)

    def _enough(self, lane: Lane, counts: Counts, importance: float) -> bool:
        return self._losses is None or self._losses.enough(lane, counts, importance)

    @cached_property
    def _losses(self) -> Losses | None:
        """None: there are no queues."""
        shares, by_lane = self._draft.shares, self._victims.by_lane
        return Losses(self._draft, shares, by_lane) if shares is not None and by_lane is not None else None

    def _finds_room(self, job_class: JobClass) -> bool:
        changes = len(self._draft.ledger.log)
        if changes != self._read:
            self._room.clear()
            self._read = changes
        wanted = (job_class.shape, job_class.min_workers)
        if wanted not in self._room:
            feasible = self._draft.places.feasible(job_class.shape)
            most = max(feasible.fits(view).most() for view in (View.OPEN, View.SOON))
            self._room[wanted] = most >= job_class.min_workers
        return self._room[wanted]

    def _may_take(self, job_class: JobClass, importance: float) -> bool:
        """Whether others might give up enough for one of these."""
        shares, shape = self._draft.shares, job_class.shape
        assert shares is not None, "these are in a queue"
        counts = shares.standing.typed(shape.gpu_type, job_class.min_workers * shape.slots)
        return self._enough(job_class.lane, counts, importance)
