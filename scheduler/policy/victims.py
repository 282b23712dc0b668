"""Who may lose workers, in what order, and how much that could free at most."""

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.policy.amounts import Held, Spare, pour
from scheduler.policy.draft import Draft
from scheduler.policy.ledger import Ledger
from scheduler.policy.place import Suited
from scheduler.policy.stakes import Taking, one_by_one


@dataclass(frozen=True, slots=True)
class Victim:
    """An active job that may lose workers."""

    job: Job
    #: Its workers that stay so far, youngest first.
    takings: tuple[Taking, ...]

    @property
    def surplus(self) -> int:
        """How many workers it has above its minimum."""
        return max(len(self.takings) - self.job.min_workers, 0)

    def beside(self, ledger: Ledger) -> "Victim":
        """The same with only what its leaving frees for those who have slots of their own."""
        own = (taking._replace(freed=_own_part(taking.freed, ledger)) for taking in self.takings)
        return Victim(self.job, tuple(own))


class Victims:
    """All preemptible jobs of a draft: those that share first, then least important, least lost work, the newest."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        #: Priority to the jobs that have it, in order.
        self._in_turn: dict[int, list[Job]] = {}
        self._records: dict[JobId, Victim] = {}

    def of(self, job: Job) -> Iterator[Victim]:
        """Those that may lose workers to this job now.

        Who shares makes room for a job of the same importance, too, if that needs CPUs or memory beside its own slots.
        """
        draft = self._draft
        for victim in self._candidates(job.priority):
            if victim.id in draft.grows or victim.id in draft.stops:
                continue
            if draft.order.more_important(job, victim):
                yield self._known(victim)
            elif victim.priority == job.priority:
                yield self._known(victim).beside(draft.ledger)

    def equals(self, job: Job) -> Iterator[Victim]:
        """Jobs of the same priority that have workers above their minimum, where the last is worth least first.

        A job that will not grow gets the places of workers that are few on their node, one that will those of many.
        """
        draft = self._draft
        rows = (peers.givers for peers in draft.survey.peers if peers.priority == job.priority)
        for _, _, job_id in heapq.merge(*rows):
            if job_id not in draft.grows and job_id not in draft.stops:
                yield _by_company(self._known(draft.survey.peers[job_id].job), most_first=job.elastic)

    def equals_have(self, priority: int) -> bool:
        """Whether any job of this priority has workers above its minimum."""
        return any(peers.givers for peers in self._draft.survey.peers if peers.priority == priority)

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
        if draft.ledger.oversold:
            for sharer in self._sharing(job.priority):
                pour(room, _own_part(draft.held(sharer), draft.ledger))
        if spare is not None:
            room = spare.within(room)
        return max(suited.totals(room).values(), default=0)

    def _candidates(self, priority: int) -> Iterator[Job]:
        """Those that share and are no more important, then the others that are less important."""
        priorities = [other for other in sorted(self._draft.stakes.takeable) if other <= priority]
        oversold = self._draft.ledger.oversold
        if oversold:
            for other in priorities:
                yield from self._sharing(other)
        for other in priorities:
            if other < priority:
                yield from (job for job in self._of_priority(other) if not (oversold and _shares(job)))

    def _sharing(self, priority: int) -> list[Job]:
        return [job for job in self._of_priority(priority) if _shares(job)]

    def _of_priority(self, priority: int) -> list[Job]:
        jobs = self._in_turn.get(priority)
        if jobs is None:
            jobs = [stake.job for stake in self._draft.stakes.takeable.get(priority, {}).values()]
            jobs.sort(key=lambda job: (lost_work(job, self._draft.now), -job.id))
            self._in_turn[priority] = jobs
        return jobs

    def _known(self, job: Job) -> Victim:
        record = self._records.get(job.id)
        if record is None:
            record = self._records[job.id] = self._record(job)
        return record

    def _record(self, job: Job) -> Victim:
        draft = self._draft
        if draft.touched(job):
            return Victim(job, one_by_one(job, draft.staying(job), draft.ledger))
        return Victim(job, draft.stakes.one_by_one(job))


def _shares(job: Job) -> bool:
    return any(worker.shared for worker in job.workers)


def _own_part(held: Held, ledger: Ledger) -> Held:
    """What is held of nodes' own halves."""
    return tuple(piece for piece in held if piece[0] < ledger.own)


def lost_work(job: Job, now: float) -> float:
    """Slot-seconds that a stop would throw away: everything since the last commit."""
    since = job.started_at if job.progress.last_commit_at is None else job.progress.last_commit_at
    return max(now - (now if since is None else since), 0.0) * len(job.workers) * job.shape.slots


def _by_company(victim: Victim, *, most_first: bool) -> Victim:
    """The same with those ahead who are many (or few) on their node."""
    together = Counter(taking.workers[0].node for taking in victim.takings)
    sign = -1 if most_first else 1
    order = sorted(victim.takings, key=lambda taking: sign * together[taking.workers[0].node])
    return Victim(victim.job, tuple(order))
