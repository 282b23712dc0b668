"""Jobs of one priority that have workers above their minimum, and what they could give to an equal."""

import heapq
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.policy.amounts import Rows
from scheduler.policy.draft import Draft
from scheduler.policy.victim import Victim


class Givers:
    """Givers of one priority, where the last worker is worth least first; those that have nothing left drop out."""

    def __init__(self, draft: Draft, priority: int, victim_of: Callable[[Job], Victim]) -> None:
        self._draft = draft
        self._victim_of = victim_of
        rows = (peers.givers for peers in draft.survey.peers if peers.priority == priority)
        #: In order.
        self._jobs = {job_id: None for _, _, job_id in heapq.merge(*rows) if self._gives(job_id)}
        #: With workers in the order for a job that will grow (True) or will not, once asked for.
        self._ordered: dict[tuple[JobId, bool], Victim] = {}
        self._gifts: dict[JobId, Rows] = {}
        self._sum: Rows | None = None
        #: Positions at which the sum changed, in order.
        self.log: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def in_turn(self, *, most_first: bool) -> Iterator[Victim]:
        """Each with those of its workers ahead who are many (or few) on their node."""
        for job_id in self._jobs:
            victim = self._ordered.get((job_id, most_first))
            if victim is None:
                victim = self._victim_of(self._draft.world.active[job_id]).by_company(most_first=most_first)
                self._ordered[job_id, most_first] = victim
            yield victim

    def most(self) -> Rows:
        """No node can get more from them than this."""
        if self._sum is None:
            self._sum = np.zeros((len(self._draft.ledger.nodes), 3), np.int64)
            self._gifts = {job_id: self._gift(job_id) for job_id in self._jobs}
            if self._gifts:
                _pour(self._sum, np.concatenate(list(self._gifts.values())), 1)
        return self._sum

    def refresh(self, changed: Iterable[JobId]) -> None:
        """Take notice of what the draft took from these jobs."""
        for job_id in self._jobs.keys() & changed:
            for most_first in (False, True):
                self._ordered.pop((job_id, most_first), None)
            if not self._gives(job_id):
                del self._jobs[job_id]
            if self._sum is not None:
                gone = self._gifts.pop(job_id)
                _pour(self._sum, gone, -1)
                self.log += gone[:, 1].tolist()
                if job_id in self._jobs:
                    self._gifts[job_id] = self._gift(job_id)
                    _pour(self._sum, self._gifts[job_id], 1)

    def _gives(self, job_id: JobId) -> bool:
        draft, job = self._draft, self._draft.world.active[job_id]
        return job_id not in draft.grows and job_id not in draft.stops and len(draft.staying(job)) > job.min_workers

    def _gift(self, job_id: JobId) -> Rows:
        return self._victim_of(self._draft.world.active[job_id]).gift


def _pour(rows: Rows, pieces: Rows, sign: int) -> None:
    np.add.at(rows, pieces[:, 1], sign * pieces[:, 2:5])
