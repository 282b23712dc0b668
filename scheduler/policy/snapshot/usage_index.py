"""What active jobs hold, and which of them need a look: kept from pass to pass.

Whatever a pass has to know of all active jobs stands here as an index or a sum, so that only jobs that changed cost.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job
from scheduler.model.worker import Worker
from scheduler.policy.capacity.ledger import Ledger
from scheduler.policy.capacity.priority_sums import SumsBelow
from scheduler.policy.capacity.resources import Held, Rows
from scheduler.policy.snapshot.order import end_of
from scheduler.policy.snapshot.usage import JobUsage, stake_of
from scheduler.policy.snapshot.victim_table import VictimTable


class UsageIndex:
    """All stakes, and the ledger's account of what is being freed."""

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
        #: What jobs hold that may be taken from and the draft left.
        self.victim_table = VictimTable()
        self._below = SumsBelow(len(ledger.nodes), self._pour_between)

    def __getitem__(self, job_id: JobId) -> JobUsage:
        return self._usages[job_id]

    def update(self, jobs: Iterable[tuple[JobId, Job | None]]) -> set[NodeName]:
        """Take notice of new values of active jobs (None: not active any more); gives the nodes they are or were on."""
        nodes: set[NodeName] = set()
        gone: list[JobId] = []
        come: list[JobUsage] = []
        for job_id, job in jobs:
            before = self._usages.pop(job_id, None)
            if before is not None:
                nodes |= self._index(before, -1)
                if before.takeable:
                    gone.append(job_id)
            if job is not None:
                after = self._usages[job_id] = stake_of(job, self._ledger)
                nodes |= self._index(after, 1)
                if after.takeable:
                    come.append(after)
        self.victim_table.update(gone, come)
        self._below.keep()
        return nodes

    def below(self, priority: int) -> Rows:
        """What jobs of lower priority hold that may be taken from and the draft left; see `SumsBelow.below`."""
        return self._below.below(priority)

    def less_than(self, priority: int) -> Iterator[JobUsage]:
        """Jobs of lower priority that may be taken from, in no order."""
        table = self.victim_table.table
        return (self._usages[JobId(job_id)] for job_id in table["job"][table["priority"] < priority].tolist())

    def take(self, job: Job, staying: tuple[Worker, ...], fixed: tuple[Worker, ...], freed: Held) -> None:
        """The draft leaves the job these workers and of its fixed group these, which frees so much."""
        if self._usages[job.id].takeable:
            self.victim_table.take(job.id, staying, fixed)
            self._below.note(job.priority, freed, -1)

    def rollback(self) -> None:
        """Undo what the draft took."""
        self._below.undo()
        self.victim_table.rollback()

    def _pour_between(self, rows: Rows, least: float, above: float, sign: int) -> None:
        """What jobs of these priorities hold that may be taken from, less what the draft took."""
        table = self.victim_table.table
        between = (least <= table["priority"]) & (table["priority"] < above)
        self.victim_table.pour(rows, table[between], sign)

    def _index(self, usage: JobUsage, sign: int) -> set[NodeName]:
        """The nodes on which it has workers."""
        job = usage.job
        for i, amount in usage.leaving:
            self._ledger.come(i, amount, sign)
        names = {worker.node for worker in job.all_workers}
        self._index_nodes(job.id, names, sign)
        if usage.resizable:
            _mark(self.over, job.id, sign > 0 and len(usage.staying) > job.max_workers)
            _mark(self.under, job.id, sign > 0 and len(usage.staying) < job.min_workers)
            _mark(self.sharing, job.id, sign > 0 and any(worker.shared for worker in usage.staying))
        if usage.takeable:
            self._below.note(job.priority, usage.held, sign)
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
