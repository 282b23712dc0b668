"""Rebalancing for elastic policies: waiting jobs get minimums from equals above theirs, then all move to their sizes.

Slots are counted by GPU type, own and shared ones apart, for a running job changes neither. Each priority, from the
highest down, may use what those above leave, except the minimums of those below. No job shrinks unless another gains by
it, and slots that fit no target go to any job that can use them.
"""

from collections.abc import Iterable, Mapping

from scheduler.model.ids import JobId
from scheduler.model.job import Job, Placement
from scheduler.model.job_state import JobState, WaitReason
from scheduler.model.plan import Waiting
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import LeaveReason, Worker
from scheduler.policy.capacity.ledger import View
from scheduler.policy.capacity.pools import Group, group_of
from scheduler.policy.draft import Draft
from scheduler.policy.published.donors import Donor, free_up
from scheduler.policy.published.growth import grow_by, grow_to, may_grow
from scheduler.policy.published.rule import Sizes


class Sharing:
    """One rebalancing pass over a draft in which the queue was served."""

    def __init__(self, draft: Draft, sizes: Sizes) -> None:
        self._draft = draft
        self._sizes = sizes
        self._members = [job for job in self._candidates() if self._size(job)]

    def run(self) -> None:
        self._admit()
        targets = self._targets(self._members)
        grow_to(self._draft, targets)
        if not self._move(targets):
            self._deal_rest()

    def _candidates(self) -> Iterable[Job]:
        draft = self._draft
        yield from (draft.world.queued[job_id] for job_id in (*draft.starts, *draft.holding))
        for job in draft.world.active.values():
            if draft.usages[job.id].resizable:
                yield job

    def _size(self, job: Job) -> int:
        """Workers that the job has, starts with, or has a reservation for."""
        draft = self._draft
        if job.id in draft.world.active:
            return len(draft.staying(job)) + sum(draft.grows.get(job.id, {}).values())
        if job.id in draft.starts:
            return sum(draft.starts[job.id][0].values())
        return sum(count for _, count in draft.holding.get(job.id, ((),))[0])

    def _group(self, job: Job) -> Group:
        draft = self._draft
        if job.id in draft.world.active:
            return group_of(draft.world, job.workers[0])
        if job.id in draft.starts:
            return self._group_at(next(iter(draft.starts[job.id][0])))
        return self._group_at(draft.ledger.position[draft.holding[job.id][0][0][0]])

    def _positions(self, job: Job) -> set[int]:
        """Positions where the job has workers, or a reservation for them."""
        draft = self._draft
        if job.id in draft.world.active:
            return {i for worker in draft.staying(job) if (i := draft.ledger.where(worker)) is not None}
        return {draft.ledger.position[name] for name, _ in draft.holding.get(job.id, ((),))[0]}

    def _group_at(self, i: int) -> Group:
        ledger = self._draft.ledger
        return (i >= ledger.own, ledger.nodes[i].gpu_type)

    # waiting jobs

    def _admit(self) -> None:
        """Take the minimum of each job that found no room from equals, if they have enough."""
        draft = self._draft
        failed: set[tuple[WorkerShape, int, int]] = set()
        for job in draft.order.queue(draft.world.queued.values()):
            kind = (job.shape, job.min_workers, job.priority)
            if kind not in failed and self._waits(job) and not self._make_room(job):
                failed.add(kind)

    def _waits(self, job: Job) -> bool:
        draft = self._draft
        if job.id in draft.starts or job.id in draft.holding or job.not_before > draft.now:
            return False
        return job.min_workers <= draft.places.feasible(job.shape).most_ready

    def _make_room(self, job: Job) -> bool:
        draft = self._draft
        feasible = draft.places.feasible(job.shape)
        for group in feasible.by_type:
            donors = self._donors_to_waiting(job, group)
            takings = free_up(draft, feasible, group, donors, job.min_workers)
            if takings:
                self._take(takings, job)
                node_counts = feasible.fits(View.SOON).place(job.min_workers)
                assert node_counts is not None, "takings are enough for the job"
                draft.hold(job, (draft.places.named(node_counts),))
                draft.waiting[job.id] = Waiting(WaitReason.WAITING_FOR_VICTIMS)
                self._members.append(job)
                return True
        return False

    def _donors_to_waiting(self, job: Job, group: Group) -> list[Donor]:
        """Donors above their minimum, the farthest above its target first, with the job taking part."""
        able = [other for other in self._members if self._may_give(other, job, group)]
        targets = self._targets_in([*self._of_group(group), job], group)
        able.sort(key=lambda other: (other.priority, targets[other.id] - self._size(other), -other.id))
        return [Donor(other, self._size(other) - other.min_workers) for other in able]

    def _may_give(self, other: Job, job: Job, group: Group) -> bool:
        draft = self._draft
        return (
            other.id in draft.world.active
            and other.id not in draft.grows
            and other.priority <= job.priority
            and self._size(other) > other.min_workers
            and self._group(other) == group
        )

    # sizes

    def _of_group(self, group: Group) -> list[Job]:
        return [job for job in self._members if self._group(job) == group]

    def _targets(self, members: Iterable[Job]) -> dict[JobId, int]:
        groups = {self._group(job) for job in members}
        targets: dict[JobId, int] = {}
        for group in groups:
            targets |= self._targets_in(self._of_group(group), group)
        return targets

    def _targets_in(self, members: list[Job], group: Group) -> dict[JobId, int]:
        """The size of every member, as if all slots were alike."""
        ledger = self._draft.ledger
        soon = ledger.soon()
        free = sum(max(int(soon[i][0]), 0) for i in range(len(ledger.nodes)) if self._group_at(i) == group)
        slots = free + sum(self._size(job) * job.shape.slots for job in members)
        targets: dict[JobId, int] = {}
        for priority in sorted({job.priority for job in members}, reverse=True):
            equals = sorted((job for job in members if job.priority == priority), key=_in_order)
            below = sum(job.min_workers * job.shape.slots for job in members if job.priority < priority)
            sizes = self._sizes(equals, max(slots - below, 0), self._draft.now, self._draft.settings)
            for job in equals:
                targets[job.id] = max(sizes[job.id], min(job.min_workers, self._size(job)))
                slots -= targets[job.id] * job.shape.slots
        return targets

    # moving to them

    def _move(self, targets: Mapping[JobId, int]) -> bool:
        """Shrink jobs above their target for those below; returns whether any job is still moving to its target."""
        claims: list[tuple[Placement, WorkerShape]] = []
        moving = False
        for job in sorted(self._members, key=lambda job: (-job.priority, *_in_order(job))):
            missing = targets[job.id] - self._size(job)
            if missing > 0:
                moving |= self._give_to(job, missing, targets, claims)
        for placement, shape in claims:
            self._draft.ledger.hold(placement, shape, -1)
        return moving

    def _give_to(
        self, job: Job, missing: int, targets: Mapping[JobId, int], claims: list[tuple[Placement, WorkerShape]]
    ) -> bool:
        """Claim what is being freed, then what others have above their target; returns whether the job still moves."""
        draft = self._draft
        if job.id not in draft.holding and not may_grow(draft, job):
            return True
        feasible, group, own = draft.places.feasible(job.shape), self._group(job), self._positions(job)
        moving = False
        while missing:
            fits = feasible.fits(View.SOON)
            if not fits.total(group):
                donors = self._donors_above(targets, job, group)
                takings = free_up(draft, feasible, group, donors, 1, own)
                if not takings:
                    return moving
                self._take(takings, job)
            node_counts = fits.place_more(1, group, own)
            assert node_counts is not None, "there is room for one more"
            placement = draft.places.named(node_counts)
            draft.ledger.hold(placement, job.shape)
            claims.append((placement, job.shape))
            moving, missing = True, missing - 1
        return moving

    def _donors_above(self, targets: Mapping[JobId, int], job: Job, group: Group) -> list[Donor]:
        """Donors above their target: least important first, then the farthest above."""
        above = [
            (self._size(other) - targets[other.id], other)
            for other in self._members
            if self._may_give(other, job, group) and self._size(other) > targets[other.id] and self._rested(other)
        ]
        above.sort(key=lambda each: (each[1].priority, -each[0], -each[1].id))
        return [Donor(other, surplus) for surplus, other in above]

    def _rested(self, job: Job) -> bool:
        """Whether the job runs undisturbed and was not resized just now; if only that is in the way, look again."""
        if job.state is not JobState.RUNNING or job.leaving:
            return False
        rested = max(job.last_resize_at or 0.0, job.started_at or 0.0) + self._draft.settings.rebalance_seconds
        self._draft.look_at(rested)
        return rested <= self._draft.now

    def _take(self, takings: Mapping[JobId, list[Worker]], job: Job) -> None:
        for donor, workers in takings.items():
            self._draft.shrink(self._draft.world.active[donor], tuple(workers), LeaveReason.REBALANCED, job.id)

    def _deal_rest(self) -> None:
        """Give slots that fit no target to jobs that can use them, most important and oldest first."""
        open_to = sorted(self._members, key=lambda job: (-job.priority, *_in_order(job)))
        for job in open_to:
            if job.id in self._draft.world.active and may_grow(self._draft, job):
                grow_by(self._draft, job, job.max_workers - self._size(job))


def _in_order(job: Job) -> tuple[float, JobId]:
    return (job.submitted_at, job.id)
