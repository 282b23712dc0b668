"""Who may lose workers, in what order, and how much that could free at most."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.worker import Worker
from scheduler.policy.draft import RESIZABLE_STATES, Draft
from scheduler.policy.ledger import NOTHING, Amount, Spare, View, add, amount_of
from scheduler.policy.place import Suited

#: (position, amount) of what a worker or a reservation holds.
Freed = tuple[tuple[int, Amount], ...]


@dataclass(frozen=True, slots=True)
class Victim:
    """An active job that may lose workers."""

    job: Job
    #: Workers that stay so far with what each would free, youngest first.
    workers: tuple[tuple[Worker, Freed], ...]

    @property
    def surplus(self) -> int:
        """How many workers it has above its minimum."""
        return max(len(self.workers) - self.job.min_workers, 0)


class Victims:
    """All preemptible jobs of a draft: least important first, then least lost work, then the newest."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        jobs = [job for job in draft.resizable() if job.spec.preemptible]
        jobs.sort(key=lambda job: (job.priority, lost_work(job, draft.now), -job.id))
        self._records = {job.id: self._record(job) for job in jobs}
        #: Priority -> what all jobs below it hold, by position.
        self._below: dict[int, dict[int, Amount]] = {}

    def of(self, job: Job) -> Iterator[Victim]:
        """Those that may lose workers to this job now."""
        draft = self._draft
        for victim_id, victim in self._records.items():
            if victim.job.priority >= job.priority:
                return
            free_to_lose = victim_id not in draft.grows and victim_id not in draft.stops
            if free_to_lose and draft.order.more_important(job, victim.job):
                yield victim

    def refresh(self, changed: Iterable[JobId]) -> None:
        """Take notice of what the draft took from these jobs."""
        for victim_id in changed:
            before = self._records[victim_id]
            after = self._records[victim_id] = self._record(before.job)
            staying = {worker.id for worker, _ in after.workers}
            for priority, held in self._below.items():
                if before.job.priority < priority:
                    for worker, freed in before.workers:
                        if worker.id not in staying:
                            _add(held, freed, -1)

    def reach(self, job: Job, suited: Suited, spare: Spare | None) -> int:
        """An upper bound on the workers that would fit if everything less important were taken."""
        below = self.held_below(job.priority)
        draft = self._draft
        held: dict[int, Amount] = {}
        for holder_id, placement in draft.holding.items():
            holder = draft.world.queued[holder_id]
            if holder.priority < job.priority:
                _add(held, draft.places.amounts(placement, holder.shape), 1)
        soon = suited.fits(View.SOON, spare)
        totals = soon.totals()
        types = suited.types
        for i in below.keys() | held.keys() if held else below.keys():
            if i in types:
                extra = add(held[i], below.get(i, NOTHING)) if i in held else below[i]
                totals[types[i]] = totals.get(types[i], 0) + soon.fit(i, extra) - soon.known(i)
        return max(totals.values(), default=0)

    def held_below(self, priority: int) -> dict[int, Amount]:
        """What all of them with a lower priority hold, by position."""
        held = self._below.get(priority)
        if held is None:
            held = self._below[priority] = {}
            for victim in self._records.values():
                if victim.job.priority >= priority:
                    break
                for _, freed in victim.workers:
                    _add(held, freed, 1)
        return held

    def _record(self, job: Job) -> Victim:
        ledger = self._draft.ledger
        workers = []
        for worker in reversed(self._draft.staying(job)):
            i = ledger.position.get(worker.node)
            freed: Freed = () if i is None else ((i, amount_of(worker, ledger.nodes[i])),)
            workers.append((worker, freed))
        return Victim(job, tuple(workers))


def may_take_from(draft: Draft, job: Job, victim: Job) -> bool:
    """Whether the active job may lose workers to this one."""
    return (
        victim.priority < job.priority
        and victim.spec.preemptible
        and not victim.finishing
        and victim.state in RESIZABLE_STATES
        and draft.order.more_important(job, victim)
    )


def lost_work(job: Job, now: float) -> float:
    """Slot-seconds that a stop would throw away: everything since the last commit."""
    since = job.started_at if job.progress.last_commit_at is None else job.progress.last_commit_at
    slots = sum(len(worker.slot_ids) for worker in job.workers)
    return max(now - (now if since is None else since), 0.0) * slots


def _add(held: dict[int, Amount], freed: Iterable[tuple[int, Amount]], sign: int) -> None:
    for i, amount in freed:
        held[i] = add(held.get(i, NOTHING), amount, sign)
