"""What active jobs hold, and which of them need a look: kept from pass to pass.

Whatever a pass has to know of all active jobs stands here as an index or a sum, so that only jobs that changed cost.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job, JobState
from scheduler.model.worker import Desired, Worker
from scheduler.policy.amounts import NOTHING, Amount, Held, Rows, add
from scheduler.policy.ledger import Ledger
from scheduler.policy.order import end_of
from scheduler.policy.sums import SumsBelow
from scheduler.policy.victim import Victim, laid_out

#: Jobs whose size the planner may change.
RESIZABLE_STATES = frozenset({JobState.STARTING, JobState.RUNNING, JobState.RESIZING})


@dataclass(frozen=True, slots=True)
class Stake:
    """One active job's hold on the nodes that take new workers."""

    job: Job
    #: Workers that nobody asked to leave, oldest first.
    staying: tuple[Worker, ...]
    #: What each of these holds.
    each: tuple[Held, ...]
    #: What they hold together.
    held: Held
    #: What those who leave hold.
    leaving: Held

    @property
    def resizable(self) -> bool:
        return self.job.state in RESIZABLE_STATES and not self.job.finishing

    @property
    def takeable(self) -> bool:
        """Whether a more important job may take from it."""
        return self.resizable and self.job.spec.preemptible


class Stakes:
    """All stakes, and the ledger's account of what is being freed."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._stakes: dict[JobId, Stake] = {}
        #: Resizable jobs above their maximum and below their minimum.
        self.over: set[JobId] = set()
        self.under: set[JobId] = set()
        #: Resizable jobs on shared slots.
        self.sharing: set[JobId] = set()
        #: Active jobs by the nodes on which they have workers.
        self.on: dict[NodeName, set[JobId]] = {}
        #: (end, job) of the attempts that a time limit ends, soonest first.
        self.endings: list[tuple[float, JobId]] = []
        #: Priority to the jobs that may be taken from.
        self.takeable: dict[int, dict[JobId, Stake]] = {}
        #: Those that may be taken from, with all their workers that stay in the world.
        self._victims: dict[JobId, Victim] = {}
        self._below = SumsBelow(len(ledger.nodes), self._held_between)
        #: What the draft took: (priority, what it freed).
        self._taken: list[tuple[int, Held]] = []

    def __getitem__(self, job_id: JobId) -> Stake:
        return self._stakes[job_id]

    def update(self, jobs: Iterable[tuple[JobId, Job | None]]) -> set[NodeName]:
        """Take notice of new values of active jobs (None: not active any more); gives the nodes they are or were on."""
        nodes: set[NodeName] = set()
        takeable: list[Stake] = []
        for job_id, job in jobs:
            before = self._stakes.pop(job_id, None)
            self._victims.pop(job_id, None)
            if before is not None:
                self._index(before, -1)
                nodes.update(worker.node for worker in before.job.workers)
            if job is not None:
                after = self._stakes[job_id] = stake_of(job, self._ledger)
                self._index(after, 1)
                nodes.update(worker.node for worker in job.workers)
                if after.takeable:
                    takeable.append(after)
        for stake, pieces in zip(takeable, laid_out([stake.each[::-1] for stake in takeable]), strict=True):
            self._victims[stake.job.id] = Victim(stake.job, stake.staying[::-1], pieces)
        self._below.keep()
        return nodes

    def below(self, priority: int) -> Rows:
        """What jobs of lower priority hold that may be taken from and the draft left; see `SumsBelow.below`."""
        return self._below.below(priority)

    def less_than(self, priority: int) -> Iterator[Stake]:
        """Jobs of lower priority that may be taken from, in no order."""
        for other, stakes in self.takeable.items():
            if other < priority:
                yield from stakes.values()

    def victim(self, job: Job) -> Victim:
        """The job, which may be taken from, with those of its workers that stay in the world."""
        return self._victims[job.id]

    def take(self, job: Job, freed: Held) -> None:
        """The draft takes workers from the job, which frees this."""
        if self._stakes[job.id].takeable:
            self._taken.append((job.priority, freed))
            self._below.note(job.priority, freed, -1)

    def rollback(self) -> None:
        """Undo what the draft took."""
        self._below.undo()
        self._taken.clear()

    def _held_between(self, least: float, above: float) -> Iterator[tuple[int, Amount]]:
        """What jobs of these priorities hold that may be taken from, less what the draft took."""
        for priority, stakes in self.takeable.items():
            if least <= priority < above:
                yield from (piece for stake in stakes.values() for piece in stake.held)
        for priority, freed in self._taken:
            if least <= priority < above:
                yield from ((i, add(NOTHING, amount, -1)) for i, amount in freed)

    def _index(self, stake: Stake, sign: int) -> None:
        job = stake.job
        for i, amount in stake.leaving:
            self._ledger.come(i, amount, sign)
        self._index_nodes(job, sign)
        if stake.resizable:
            _mark(self.over, job.id, sign > 0 and len(stake.staying) > job.max_workers)
            _mark(self.under, job.id, sign > 0 and len(stake.staying) < job.min_workers)
            _mark(self.sharing, job.id, sign > 0 and any(worker.shared for worker in stake.staying))
        if stake.takeable:
            bucket = self.takeable.setdefault(job.priority, {})
            if sign > 0:
                bucket[job.id] = stake
            else:
                del bucket[job.id]
                if not bucket:
                    del self.takeable[job.priority]
            self._below.note(job.priority, stake.held, sign)
        end = end_of(job, job.started_at)
        if end is not None and stake.held:
            ending = (end, job.id)
            if sign > 0:
                insort(self.endings, ending)
            else:
                del self.endings[bisect_left(self.endings, ending)]

    def _index_nodes(self, job: Job, sign: int) -> None:
        for name in {worker.node for worker in job.workers}:
            if sign > 0:
                self.on.setdefault(name, set()).add(job.id)
            else:
                self.on[name].discard(job.id)


def stake_of(job: Job, ledger: Ledger) -> Stake:
    """What the job holds as it stands in the world."""
    staying = () if job.state is JobState.STOPPING else job.workers
    if not all(worker.desired is Desired.RUN for worker in staying):
        staying = job.wanted_workers
    leaving: Held = ()
    if len(staying) < len(job.workers):
        ids = {worker.id for worker in staying}
        leaving = held_by((worker for worker in job.workers if worker.id not in ids), ledger)
    each = tuple(map(ledger.held_by, staying))
    return Stake(job, staying, each, _together(each), leaving)


def held_by(workers: Iterable[Worker], ledger: Ledger) -> Held:
    """What these workers hold, by position."""
    return _together(map(ledger.held_by, workers))


def _together(each: Iterable[Held]) -> Held:
    held: dict[int, Amount] = {}
    for pieces in each:
        for i, amount in pieces:
            held[i] = add(held[i], amount) if i in held else amount
    return tuple(held.items())


def _mark(marked: set[JobId], job_id: JobId, mark: bool) -> None:
    if mark:
        marked.add(job_id)
    else:
        marked.discard(job_id)
