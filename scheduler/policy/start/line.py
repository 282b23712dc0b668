"""The line of waiting jobs: by queue whose turn it is, and in it by rank; job classes without hope stand aside."""

import heapq
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache

from scheduler.policy.capacity.pools import slots_to_start
from scheduler.policy.draft import Draft
from scheduler.policy.queues.tree import Lane
from scheduler.policy.queues.turns import Turn, Turns
from scheduler.policy.snapshot.order import Rank
from scheduler.policy.snapshot.waiting_jobs import Head, JobClass, Judge
from scheduler.policy.start.parked import Parked


class Line:
    """Who is next; see the module's docstring."""

    def __init__(self, draft: Draft, judge: Callable[[Lane], Judge], takes: Callable[[Lane], bool]) -> None:
        """`judge`: of each lane, what tells whether any job of a class might start; `takes`: see `Parked`."""
        self._draft = draft
        self._judge = judge
        #: By queue, as the own account of lanes; and the queues with any.
        self._heads: defaultdict[str, list[Head]] = defaultdict(list)
        self._turns = Turns(draft.shares)
        #: Queues that have hope.
        self._hopeful: set[str] = set()
        self._parked = Parked(draft, judge, takes)

    def turn(self) -> Turn | None:
        """The turn of the queue whose job is next; None: every job has had its own."""
        first = self._turns.first()
        return None if first is None else first[0]

    def pop(self) -> Head | None:
        """The next job; None: the queue whose turn it is has no hope, and is passed by."""
        first = self._turns.first()
        assert first is not None, "there is a job"
        heads = self._heads[queue := first[1]]
        head = None if self._passes_by(queue, heads) else heapq.heappop(heads)
        self._parked.look()
        if heads:
            self._put_in_turn(heads)
        else:
            self._turns.remove(queue)
            self._hopeful.discard(queue)
        return head

    def line_up(self, first: Iterable[tuple[Lane, Iterable[Head]]]) -> None:
        """Put the first jobs of lanes in line."""
        for lane, heads in first:
            self._heads[lane.own] += heads
        for each in self._heads.values():
            heapq.heapify(each)
            self._put_in_turn(each)

    def push(self, job_class: JobClass, k: int) -> None:
        """Put the job with this index in line, if the class has that many."""
        if k < len(job_class.ranks):
            heads, head = self._heads[job_class.lane.own], (job_class.ranks[k], k, job_class)
            heapq.heappush(heads, head)
            if heads[0] is head:
                self._put_in_turn(heads)

    def park(self, job_class: JobClass, k: int) -> None:
        """Put the class aside; `k` is the index of its first job that has not had its turn."""
        self._parked.add(job_class, k)

    def rejoin(self, rank: Rank) -> None:
        """Put parked classes in line again for which something opened; the job of this rank was the last."""
        for job_class, k in list(self._parked.with_hope()):
            self.push(job_class, bisect_right(job_class.ranks, rank) if self._draft.shares is None else k)

    def _put_in_turn(self, heads: list[Head]) -> None:
        """Let the queue with these jobs take its turn by what the first of them asks for."""
        draft, (rank, _, job_class) = self._draft, heads[0]
        if job_class is not None:
            lane, shape, slots = job_class.lane, job_class.minimum.shape, job_class.minimum.slots
        else:
            job = draft.world.queued[rank[2]]
            lane, shape, slots = draft.lane(job), job.shape, slots_to_start(job)
        self._turns.put(lane, draft.asked(shape, slots))

    def _passes_by(self, queue: str, heads: list[Head]) -> bool:
        """Whether none of the queue's jobs has any hope; classes without hope are parked."""
        if queue in self._hopeful:
            return False
        kept, judges = list[Head](), cache(self._judge)
        for head in heads:
            rank, k, job_class = head
            if job_class is None or judges(job_class.lane)(job_class.minimum, -rank[0]):
                kept.append(head)
            else:
                self.park(job_class, k)
        heads[:] = kept
        heapq.heapify(heads)
        if heads:
            self._hopeful.add(queue)
        return not heads
