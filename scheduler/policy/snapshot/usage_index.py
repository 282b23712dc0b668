"""Usage of active jobs, and which of them need a look: kept from pass to pass.

All that a pass has to know of all active jobs is an index or a sum here, so that only changed jobs cost time.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.model.worker import Desired, Worker
from scheduler.policy.capacity.ledger import Ledger
from scheduler.policy.capacity.resources import Held, together
from scheduler.policy.snapshot.order import end_of
from scheduler.policy.snapshot.usage import JobUsage


class UsageChanges(NamedTuple):
    """The outcome of an update."""

    #: Nodes on which the jobs are, or were.
    nodes: set[NodeName]
    #: What may be taken of jobs: as it was before, and as it is now.
    gone: list[JobUsage]
    come: list[JobUsage]
    #: What may be taken of jobs with nothing but another progress.
    progressed: list[JobUsage]


class UsageIndex:
    """The usage of all active jobs, and the ledger's account of what is being freed."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._usages: dict[JobId, JobUsage] = {}
        #: Resizable jobs above their maximum and below their minimum.
        self.over: set[JobId] = set()
        self.under: set[JobId] = set()
        #: Resizable jobs on shared slots.
        self.sharing: set[JobId] = set()
        #: Active jobs by the nodes on which they have workers.
        self.on: dict[NodeName, set[JobId]] = {}
        #: (end, job) of the attempts that a time limit ends, soonest first.
        self.endings: list[tuple[float, JobId]] = []

    def __getitem__(self, job_id: JobId) -> JobUsage:
        return self._usages[job_id]

    def update(self, jobs: Iterable[tuple[JobId, Job | None]]) -> UsageChanges:
        """Apply new values of active jobs (None: not active any more)."""
        changes = UsageChanges(set(), [], [], [])
        for job_id, job in jobs:
            before = self._usages.pop(job_id, None)
            if before is not None and job is not None and job.only_progressed(before.job):
                after = self._usages[job_id] = replace(before, job=job)
                if after.takeable:
                    changes.progressed.append(after.offered)
                continue
            if before is not None:
                changes.nodes.update(self._index(before, -1))
                if before.takeable:
                    changes.gone.append(before.offered)
            if job is not None:
                after = self._usages[job_id] = usage_of(job, self._ledger)
                changes.nodes.update(self._index(after, 1))
                if after.takeable:
                    changes.come.append(after.offered)
        return changes

    def _index(self, usage: JobUsage, sign: int) -> set[NodeName]:
        """Add the usage to all indexes, or with sign -1 remove it; returns the nodes on which the job has workers."""
        job = usage.job
        for i, amount in usage.leaving:
            self._ledger.come(i, amount, sign)
        names = {worker.node for worker in job.all_workers}
        self._index_nodes(job.id, names, sign)
        if usage.resizable:
            _mark(self.over, job.id, sign > 0 and len(usage.staying) > job.max_workers)
            _mark(self.under, job.id, sign > 0 and len(usage.staying) < job.min_workers)
            _mark(self.sharing, job.id, sign > 0 and any(worker.shared for worker in usage.staying))
        end = end_of(job, job.started_at)
        if end is not None and usage.held:
            ending = (end, job.id)
            if sign > 0:
                insort(self.endings, ending)
            else:
                del self.endings[bisect_left(self.endings, ending)]
        return names

    def _index_nodes(self, job_id: JobId, names: Iterable[NodeName], sign: int) -> None:
        for name in names:
            if sign > 0:
                self.on.setdefault(name, set()).add(job_id)
            else:
                self.on[name].discard(job_id)


def _mark(marked: set[JobId], job_id: JobId, mark: bool) -> None:
    if mark:
        marked.add(job_id)
    else:
        marked.discard(job_id)


def usage_of(job: Job, ledger: Ledger) -> JobUsage:
    """The usage of the job as it stands in the world."""
    staying = () if job.state is JobState.STOPPING else job.workers
    run = Desired.RUN
    if not all(worker.desired is run for worker in staying):
        staying = job.wanted_workers
    fixed = job.fixed_workers
    if fixed:
        fixed = () if job.state is JobState.STOPPING else tuple(worker for worker in fixed if worker.wanted)
    leaving: Held = ()
    if len(staying) + len(fixed) < len(job.workers) + len(job.fixed_workers):
        ids = {worker.id for worker in staying + fixed}
        leaving = held_by((worker for worker in job.all_workers if worker.id not in ids), ledger)
    each, fixed_each = ledger.held_by_each(staying), ledger.held_by_each(fixed)
    return JobUsage(job, staying, each, fixed, fixed_each, together(each + fixed_each), leaving)


def held_by(workers: Iterable[Worker], ledger: Ledger) -> Held:
    """Amounts that these workers hold, by position."""
    return together(ledger.held_by_each(workers))
