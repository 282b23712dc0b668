"""Who may lose workers, in what order, and how much that could free at most."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.worker import Worker
from scheduler.policy.amounts import Held, Spare, amount_of, pour
from scheduler.policy.draft import Draft
from scheduler.policy.place import Suited


@dataclass(frozen=True, slots=True)
class Victim:
    """An active job that may lose workers."""

    job: Job
    #: Workers that stay so far with what each would free, youngest first.
    workers: tuple[tuple[Worker, Held], ...]

    @property
    def surplus(self) -> int:
        """How many workers it has above its minimum."""
        return max(len(self.workers) - self.job.min_workers, 0)


class Victims:
    """All preemptible jobs of a draft: least important first, then least lost work, then the newest."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        #: Priority to the jobs that have it, in order.
        self._in_turn: dict[int, list[Job]] = {}
        self._records: dict[JobId, Victim] = {}

    def of(self, job: Job) -> Iterator[Victim]:
        """Those that may lose workers to this job now."""
        draft = self._draft
        for priority in sorted(draft.stakes.takeable):
            if priority >= job.priority:
                return
            for victim in self._of_priority(priority):
                free_to_lose = victim.id not in draft.grows and victim.id not in draft.stops
                if free_to_lose and draft.order.more_important(job, victim):
                    yield self._known(victim)

    def refresh(self, changed: Iterable[JobId]) -> None:
        """Take notice of what the draft took from these jobs."""
        for victim_id in changed:
            self._records.pop(victim_id, None)

    def reach(self, job: Job, suited: Suited, spare: Spare | None) -> int:
        """An upper bound on the workers that would fit if everything less important were taken."""
        draft = self._draft
        room = draft.ledger.soon()
        room += draft.stakes.below(job.priority)
        for holder_id, placement in draft.holding.items():
            holder = draft.world.queued[holder_id]
            if holder.priority < job.priority:
                pour(room, draft.places.amounts(placement, holder.shape))
        if spare is not None:
            room = spare.within(room)
        return max(suited.totals(room).values(), default=0)

    def _of_priority(self, priority: int) -> list[Job]:
        jobs = self._in_turn.get(priority)
        if jobs is None:
            jobs = [stake.job for stake in self._draft.stakes.takeable[priority].values()]
            jobs.sort(key=lambda job: (lost_work(job, self._draft.now), -job.id))
            self._in_turn[priority] = jobs
        return jobs

    def _known(self, job: Job) -> Victim:
        record = self._records.get(job.id)
        if record is None:
            record = self._records[job.id] = self._record(job)
        return record

    def _record(self, job: Job) -> Victim:
        ledger = self._draft.ledger
        workers = []
        for worker in reversed(self._draft.staying(job)):
            i = ledger.position.get(worker.node)
            freed: Held = () if i is None else ((i, amount_of(worker, ledger.nodes[i])),)
            workers.append((worker, freed))
        return Victim(job, tuple(workers))


def lost_work(job: Job, now: float) -> float:
    """Slot-seconds that a stop would throw away: everything since the last commit."""
    since = job.started_at if job.progress.last_commit_at is None else job.progress.last_commit_at
    slots = sum(len(worker.slot_ids) for worker in job.workers)
    return max(now - (now if since is None else since), 0.0) * slots
