"""Whether any job of a class could start now, judged for all of them at once."""

import math
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from scheduler.model.job import Job
from scheduler.model.shape import WorkerShape
from scheduler.policy.capacity.ledger import View
from scheduler.policy.draft import Draft
from scheduler.policy.preempt.losses import Losses
from scheduler.policy.preempt.victims import Victims
from scheduler.policy.queues.shares import Counts
from scheduler.policy.queues.tree import TOP, Lane
from scheduler.policy.snapshot.standing import counts_of
from scheduler.policy.snapshot.waiting_jobs import Judge, Minimum


def always(*_: object) -> bool:
    """The judge that has every class looked at."""
    return True


class _Lacking(NamedTuple):
    """What a job lacks to start that needs these slots, by kind; below zero where there is room for more than it."""

    counts: Counts
    #: Number of its workers for which there is no room, and of those for which slots alone are missing.
    without_room: int
    without_slots: int


class Hopes:
    """What a draft holds out to job classes, so that most of them are passed by without a look at their jobs."""

    def __init__(self, draft: Draft, victims: Victims) -> None:
        self._draft = draft
        self._victims = victims
        #: What was found since the ledger changed last: the most workers of a shape that find room, and how many of
        #: those that jobs need do not.
        self._most: dict[WorkerShape, int] = {}
        self._lacking: dict[Minimum, _Lacking] = {}
        self._read = 0

    def judge(self, lane: Lane) -> Judge:
        """What tells, as the draft stands, whether jobs of a class of the lane might find room, or take it."""
        losses = self._losses
        if lane is TOP or losses is None:
            return always
        self._follow()
        bound, may_take = losses.bound(lane), self._draft.may_take
        least = -math.inf if bound.holders or losses.any_of_others(lane) else losses.least_important_in(lane.own)

        def has_hope(minimum: Minimum, importance: float) -> bool:
            lacking = self._lacking_of(minimum)
            if lacking.without_room <= 0:
                return True
            if importance < least:
                return False
            if bound.holders_below(importance):
                return True
            return bound.enough(lacking.counts, importance, lacking.without_slots) and may_take()

        return has_hope

    def in_others(self, lane: Lane) -> bool:
        """Whether jobs of the lane might take anything from other queues."""
        return lane is not TOP and self._losses is not None and self._losses.any_of_others(lane)

    def in_takings(self, job: Job) -> bool:
        """Whether others might give up enough for the job."""
        shares, losses, lane = self._draft.shares, self._losses, self._draft.lane(job)
        if shares is None or losses is None or lane is TOP:
            return True
        counts = counts_of(shares.standing, job, job.min_workers)
        lacking = self._without_slots(job.shape, job.min_workers)
        return losses.bound(lane).enough(counts, self._draft.order.effective(job), lacking)

    def in_takings_to_grow(self, job: Job, shape: WorkerShape) -> bool:
        """Whether other queues might give up enough for one more worker of this shape of the running job."""
        shares, losses = self._draft.shares, self._losses
        if shares is None or losses is None:
            return False
        counts = shares.standing.typed(shape.gpu_type, shape.slots)
        return losses.bound(self._draft.lane(job)).enough(counts, -math.inf, self._without_slots(shape, 1))

    @cached_property
    def _losses(self) -> Losses | None:
        """None: there are no queues."""
        shares, by_lane = self._draft.shares, self._victims.by_lane
        return Losses(self._draft, shares, by_lane) if shares is not None and by_lane is not None else None

    def _lacking_of(self, minimum: Minimum) -> _Lacking:
        lacking = self._lacking.get(minimum)
        if lacking is None:
            shape, workers, shares = minimum.shape, minimum.workers, self._draft.shares
            counts = () if shares is None else shares.standing.typed(shape.gpu_type, minimum.slots)
            without_room, without_slots = workers - self._most_of(shape), self._without_slots(shape, workers)
            lacking = self._lacking[minimum] = _Lacking(counts, without_room, without_slots)
        return lacking

    def _without_slots(self, shape: WorkerShape, workers: int) -> int:
        """How many of these workers lack slots, whatever CPUs and memory they need."""
        self._follow()
        return workers - self._most_of(replace(shape, cpus=0.0, memory_mib=0))

    def _most_of(self, shape: WorkerShape) -> int:
        """The most workers of the shape that there is room for, free or being freed."""
        if shape not in self._most:
            feasible = self._draft.places.feasible(shape)
            self._most[shape] = max(feasible.fits(view).most() for view in (View.OPEN, View.SOON))
        return self._most[shape]

    def _follow(self) -> None:
        changes = len(self._draft.ledger.log)
        if changes != self._read:
            self._most.clear()
            self._lacking.clear()
            self._read = changes
