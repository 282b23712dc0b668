"""Who may lose workers, in what order, and how much that could free at most."""

from collections.abc import Collection, Iterator
from typing import Any

from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.policy.amounts import Spare
from scheduler.policy.draft import Draft
from scheduler.policy.givers import Givers
from scheduler.policy.place import Suited
from scheduler.policy.room import Room, with_all, with_reservations
from scheduler.policy.victim import Victim

#: Rooms that are remembered: the queue is served by priority.
ROOMS_MAX = 16


class Victims:
    """All preemptible jobs of a draft: those that share first, then least important, least lost work, the newest."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        #: Priority to the jobs that have it, in order: all (False), or those above their minimum (True).
        self._in_turn: dict[tuple[int, bool], dict[JobId, Job]] = {}
        self._records: dict[JobId, Victim] = {}
        self._givers: dict[int, Givers] = {}
        #: By priority, bounds, and whether equals give, too.
        self._rooms: dict[tuple[int, Spare | None, bool], Room] = {}
        self._open_rooms: dict[tuple[int, Spare | None], Room] = {}

    def of(self, job: Job, *, shrinkable: bool = False) -> Iterator[Victim]:
        """Those that may lose workers to this job now; `shrinkable`: none that were at their minimum.

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
            self._drop(self._draft.world.active[victim_id])
        for givers in self._givers.values():
            givers.refresh(changed)

    def reach(self, job: Job, suited: Suited, spare: Spare | None) -> int:
        """An upper bound on the workers that would fit if everything less important were taken."""
        return self._room(job.priority, spare, None).most(suited)

    def reach_with_equals(self, job: Job, suited: Suited, spare: Spare | None) -> int:
        """The same if equals gave what they have above their minimum, too; 0 if they have nothing."""
        givers = self._givers_of(job.priority)
        return self._room(job.priority, spare, givers).most(suited) if givers else 0

    def reach_of_any(self, job: Job, suited: Suited, spare: Spare | None) -> int:
        """The higher of these bounds, for any job of this priority and shape."""
        return max(self.reach(job, suited, spare), self.reach_with_equals(job, suited, spare))

    def room_with_reservations(self, job: Job, suited: Suited, spare: Spare | None) -> int:
        """An upper bound on the workers that would fit if less important jobs gave up their reservations."""
        key = (job.priority, spare)
        room = self._open_rooms.get(key)
        if room is None:
            room = with_reservations(self._draft, *key)
            _remember(self._open_rooms, key, room)
        return room.most(suited)

    def _room(self, priority: int, spare: Spare | None, givers: Givers | None) -> Room:
        key = (priority, spare, givers is not None)
        room = self._rooms.get(key)
        if room is None:
            room = with_all(self._draft, priority, spare, lambda: self._sharers(priority), givers)
            _remember(self._rooms, key, room)
        return room

    def _sharers(self, priority: int) -> Iterator[Job]:
        return filter(_shares, self._of_priority(priority, False))

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

    def _drop(self, job: Job) -> None:
        """What has nothing left to give is looked at no more."""
        left = len(self._draft.staying(job))
        for shrinkable, least in ((True, job.min_workers), (False, 0)):
            if left <= least and (jobs := self._in_turn.get((job.priority, shrinkable))) is not None:
                jobs.pop(job.id, None)

    def _of_priority(self, priority: int, shrinkable: bool) -> Collection[Job]:
        jobs = self._in_turn.get((priority, shrinkable))
        if jobs is None:
            stakes = self._draft.stakes.takeable.get(priority, {}).values()
            found = [each.job for each in stakes if not shrinkable or len(each.staying) > each.job.min_workers]
            ordered = sorted(found, key=lambda job: (lost_work(job, self._draft.now), -job.id))
            jobs = self._in_turn[priority, shrinkable] = {job.id: job for job in ordered}
        return jobs.values()

    def _known(self, job: Job) -> Victim:
        record = self._records.get(job.id)
        if record is None:
            record = self._records[job.id] = self._record(job)
        return record

    def _record(self, job: Job) -> Victim:
        draft = self._draft
        if draft.touched(job):
            return draft.stakes.victim(job).staying(draft.staying(job))
        return draft.stakes.victim(job)


def _remember(rooms: dict[Any, Room], key: object, room: Room) -> None:
    """The oldest makes place for it."""
    if len(rooms) >= ROOMS_MAX:
        del rooms[next(iter(rooms))]
    rooms[key] = room


def _shares(job: Job) -> bool:
    return any(worker.shared for worker in job.workers)


def lost_work(job: Job, now: float) -> float:
    """Slot-seconds that a stop would throw away: everything since the last commit."""
    since = job.progress.last_commit_at
    if since is None:
        since = job.started_at
    if since is None or since >= now:
        return 0.0
    return (now - since) * len(job.workers) * job.spec.shape.slots
