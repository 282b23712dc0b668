"""Who may lose workers, in what order, and how much that could free at most."""

from collections.abc import Collection, Iterator

from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.policy.amounts import Rows, Spare, pour
from scheduler.policy.draft import Draft
from scheduler.policy.givers import Givers
from scheduler.policy.place import Suited
from scheduler.policy.stakes import one_by_one
from scheduler.policy.victim import Victim, own_part


class Victims:
    """All preemptible jobs of a draft: those that share first, then least important, least lost work, the newest."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        #: Priority to the jobs that have it, in order: all (False), or those above their minimum in the world (True).
        self._in_turn: dict[tuple[int, bool], list[Job]] = {}
        self._records: dict[JobId, Victim] = {}
        self._givers: dict[int, Givers] = {}

    def of(self, job: Job, *, shrinkable: bool = False) -> Iterator[Victim]:
        """Those that may lose workers to this job now; `shrinkable`: none that were at their minimum before this pass.

        Who shares makes room for a job of the same importance, too, if that needs CPUs or memory beside its own slots.
        """
        draft = self._draft
        for victim in self._candidates(job.priority, shrinkable):
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
        return self._givers_of(job.priority).in_turn(most_first=job.elastic)

    def refresh(self, changed: Collection[JobId]) -> None:
        """Take notice of what the draft took from these jobs."""
        for victim_id in changed:
            self._records.pop(victim_id, None)
        for givers in self._givers.values():
            givers.refresh(changed)

    def reach(self, job: Job, suited: Suited, spare: Spare | None) -> int:
        """An upper bound on the workers that would fit if everything less important were taken."""
        return self._most(suited, spare, self._room(job))

    def reach_with_equals(self, job: Job, suited: Suited, spare: Spare | None) -> int:
        """The same if equals gave what they have above their minimum, too; 0 if they have nothing."""
        givers = self._givers_of(job.priority)
        return self._most(suited, spare, self._room(job) + givers.most()) if givers else 0

    def _most(self, suited: Suited, spare: Spare | None, room: Rows) -> int:
        return max(suited.totals(room if spare is None else spare.within(room)).values(), default=0)

    def _room(self, job: Job) -> Rows:
        """What each node would have if everything less important were taken."""
        draft = self._draft
        room = draft.ledger.soon()
        room += draft.stakes.below(job.priority)
        for holder_id, placement in draft.holding.items():
            holder = draft.world.queued[holder_id]
            if holder.priority < job.priority:
                pour(room, draft.places.amounts(placement, holder.shape))
        if draft.ledger.oversold:
            for sharer in filter(_shares, self._of_priority(job.priority, False)):
                pour(room, own_part(draft.held(sharer), draft.ledger))
        return room

    def _givers_of(self, priority: int) -> Givers:
        givers = self._givers.get(priority)
        if givers is None:
            givers = self._givers[priority] = Givers(self._draft, priority, self._known)
        return givers

    def _candidates(self, priority: int, shrinkable: bool) -> Iterator[Job]:
        """Those that share and are no more important, then the others that are less important."""
        priorities = [other for other in sorted(self._draft.stakes.takeable) if other <= priority]
        oversold = self._draft.ledger.oversold
        if oversold:
            for other in priorities:
                yield from filter(_shares, self._of_priority(other, shrinkable))
        for other in priorities:
            if other < priority:
                yield from (job for job in self._of_priority(other, shrinkable) if not (oversold and _shares(job)))

    def _of_priority(self, priority: int, shrinkable: bool) -> list[Job]:
        jobs = self._in_turn.get((priority, shrinkable))
        if jobs is None:
            stakes = self._draft.stakes.takeable.get(priority, {}).values()
            jobs = [each.job for each in stakes if not shrinkable or len(each.staying) > each.job.min_workers]
            jobs.sort(key=lambda job: (lost_work(job, self._draft.now), -job.id))
            self._in_turn[priority, shrinkable] = jobs
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


def lost_work(job: Job, now: float) -> float:
    """Slot-seconds that a stop would throw away: everything since the last commit."""
    since = job.started_at if job.progress.last_commit_at is None else job.progress.last_commit_at
    return max(now - (now if since is None else since), 0.0) * len(job.workers) * job.shape.slots
