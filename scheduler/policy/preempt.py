"""Taking slots for a more important job: who has to give, and how little of it will do.

Takings are tried from the mildest to the harshest, until the job fits: reservations of less important jobs, workers of
elastic jobs above their minimum, whole jobs; each least important first, then least lost work. Then every taking that
turns out not to be needed is given back, harshest and latest first. Nothing is touched unless the job then fits.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from scheduler.model.ids import JobId
from scheduler.model.job import Job, Placement, StopReason
from scheduler.model.worker import LeaveReason, Worker
from scheduler.policy.backfill import may_take_from
from scheduler.policy.draft import Draft
from scheduler.policy.ledger import Amount, Spare, View, usable_slots
from scheduler.policy.place import Fits, Spots


@dataclass(frozen=True, slots=True)
class Taking:
    """One thing taken, and what that frees on which nodes."""

    victim: Job
    #: Workers asked to leave; none where it is a reservation that is taken over.
    workers: tuple[Worker, ...]
    whole: bool
    frees: tuple[tuple[int, Amount], ...]


class Scale:
    """Counts whether a job fits as takings are put on and off, without touching the ledger."""

    def __init__(self, fits: Fits, types: dict[int, str | None], count: int) -> None:
        self._fits = fits
        self._types = types
        self._count = count
        self._extra: dict[int, Amount] = {}
        self._fit: dict[int, int] = {}
        self._totals = fits.totals()

    @property
    def enough(self) -> bool:
        return any(total >= self._count for total in self._totals.values())

    def put(self, taking: Taking, sign: int = 1) -> None:
        for i, amount in taking.frees:
            if i in self._types:
                self._shift(i, amount, sign)

    def fit(self, i: int) -> int:
        return self._fit[i] if i in self._fit else self._fits.fit(i)

    def _shift(self, i: int, amount: Amount, sign: int) -> None:
        before = self.fit(i)
        slots, cpus, memory = self._extra.get(i, (0, 0.0, 0))
        extra = (slots + sign * amount[0], cpus + sign * amount[1], memory + sign * amount[2])
        self._extra[i] = extra
        self._fit[i] = self._fits.fit(i, extra)
        gpu_type = self._types[i]
        self._totals[gpu_type] = self._totals.get(gpu_type, 0) + self._fit[i] - before


@dataclass(slots=True)
class Search:
    """The search for one job's victims."""

    draft: Draft
    job: Job
    spare: Spare | None
    takings: list[Taking] = field(default_factory=list)
    scale: Scale = field(init=False)

    def __post_init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Start over with nothing taken."""
        places = self.draft.places
        fits = places.fits(self.job.shape, View.SOON, self.spare)
        self.scale = Scale(fits, places.suited(self.job.shape).types, self.job.min_workers)
        self.takings = []

    def take(self, taking: Taking) -> None:
        self.takings.append(taking)
        self.scale.put(taking)

    def untake_last(self, length: int) -> None:
        while len(self.takings) > length:
            self.scale.put(self.takings.pop(), -1)

    def useful(self, worker: Worker) -> bool:
        """Whether its node could take a worker of the job."""
        i = self.draft.ledger.position.get(worker.node)
        return i is not None and i in self.draft.places.suited(self.job.shape).types


def find_takings(draft: Draft, job: Job, victims: list[Job], spare: Spare | None) -> list[Taking] | None:
    """The least that has to be taken for the job to fit, soon; None if everything would not be enough."""
    search = Search(draft, job, spare)
    reservations = list(_reservations(draft, job))
    for step in (_take_in_turn, _take_by_node, _take_whole):
        search.clear()
        for taking in reservations:
            if not search.scale.enough:
                search.take(taking)
        step(search, victims)
        if search.scale.enough:
            return _give_back(search)
    return None


def dominated(draft: Draft, job: Job) -> list[Job]:
    """Waiting jobs whose reservation this one may take over, least important first."""
    queued = draft.world.queued
    holders = [queued[job_id] for job_id in draft.holding if draft.order.more_important(job, queued[job_id])]
    return list(reversed(draft.order.queue(holders)))


def victims_of(draft: Draft, job: Job, candidates: list[Job]) -> list[Job]:
    """Those of the candidates (in victim order) that may lose workers to the job in this draft."""
    return [
        victim
        for victim in candidates
        if may_take_from(draft, job, victim) and victim.id not in draft.grows and victim.id not in draft.stops
    ]


def victim_order(draft: Draft) -> list[Job]:
    """Active jobs that may be victims: least important first, then least lost work, then the newest."""
    jobs = [job for job in draft.resizable() if job.spec.preemptible]
    return sorted(jobs, key=lambda job: (job.priority, lost_work(job, draft.now), -job.id))


def lost_work(job: Job, now: float) -> float:
    """Slot-seconds that a stop would throw away: everything since the last commit."""
    since = job.started_at if job.progress.last_commit_at is None else job.progress.last_commit_at
    slots = sum(len(worker.slot_ids) for worker in job.workers)
    return max(now - (now if since is None else since), 0.0) * slots


def apply(draft: Draft, job: Job, takings: list[Taking]) -> JobId | None:
    """Write the takings into the draft; gives the first job that loses workers."""
    shrinking: dict[JobId, list[Worker]] = {}
    by_id = {taking.victim.id: taking.victim for taking in takings}
    for taking in takings:
        if not taking.workers:
            draft.unhold(taking.victim)
        else:
            shrinking.setdefault(taking.victim.id, [])
            if not taking.whole:
                shrinking[taking.victim.id] += taking.workers
    stopping = {taking.victim.id for taking in takings if taking.whole}
    for victim_id, workers in shrinking.items():
        victim = by_id[victim_id]
        if victim_id in stopping:
            draft.stop(victim, StopReason.PREEMPTED, job.id)
        else:
            draft.shrink(victim, tuple(workers), LeaveReason.PREEMPTED, job.id)
    return next(iter(shrinking), None)


def _reservations(draft: Draft, job: Job) -> Iterator[Taking]:
    for holder in dominated(draft, job):
        yield Taking(holder, (), False, tuple(_amounts(draft, holder, draft.holding[holder.id])))


def _amounts(draft: Draft, holder: Job, placement: Placement) -> Iterator[tuple[int, Amount]]:
    shape = holder.shape
    for name, count in placement:
        i = draft.ledger.position.get(name)
        if i is not None:
            yield i, (shape.slots * count, shape.cpus * count, shape.memory_mib * count)


def _take_in_turn(search: Search, victims: list[Job]) -> None:
    """Job by job, the youngest useful workers first."""
    for victim in victims:
        for worker in _shrinkable(search, victim):
            if search.scale.enough:
                return
            search.take(_taking(search.draft, victim, (worker,)))


def _take_by_node(search: Search, victims: list[Job]) -> None:
    """Node by node: where a worker of the job needs several slots, those of one node must come together."""
    spare = {victim.id: len(search.draft.staying(victim)) - victim.min_workers for victim in victims}
    on_node: dict[int, list[tuple[Job, Worker]]] = {}
    position = search.draft.ledger.position
    for victim in victims:
        if spare[victim.id] > 0:
            for worker in reversed(search.draft.staying(victim)):
                if search.useful(worker):
                    on_node.setdefault(position[worker.node], []).append((victim, worker))
    progress = True
    while progress and not search.scale.enough:
        best: tuple[int, int] | None = None
        for i, workers in on_node.items():
            needed = _needed_on(search, i, workers, spare)
            if needed and (best is None or (needed, i) < best):
                best = (needed, i)
        progress = best is not None
        if best is not None:
            _take_on(search, best[1], on_node[best[1]], spare)


def _needed_on(search: Search, i: int, workers: list[tuple[Job, Worker]], spare: dict[JobId, int]) -> int:
    """How many workers must leave node `i` until one more of the job fits there; 0 if that cannot be."""
    length = len(search.takings)
    before = search.scale.fit(i)
    left = dict(spare)
    needed = _take_until_more(search, i, workers, left, before)
    search.untake_last(length)
    return needed


def _take_on(search: Search, i: int, workers: list[tuple[Job, Worker]], spare: dict[JobId, int]) -> None:
    length = len(search.takings)
    _take_until_more(search, i, workers, spare, search.scale.fit(i))
    gone = {taking.workers[0].id for taking in search.takings[length:]}
    workers[:] = [(victim, worker) for victim, worker in workers if worker.id not in gone]


def _take_until_more(
    search: Search, i: int, workers: list[tuple[Job, Worker]], spare: dict[JobId, int], before: int
) -> int:
    taken = 0
    for victim, worker in workers:
        if spare[victim.id] > 0:
            spare[victim.id] -= 1
            search.take(_taking(search.draft, victim, (worker,)))
            taken += 1
            if search.scale.fit(i) > before:
                return taken
    return 0


def _take_whole(search: Search, victims: list[Job]) -> None:
    """All that shrinking gives, and then whole jobs."""
    for victim in victims:
        for worker in _shrinkable(search, victim):
            search.take(_taking(search.draft, victim, (worker,)))
    shrunk = {taking.workers[0].id for taking in search.takings if taking.workers}
    for victim in victims:
        if search.scale.enough:
            return
        rest = tuple(worker for worker in search.draft.staying(victim) if worker.id not in shrunk)
        if any(search.useful(worker) for worker in rest):
            search.take(_taking(search.draft, victim, rest, whole=True))


def _shrinkable(search: Search, victim: Job) -> list[Worker]:
    staying = search.draft.staying(victim)
    budget = len(staying) - victim.min_workers
    if budget <= 0:
        return []
    return [worker for worker in reversed(staying) if search.useful(worker)][:budget]


def _taking(draft: Draft, victim: Job, workers: tuple[Worker, ...], *, whole: bool = False) -> Taking:
    frees = []
    for worker in workers:
        i = draft.ledger.position.get(worker.node)
        if i is not None:
            slots = usable_slots(draft.ledger.nodes[i], worker.slot_ids)
            frees.append((i, (slots, worker.cpus, worker.memory_mib)))
    return Taking(victim, workers, whole, tuple(frees))


def _give_back(search: Search) -> list[Taking]:
    """What is really needed, in the order in which it was taken."""
    kept: list[Taking] = []
    stopped: set[JobId] = set()
    for taking in reversed(search.takings):
        if taking.victim.id in stopped:
            kept.append(taking)
            continue
        search.scale.put(taking, -1)
        if not search.scale.enough:
            search.scale.put(taking)
            kept.append(taking)
            if taking.whole:
                stopped.add(taking.victim.id)
    kept.reverse()
    return kept


def spots_after(draft: Draft, job: Job, spare: Spare | None) -> Spots | None:
    """Where the job fits once those who are leaving have left."""
    return draft.places.fits(job.shape, View.SOON, spare).place(job.min_workers)
