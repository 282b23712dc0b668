"""Preemption for a job with a fixed group, which has to fit as a whole.

Takings are tried in the same order as for other jobs (see `search`), and what turns out not to be needed is given back.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.policy.capacity.ledger import View
from scheduler.policy.capacity.request import Found, Request
from scheduler.policy.capacity.resources import Headroom, Rows, pour
from scheduler.policy.draft import Draft
from scheduler.policy.preempt.bulk_search import Asked, VictimBatch
from scheduler.policy.preempt.reservations import reservations
from scheduler.policy.preempt.victims import Victims
from scheduler.policy.snapshot.taking import Taking


def fixed_takings(
    draft: Draft, job: Job, request: Request, victims: Victims, headroom: Headroom | None
) -> list[Taking] | None:
    """The fewest takings of the first way that is enough; None if none is."""
    search = _Search(draft.ledger.rows_at(slice(None), View.SOON), request, headroom)
    first = reservations(draft, job)
    feasible = draft.places.feasible(job.shape)
    shrinkable = list(VictimBatch(victims.of(job, shrinkable=True), feasible).one_by_one())
    shrunk = search.in_turn(shrinkable)
    donors = list(VictimBatch(victims.with_equals(job), feasible).one_by_one())
    ways: tuple[Callable[[], list[Taking]], ...] = (
        lambda: shrunk,
        lambda: search.by_node(shrinkable),
        lambda: [*shrunk, *_whole(VictimBatch(victims.of(job), feasible).one_by_one(), shrunk)],
        lambda: search.in_turn(donors),
        lambda: search.by_node(donors),
    )
    for way in ways:
        found = search.least([*first, *way()])
        if found is not None:
            return found
    return None


class _Search:
    def __init__(self, soon: Rows, request: Request, headroom: Headroom | None) -> None:
        self._soon = soon
        self._request = request
        self._headroom = headroom
        #: Positions that suit any of the job's workers.
        self._useful = request.mask

    def in_turn(self, victims: Iterable[Asked]) -> list[Taking]:
        """Takings above minimums, job by job, the youngest useful workers first."""
        return [taking for victim in victims for taking in self._spared(victim)[: victim.surplus]]

    def by_node(self, victims: Iterable[Asked]) -> list[Taking]:
        """Takings above minimums, node by node, those with most room first."""
        here: dict[int, list[Taking]] = {}
        surplus: dict[JobId, int] = {}
        for victim in victims:
            for taking in self._spared(victim):
                surplus[taking.victim.id] = victim.surplus
                here.setdefault(taking.freed[0][0], []).append(taking)
        room = {i: int(self._soon[i, 0]) + sum(t.freed[0][1][0] for t in takings) for i, takings in here.items()}
        found = []
        for i in sorted(here, key=lambda i: (-room[i], i)):
            for taking in here[i]:
                if surplus[taking.victim.id]:
                    surplus[taking.victim.id] -= 1
                    found.append(taking)
        return found

    def least(self, takings: Sequence[Taking]) -> list[Taking] | None:
        """The fewest of the first takings that are enough; None if all of them are too little."""
        if self._fits(takings) is None:
            return None
        few, enough = -1, len(takings)
        while enough - few > 1:
            count = (few + enough) // 2
            few, enough = (few, count) if self._fits(takings[:count]) is not None else (count, enough)
        return self._without_needless(takings[:enough])

    def _without_needless(self, takings: Sequence[Taking]) -> list[Taking]:
        """The takings without those that can be given back, harshest and latest first."""
        kept = self._where_it_goes(takings)
        stopped: set[JobId] = set()
        for taking in reversed(kept):
            if taking.victim.id not in stopped:
                rest = [other for other in kept if other is not taking]
                if self._fits(rest) is not None:
                    kept = rest
                elif taking.whole:
                    stopped.add(taking.victim.id)
        return kept

    def _where_it_goes(self, takings: Sequence[Taking]) -> list[Taking]:
        """Takings that free something on nodes where the job would run."""
        room = self._room(takings)
        found = self._request.find(room)
        assert found is not None, "they are enough"
        used = (self._request.rest(found) != room).any(axis=1)
        kept = [taking for taking in takings if any(used[i] for i, _ in taking.freed)]
        return kept if self._fits(kept) is not None else list(takings)

    def _spared(self, victim: Asked) -> list[Taking]:
        """Takings of workers that may leave alone and free something useful."""
        return [taking for taking in victim.alone if any(self._useful[i] for i, _ in taking.freed)]

    def _fits(self, takings: Iterable[Taking]) -> Found | None:
        return self._request.find(self._room(takings))

    def _room(self, takings: Iterable[Taking]) -> Rows:
        room = self._soon.copy()
        pour(room, (piece for taking in takings for piece in taking.freed))
        return room if self._headroom is None else self._headroom.within(room)


def _whole(victims: Iterable[Asked], shrunk: Iterable[Taking]) -> Iterator[Taking]:
    """The rest of each victim after these takings, as one taking."""
    gone = {worker.id for taking in shrunk for worker in taking.workers}
    for victim in victims:
        rest = [taking for taking in victim.alone + victim.fixed if taking.workers[0].id not in gone]
        if rest:
            workers = tuple(worker for taking in rest for worker in taking.workers)
            yield Taking(rest[0].victim, workers, True, tuple(piece for taking in rest for piece in taking.freed))
