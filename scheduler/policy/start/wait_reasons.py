"""Why each job that is left waiting does not start, judged by what the finished plan leaves."""

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from operator import itemgetter

import numpy as np

from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.job_state import WaitReason
from scheduler.model.plan import Waiting
from scheduler.policy.capacity.ledger import View
from scheduler.policy.capacity.request import Request
from scheduler.policy.capacity.resources import Amount, pour_rows
from scheduler.policy.draft import Draft
from scheduler.policy.queues.tree import Lane
from scheduler.policy.snapshot.order import Rank
from scheduler.policy.snapshot.placeholder import Placeholder, waiting_behind
from scheduler.policy.snapshot.waiting_jobs import JobClass, Minimum, differs, not_carried
from scheduler.policy.start.backfill import HeadReservation

#: Number of reasons that one plan replaces in job classes: one slot that comes free may change those of all the queue,
#: and they are for people to read.
REWRITTEN_MAX = 1000


def explain(
    draft: Draft,
    left: Iterable[Job],
    never_in: Callable[[Lane], Callable[[JobClass], WaitReason | None]],
    request: Callable[[JobClass], Request],
    head_reservation: HeadReservation | None,
) -> None:
    """Give every job that is left waiting its reason; drop the reasons that the jobs carry already.

    `left` are jobs that the pass over the queue looked at one by one; `never_in` tells for each lane what tells why no
    plan can start the jobs of a class whatever is free, `request` what each of them asks for.
    """
    waiting, keepers = not_carried(draft.world, draft.waiting), _Keepers(draft)
    for job in left:
        said = _reason(draft.request(job), keepers, head_reservation)
        if differs(job, said):
            waiting[job.id] = said

    lacking: dict[Minimum, Waiting] = {}

    def lacks(job_class: JobClass) -> Waiting:
        said = lacking.get(job_class.minimum)
        if said is None:
            said = lacking[job_class.minimum] = _reason(request(job_class), keepers, head_reservation)
        return said

    changed: list[_Changed] = []
    for lane, jobs in draft.snapshot.waiting_jobs.lanes.items():
        never = never_in(lane)
        for job_class in jobs.job_classes.values():
            reason = never(job_class)
            said = lacks(job_class) if reason is None else Waiting(reason)
            if job_class.carries_other_than(said):
                changed.append((job_class.ranks[0], job_class, said))
    draft.waiting = waiting | _told(draft, changed)


#: The rank of the first job of a class, the class, and its new reason.
_Changed = tuple[Rank, JobClass, Waiting]


def _told(draft: Draft, changed: list[_Changed]) -> dict[JobId, Waiting]:
    """Changed reasons of job classes, by place in the queue; limited for jobs that have a reason already."""
    decided = draft.starts.keys() | draft.holding.keys()

    def left(job_ids: list[JobId], most: int | None = None) -> Iterator[JobId]:
        return islice((job_id for job_id in job_ids if job_id not in decided), most)

    told = [
        (rank, dict.fromkeys(left(job_ids), said))
        for rank, job_class, said in changed
        for job_ids in job_class.unexplained()
    ]
    rewritten = 0
    heapq.heapify(changed)
    while changed and rewritten < REWRITTEN_MAX:
        rank, job_class, said = heapq.heappop(changed)
        for job_ids in job_class.explained_otherwise(said):
            told.append((rank, dict.fromkeys(left(job_ids, REWRITTEN_MAX - rewritten), said)))
            rewritten += len(told[-1][1])
    told.sort(key=itemgetter(0))
    return {job_id: said for _, each in told for job_id, said in each.items()}


class _Keepers:
    """Who keeps room in the finished draft from jobs behind: waiting jobs by reservations, then placeholders by starts.

    Placeholders start where room is kept free: nobody uses it.
    """

    def __init__(self, draft: Draft) -> None:
        holders, started = (list(map(draft.world.queued.__getitem__, each)) for each in (draft.holding, draft.starts))
        placeholders = [job for job in started if isinstance(job, Placeholder)]
        kept: list[list[tuple[int, Amount]]] = [draft.held_for(job) for job in holders]
        kept += [list(draft.given_to(job)) for job in placeholders]
        self._ledger, self._holding, self._jobs = draft.ledger, bool(holders), [*holders, *placeholders]
        self._where = np.array([i for each in kept for i, _ in each], np.int64)
        self._amounts = np.array([amount for each in kept for _, amount in each], np.int64).reshape(-1, 3)
        self._ends = [0, *np.cumsum([len(each) for each in kept], dtype=np.int64).tolist()]
        #: Index of the first amount that is not free any more in the draft.
        self._started = self._ends[len(holders)]

    def in_the_way(self, request: Request) -> Job | None:
        """The first without which and those before it the request would fit; None: it would not without all of them."""
        count = len(self._jobs)
        possible = len(self._where) > self._started or (self._holding and request.fits(View.FREE))
        if not possible or not self._fits_without(count, request):
            return None
        return self._jobs[bisect_left(range(count), True, key=lambda k: self._fits_without(k + 1, request))]

    def _fits_without(self, count: int, request: Request) -> bool:
        """Whether the request would fit if the first `count` of them kept nothing."""
        free, soon = (self._ledger.rows_at(slice(None), view) for view in (View.FREE, View.SOON))
        end = self._ends[count]
        pour_rows(soon, self._where[:end], self._amounts[:end])
        pour_rows(free, self._where[self._started : end], self._amounts[self._started : end])
        return request.find(np.minimum(free, soon)) is not None


def _reason(request: Request, keepers: _Keepers, head_reservation: HeadReservation | None) -> Waiting:
    """Why a job with this request does not start."""
    if request.fits(View.OPEN):
        return waiting_behind(head_reservation.job if head_reservation is not None else None)
    keeper = keepers.in_the_way(request)
    return Waiting(WaitReason.INSUFFICIENT_SLOTS) if keeper is None else waiting_behind(keeper)
