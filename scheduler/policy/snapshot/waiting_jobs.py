"""The waiting queue as classes of alike jobs, so that one decision serves the whole class.

Jobs of a class have the same lane, shape, minimum and preemptibility, and none stands behind one of lower priority:
where the first fails, all behind it fail, and all that are left waiting in a class wait for the same reason.
"""

import math
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple
from weakref import WeakValueDictionary

from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.job_state import WaitReason
from scheduler.model.plan import Waiting
from scheduler.model.shape import WorkerShape
from scheduler.model.world import World
from scheduler.policy.queues.shares import Counts
from scheduler.policy.queues.tree import Lane, Tree
from scheduler.policy.snapshot.order import Order, Rank

#: Lane, shape, minimum, preemptible; where jobs age, and so may overtake those of higher priority, the priority too.
JobClassKey = tuple[Lane, WorkerShape, int, bool, int | None]
#: A reason as a job carries it.
Carried = tuple[WaitReason | None, JobId | None]
#: Reasons of jobs that no pass has looked at.
UNEXPLAINED = frozenset({None, WaitReason.SUBMITTED})


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Minimum:
    """The workers that jobs need to start. Job classes that need the same share one, compared by identity."""

    shape: WorkerShape
    workers: int

    @property
    def slots(self) -> int:
        """Slots of all of them."""
        return self.workers * self.shape.slots


class JobClass:
    """Waiting jobs that are alike, in the order in which they are served."""

    def __init__(self, kind: JobClassKey, minimum: Minimum) -> None:
        """`minimum`: the shape and the minimum of the kind."""
        self.lane, _, _, self.preemptible, self._priority = kind
        self.minimum = minimum
        self.ranks: list[Rank] = []
        #: Maximum numbers of workers, and the number of jobs with each.
        self.maxima: Counter[int] = Counter()
        #: Time limits of the jobs in seconds, and the number of jobs with each.
        self.limits: Counter[float] = Counter()
        self._carrying: dict[Carried, list[JobId]] = {}

    def after(self, rank: Rank) -> int:
        """The index of the first job behind this rank."""
        return bisect_left(self.ranks, rank)

    def first_below(self, priority: float, start: int) -> int:
        """The index of the first job, from `start` on, that has a lower priority."""
        if self._priority is None:
            return bisect_right(self.ranks, (-priority, math.inf), start)
        return start if self._priority < priority else len(self.ranks)

    def wanted_workers(self, most: int) -> int:
        """Workers that all of them want together, where nodes hold `most` of one job."""
        return sum(min(each, most) * number for each, number in self.maxima.items())

    def carries_other_than(self, said: Waiting) -> bool:
        """Whether any of them carries another reason than this one."""
        return len(self._carrying) > 1 or (said.reason, said.for_job) not in self._carrying

    def unexplained(self) -> list[list[JobId]]:
        """Jobs, by id, that no pass has looked at."""
        if UNEXPLAINED.isdisjoint(reason for reason, _ in self._carrying):
            return []
        return self._carriers(key for key in self._carrying if key[0] in UNEXPLAINED)

    def explained_otherwise(self, said: Waiting) -> list[list[JobId]]:
        """Jobs, by id, to which a pass before gave another reason than this one."""
        same = (said.reason, said.for_job)
        return self._carriers(key for key in self._carrying if key != same and key[0] not in UNEXPLAINED)

    def _carriers(self, reasons: Iterable[Carried]) -> list[list[JobId]]:
        return [self._carrying[carried] for carried in sorted(reasons, key=_by_name)]

    def note(self, job: Job) -> None:
        """Record a member, except for its rank."""
        self.maxima[job.max_workers] += 1
        if job.spec.time_limit_seconds is not None:
            self.limits[job.spec.time_limit_seconds] += 1
        self._carry(job)

    def _carry(self, job: Job) -> None:
        carried = (job.wait_reason, job.wait_for)
        job_ids = self._carrying.get(carried)
        if job_ids is None:
            self._carrying[carried] = [job.id]
        elif job.id > job_ids[-1]:
            job_ids.append(job.id)
        else:
            insort(job_ids, job.id)

    def explain(self, old: Job, new: Job) -> None:
        """Record the reason that a member carries now; nothing else of it has changed."""
        if (old.wait_reason, old.wait_for) != (new.wait_reason, new.wait_for):
            self._drop(old)
            self._carry(new)

    def forget(self, job: Job) -> None:
        self.maxima[job.max_workers] -= 1
        if not self.maxima[job.max_workers]:
            del self.maxima[job.max_workers]
        limit = job.spec.time_limit_seconds
        if limit is not None:
            self.limits[limit] -= 1
            if not self.limits[limit]:
                del self.limits[limit]
        self._drop(job)

    def _drop(self, job: Job) -> None:
        carried = (job.wait_reason, job.wait_for)
        job_ids = self._carrying[carried]
        del job_ids[bisect_left(job_ids, job.id)]
        if not job_ids:
            del self._carrying[carried]


#: Tells whether any of the jobs that need this minimum, and have at most this effective priority, might start.
Judge = Callable[[Minimum, float], bool]
#: The next job of a class: its rank and its index; or, without a class, a job that is looked at alone.
Head = tuple[Rank, int, JobClass | None]


class Demand(NamedTuple):
    """What jobs of one lane that could start some time want together."""

    #: The smallest number of such a job that is first in its class; None: there is none.
    first: JobId | None
    #: Slots by kind.
    slots: Counts


class LaneJobs:
    """Waiting jobs of one lane by class, and what follows from them, which is kept until one of them changes."""

    def __init__(self) -> None:
        self.job_classes: dict[JobClassKey, JobClass] = {}
        self.demand: Demand | None = None
        self._heads: list[Head] = []

    @property
    def heads(self) -> Sequence[Head]:
        """The first job of each class, in order."""
        if not self._heads:
            self._heads = sorted((each.ranks[0], 0, each) for each in self.job_classes.values())
        return self._heads

    def change(self) -> None:
        """One of the jobs is about to change."""
        self.demand = None
        self._heads = []


def not_carried(world: World, waiting: Mapping[JobId, Waiting]) -> dict[JobId, Waiting]:
    """The reasons that the jobs do not carry yet."""
    return {job_id: said for job_id, said in waiting.items() if differs(world.queued[job_id], said)}


def differs(job: Job, said: Waiting) -> bool:
    """Whether the job carries another reason than this one."""
    return job.wait_reason is not said.reason or job.wait_for != said.for_job


def _by_name(carried: Carried) -> tuple[str, int]:
    reason, for_job = carried
    return (str(reason), for_job or 0)


class WaitingJobs:
    """Waiting jobs by class, except for those that hold a reservation, have a fixed group, or pause after a failure."""

    def __init__(self, order: Order, tree: Tree, jobs: Iterable[Job]) -> None:
        self._order = order
        self._tree = tree
        self.lanes: dict[Lane, LaneJobs] = {}
        self._minimums = WeakValueDictionary[tuple[WorkerShape, int], Minimum]()
        #: Jobs that are looked at one by one.
        self.singles: dict[JobId, Job] = {}
        for job in jobs:
            if self._alone(job):
                self.singles[job.id] = job
            else:
                job_class = self._job_class(job)
                job_class.ranks.append(order.rank(job))
                job_class.note(job)
        for job_class in self.job_classes:
            for part in (2, 1, 0):  # one after the other is faster than by whole tuples
                job_class.ranks.sort(key=itemgetter(part))

    @property
    def job_classes(self) -> Iterator[JobClass]:
        return (job_class for lane in self.lanes.values() for job_class in lane.job_classes.values())

    @property
    def minimums(self) -> Iterable[Minimum]:
        """What the jobs of all classes need."""
        return self._minimums.values()

    def advance(self, order: Order) -> None:
        """Advance to the time of `order`: pauses may be over."""
        self._order = order
        for job in [job for job in self.singles.values() if not self._alone(job)]:
            del self.singles[job.id]
            self._join(job)

    def forget_demands(self) -> None:
        """What jobs want is not what it was."""
        for lane in self.lanes.values():
            lane.demand = None

    def add(self, job: Job) -> None:
        if self._alone(job):
            self.singles[job.id] = job
        else:
            self._join(job)

    def remove(self, job: Job) -> None:
        if self.singles.pop(job.id, None) is None:
            job_class = self._job_class(job)
            del job_class.ranks[job_class.after(self._order.rank(job))]
            job_class.forget(job)
            if not job_class.ranks:
                job_classes = self.lanes[job_class.lane].job_classes
                del job_classes[self._kind(job)]
                if not job_classes:
                    del self.lanes[job_class.lane]

    def replace(self, old: Job, new: Job) -> None:
        """Replace the value of a job; often only its wait reason has changed."""
        if old.id in self.singles or self._alone(new) or not self._same_place(old, new):
            self.remove(old)
            self.add(new)
        else:
            kind = self._kind(new)
            self.lanes[kind[0]].job_classes[kind].explain(old, new)

    def _same_place(self, old: Job, new: Job) -> bool:
        """Whether both values of a job surely have one place in one class, and count alike in it."""
        return (
            not self._order.ages
            and old.spec is new.spec
            and (old.min_workers, old.max_workers) == (new.min_workers, new.max_workers)
            and old.priority == new.priority
            and old.submitted_at == new.submitted_at
        )

    def _alone(self, job: Job) -> bool:
        return bool(job.reservation) or job.not_before > self._order.now or job.spec.fixed is not None

    def _join(self, job: Job) -> None:
        job_class = self._job_class(job)
        insort(job_class.ranks, self._order.rank(job))
        job_class.note(job)

    def _job_class(self, job: Job) -> JobClass:
        """The class of the job, of which something is about to change."""
        kind = self._kind(job)
        lane = self.lanes.get(kind[0])
        if lane is None:
            lane = self.lanes[kind[0]] = LaneJobs()
        lane.change()
        job_class = lane.job_classes.get(kind)
        if job_class is None:
            job_class = lane.job_classes[kind] = JobClass(kind, self._minimum(*kind[1:3]))
        return job_class

    def _minimum(self, shape: WorkerShape, workers: int) -> Minimum:
        minimum = self._minimums.get((shape, workers))
        if minimum is None:
            minimum = self._minimums[shape, workers] = Minimum(shape, workers)
        return minimum

    def _kind(self, job: Job) -> JobClassKey:
        priority = job.priority if self._order.ages else None
        return (self._tree.lane_of(job), job.spec.shape, job.min_workers, job.spec.preemptible, priority)
