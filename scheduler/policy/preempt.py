"""Taking slots for a more important job: how little of what others hold will do.

Takings are tried from the mildest to the harshest, until the job fits: reservations of less important jobs, workers of
elastic jobs above their minimum, whole jobs; each least important first, then least lost work. Then every taking that
turns out not to be needed is given back, harshest and latest first. Nothing is touched unless the job then fits.
"""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from scheduler.model.ids import JobId
from scheduler.model.job import Job, StopReason
from scheduler.model.worker import LeaveReason, Worker
from scheduler.policy.amounts import NOTHING, Amount, Held, Spare, add
from scheduler.policy.draft import Draft
from scheduler.policy.ledger import View
from scheduler.policy.place import Fits, Suited
from scheduler.policy.victims import Victim, Victims


@dataclass(frozen=True, slots=True)
class Taking:
    """One thing taken, and what that frees on which nodes."""

    victim: Job
    #: Workers asked to leave; none where it is a reservation that is taken over.
    workers: tuple[Worker, ...]
    whole: bool
    freed: Held


class Search:
    """Takings so far, and how many workers of the job would fit after them; the ledger is left alone."""

    def __init__(self, draft: Draft, job: Job, suited: Suited, spare: Spare | None) -> None:
        self.draft = draft
        self.types = suited.types
        self.takings: list[Taking] = []
        self.count = job.min_workers
        self.shape = job.shape
        self.fits: Fits = suited.fits(View.SOON, spare)
        self._extra: dict[int, Amount] = {}
        self._fit: dict[int, int] = {}
        self._totals = self.fits.totals()

    @property
    def enough(self) -> bool:
        return any(total >= self.count for total in self._totals.values())

    def take(self, taking: Taking) -> None:
        self.takings.append(taking)
        self.put(taking, 1)

    def put(self, taking: Taking, sign: int) -> None:
        """Count what the taking frees as available, or with sign -1 as not available any more."""
        for i, amount in taking.freed:
            if i in self.types:
                extra = self._extra[i] = add(self._extra.get(i, NOTHING), amount, sign)
                fit = self.fits.fit(i, extra)
                gpu_type = self.types[i]
                self._totals[gpu_type] = self._totals.get(gpu_type, 0) + fit - self.fit(i)
                self._fit[i] = fit

    def fit(self, i: int) -> int:
        """How many workers of the job the node would take."""
        return self._fit[i] if i in self._fit else self.fits.known(i)

    def fit_with(self, i: int, amount: Amount) -> int:
        """The same if so much more were free."""
        return self.fits.fit(i, add(self._extra.get(i, NOTHING), amount))

    def useful(self, freed: Held) -> bool:
        """Whether it frees anything on a node that suits the job."""
        return any(i in self.types for i, _ in freed)


def find_takings(draft: Draft, job: Job, suited: Suited, victims: Victims, spare: Spare | None) -> list[Taking] | None:
    """The least that has to be taken for the job to fit, soon; None if everything would not be enough."""
    reservations = list(_reservations(draft, job))
    for step in (_take_in_turn, _take_by_node, _take_whole):
        search = Search(draft, job, suited, spare)
        for taking in reservations:
            if not search.enough:
                search.take(taking)
        step(search, victims.of(job))
        if search.enough:
            return _give_back(search)
    return None


def dominated(draft: Draft, job: Job) -> list[Job]:
    """Waiting jobs whose reservation this one may take over, least important first."""
    queued = draft.world.queued
    holders = [queued[job_id] for job_id in draft.holding if draft.order.more_important(job, queued[job_id])]
    return draft.order.queue(holders)[::-1]


def apply(draft: Draft, job: Job, takings: list[Taking], victims: Victims) -> JobId | None:
    """Write the takings into the draft; gives the first job that loses workers."""
    losing: dict[JobId, list[Taking]] = {}
    for taking in takings:
        if taking.workers:
            losing.setdefault(taking.victim.id, []).append(taking)
        else:
            draft.unhold(taking.victim)
            draft.openings += 1
    for mine in losing.values():
        victim = mine[0].victim
        if any(taking.whole for taking in mine):
            draft.stop(victim, StopReason.PREEMPTED, job.id)
        else:
            leaving = tuple(worker for taking in mine for worker in taking.workers)
            draft.shrink(victim, leaving, LeaveReason.PREEMPTED, job.id)
    victims.refresh(losing)
    return next(iter(losing), None)


def _reservations(draft: Draft, job: Job) -> Iterator[Taking]:
    for holder in dominated(draft, job):
        freed = tuple(draft.places.amounts(draft.holding[holder.id], holder.shape))
        yield Taking(holder, (), False, freed)


def _take_in_turn(search: Search, victims: Iterable[Victim]) -> None:
    """Job by job, the youngest useful workers first."""
    for victim in victims:
        for worker, freed in _shrinkable(search, victim):
            if search.enough:
                return
            search.take(Taking(victim.job, (worker,), False, freed))


def _take_by_node(search: Search, victims: Iterable[Victim]) -> None:
    """Node by node, where fewest must leave: a worker that needs several slots needs them together."""
    victims = list(victims)
    surplus = {victim.job.id: victim.surplus for victim in victims}
    on_node: dict[int, list[tuple[Job, Worker, Held]]] = {}
    for victim in victims:
        if victim.surplus:
            for worker, freed in victim.workers:
                for i, _ in freed:
                    if i in search.types:
                        on_node.setdefault(i, []).append((victim.job, worker, freed))
    heap = [(len(needed), i) for i in on_node if (needed := _needed_on(search, i, on_node[i], surplus))]
    heapq.heapify(heap)
    while heap and not search.enough:
        expected, i = heapq.heappop(heap)
        needed = _needed_on(search, i, on_node[i], surplus)
        if needed and len(needed) <= expected:
            for taking in needed:
                surplus[taking.victim.id] -= 1
                search.take(taking)
            gone = {taking.workers[0].id for taking in needed}
            for k in {k for taking in needed for k, _ in taking.freed if k in on_node}:
                on_node[k] = [entry for entry in on_node[k] if entry[1].id not in gone]
            needed = _needed_on(search, i, on_node[i], surplus)
        if needed:
            heapq.heappush(heap, (len(needed), i))


def _needed_on(
    search: Search, i: int, workers: list[tuple[Job, Worker, Held]], surplus: dict[JobId, int]
) -> list[Taking]:
    """Who must leave node `i` until one more of the job fits there; nobody if that cannot be."""
    before = search.fit(i)
    used: dict[JobId, int] = {}
    together: Amount = NOTHING
    takings: list[Taking] = []
    for victim, worker, freed in workers:
        if used.get(victim.id, 0) < surplus[victim.id]:
            used[victim.id] = used.get(victim.id, 0) + 1
            together = add(together, dict(freed)[i])
            takings.append(Taking(victim, (worker,), False, freed))
            if search.fit_with(i, together) > before:
                return takings
    return []


def _take_whole(search: Search, victims: Iterable[Victim]) -> None:
    """All that shrinking gives, and then whole jobs."""
    victims = list(victims)
    for victim in victims:
        for worker, freed in _shrinkable(search, victim):
            search.take(Taking(victim.job, (worker,), False, freed))
    shrunk = {taking.workers[0].id for taking in search.takings if taking.workers}
    for victim in victims:
        if search.enough:
            return
        rest = [(worker, freed) for worker, freed in victim.workers if worker.id not in shrunk]
        if any(search.useful(freed) for _, freed in rest):
            workers = tuple(worker for worker, _ in rest)
            search.take(Taking(victim.job, workers, True, tuple(piece for _, freed in rest for piece in freed)))


def _shrinkable(search: Search, victim: Victim) -> list[tuple[Worker, Held]]:
    surplus = victim.surplus
    if not surplus:
        return []
    return [(worker, freed) for worker, freed in victim.workers if search.useful(freed)][:surplus]


def _give_back(search: Search) -> list[Taking]:
    """What is really needed, in the order in which it was taken."""
    kept: list[Taking] = []
    stopped: set[JobId] = set()
    for taking in reversed(search.takings):
        if taking.victim.id in stopped:
            kept.append(taking)
            continue
        search.put(taking, -1)
        if not search.enough:
            search.put(taking, 1)
            kept.append(taking)
            if taking.whole:
                stopped.add(taking.victim.id)
    kept.reverse()
    return kept
