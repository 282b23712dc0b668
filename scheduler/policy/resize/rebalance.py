"""Rebalancing among equals: a worker moves to the job where it gains more, and waiting jobs get the minimum first.

Only workers above the minimum move, and only between jobs of one priority. Since both sides pay for a resize, the gain
of the receiver has to be larger by a margin. Slots that are being freed already count as given. Nothing moves where
somebody else would get what is given up: see `Rivals`.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job
from scheduler.model.worker import LeaveReason, Worker
from scheduler.policy.capacity.ledger import View
from scheduler.policy.capacity.pools import Group, owner_of
from scheduler.policy.draft import Draft
from scheduler.policy.estimate.marginal_gain import MarginalGain
from scheduler.policy.resize.grow import GrowthRound
from scheduler.policy.resize.rivals import Rivals
from scheduler.policy.snapshot.peers import GivingRank, GrowthRank, Peers, growth_rank
from scheduler.policy.start.backfill import HeadReservation


def share(draft: Draft, growth_round: GrowthRound, head_reservation: HeadReservation | None) -> None:
    """Move workers of running jobs to their peers, after all open slots were handed out."""
    exchanges: list[_Exchange] = []
    interval_ends_at = draft.now + draft.settings.share_interval_seconds
    for peers in draft.snapshot.peers:
        if not _compete(peers) and not draft.holding:
            if peers.donors and peers.members > 1:  # one of them may want a worker of another by then
                draft.look_at(max(peers.changes_at, interval_ends_at))
            continue
        draft.look_at(interval_ends_at)
        bounded = head_reservation is not None and head_reservation.bounds_all(
            peers.lane, peers.priority, peers.shrinkable
        )
        if not bounded and _within_limits(draft, peers):
            exchanges.append(_Exchange(draft, peers, growth_round))
    if draft.stops:  # these will wait, and start with what is given up
        return
    for exchange in exchanges:
        exchange.run(Rivals(draft, exchange.peers, growth_round, head_reservation))


def _compete(peers: Peers) -> bool:
    """Whether one peer could get a worker of another."""
    return bool(peers.growers and peers.donors) and {rank[-1] for rank in peers.growers[:2]} != {
        rank[-1] for rank in peers.donors[:1]
    }


def _within_limits(draft: Draft, peers: Peers) -> bool:
    """Whether limits of their queues let one of them have what another gives up."""
    shares, (shared, gpu_type) = draft.shares, peers.group
    return shares is None or shared or shares.replaces(peers.lane, shares.standing.typed(gpu_type, 1))


@dataclass(frozen=True, slots=True)
class _Party:
    """A job that takes part: one of the peers, or one of their kind that is about to start."""

    job: Job
    marginal_gain: MarginalGain
    size: int
    nodes: tuple[NodeName, ...]


class _Exchange:
    """An exchange of workers among peers of one kind."""

    def __init__(self, draft: Draft, peers: Peers, growth_round: GrowthRound) -> None:
        self._draft = draft
        self.peers = peers
        self._margin = 1.0 + draft.settings.share_margin
        self._sizes = growth_round.sizes
        #: Workers for whom slots are being freed before anything is exchanged.
        self._coming = self._being_freed()
        self._starting = {party.job.id: party for party in self._about_to_start()}
        #: Leaving workers by the job that loses them, and the job for which the first of them leaves.
        self._leaving: dict[JobId, list[Worker]] = {}
        self._for_job: dict[JobId, JobId] = {}
        #: Nodes on which jobs that get workers have them or get them.
        self._nodes: dict[JobId, list[NodeName]] = {}
        starting = [rank for job_id in self._starting if (rank := self._growing(job_id)) is not None]
        self._growers: _Standing[GrowthRank] = _Standing(peers.growers, self._growing, starting)
        self._donors: _Standing[GivingRank] = _Standing(peers.donors, self._giving)

    def run(self, rivals: Rivals) -> None:
        for _ in range(self._coming):
            if (grower := self._growers.head) is not None:
                self._resize(grower[-1], 1)
        while (grower := self._growers.head) is not None and (worker := self._worker_for(grower)) is not None:
            if rivals.grows_before(worker, grower):
                break
            rivals.free(worker)
            self._leaving.setdefault(worker.job_id, []).append(worker)
            self._for_job.setdefault(worker.job_id, grower[-1])
            self._nodes[grower[-1]].append(worker.node)
            self._resize(worker.job_id, -1)
            self._resize(grower[-1], 1)
        if self._leaving and rivals.starts():
            return
        for job_id in sorted(self._leaving):
            job, leaving = self._party(job_id).job, tuple(self._leaving[job_id])
            self._draft.shrink(job, leaving, LeaveReason.REBALANCED, self._for_job[job_id])

    def _about_to_start(self) -> Iterator[_Party]:
        """Jobs that wait for slots held for them: more than the minimum may come with these."""
        draft, peers = self._draft, self.peers
        for job in draft.holders_in(peers.lane.own):
            if job.priority != peers.priority:
                continue
            nodes = tuple(name for name, _ in draft.holding[job.id][0])
            if job.elastic and job.shape == peers.shape and peers.group in map(self._group_at, nodes):
                yield _Party(job, MarginalGain(job, draft.now, draft.settings), job.min_workers, nodes)

    def _group_at(self, half_name: NodeName) -> Group:
        node, shared = owner_of(half_name)
        return (shared, self._draft.world.nodes[node].gpu_type)

    def _worker_for(self, grower: GrowthRank) -> Worker | None:
        """The worker whose place the grower gets: on a node where it is or will be, if a donor has one there."""
        job_id, most = grower[-1], -grower[1] / self._margin
        for node in self._nodes.setdefault(job_id, [*self._party(job_id).nodes]):
            ranks = (self._giving(other) for other in self._draft.usages.on.get(node, ()) if other != job_id)
            for rank in sorted(rank for rank in ranks if rank is not None and rank[0] < most):
                if workers := self._staying(rank[-1], node):
                    return workers[-1]
        first = self._donors.head
        if first is None or first[0] >= most or first[-1] == job_id:
            return None
        return self._least_missed(first[-1], self._wanted(job_id, first[0] * self._margin))

    def _least_missed(self, job_id: JobId, count: int) -> Worker:
        """The first of `count` to leave: where just enough of the job's workers are, else where most of them are."""
        staying = self._staying(job_id)
        together = Counter(worker.node for worker in staying)

        def waste(worker: Worker) -> tuple[bool, int]:
            left = together[worker.node] - count
            return (left < 0, abs(left))

        return min(staying, key=lambda w: (*waste(w), w.node, -w.ordinal))

    def _wanted(self, job_id: JobId, least: float) -> int:
        """Number of workers that the job would take with gains above `least`, at most the slots of the largest node."""
        party = self._party(job_id)
        size, most = self._size(party), self._largest_node
        return next((n for n in range(1, most) if party.marginal_gain.of_next(size + n) <= least), most)

    @cached_property
    def _largest_node(self) -> int:
        return max(node.slots for node in self._draft.ledger.nodes)

    def _staying(self, job_id: JobId, node: NodeName | None = None) -> list[Worker]:
        """The job's workers (on one node) that were not chosen yet and whose places others may have, oldest first."""
        gone = {worker.id for worker in self._leaving.get(job_id, ())}
        draft = self._draft
        workers = (w for w in draft.staying(self._party(job_id).job) if draft.ledger.where(w) is not None)
        return [w for w in workers if w.id not in gone and node in (None, w.node)]

    def _being_freed(self) -> int:
        feasible = self._draft.places.feasible(self.peers.shape)
        soon, open_now = (feasible.fits(view).total(self.peers.group) for view in (View.SOON, View.OPEN))
        return max(soon - open_now, 0)

    def _party(self, job_id: JobId) -> _Party:
        if job_id in self._starting:
            return self._starting[job_id]
        peer = self._draft.snapshot.peers[job_id]
        nodes = dict.fromkeys(worker.node for worker in peer.job.workers)
        return _Party(peer.job, peer.marginal_gain, len(peer.job.workers), tuple(nodes))

    def _size(self, party: _Party) -> int:
        return self._sizes.get(party.job.id, party.size)

    def _resize(self, job_id: JobId, by: int) -> None:
        self._sizes[job_id] = self._size(self._party(job_id)) + by

    def _growing(self, job_id: JobId) -> GrowthRank | None:
        """The job's rank among growers at its new size; None if it wants no more."""
        party, draft = self._party(job_id), self._draft
        size = self._size(party)
        if job_id in draft.shrinks or job_id in draft.stops or job_id in self._leaving or job_id in draft.growing:
            return None  # whether more pays for a job that grows now is known once it has grown
        if party.job.state.active and (draft.near_end(party.job) or draft.snapshot.peers[job_id].ready_at > draft.now):
            return None
        return growth_rank(party.job, party.marginal_gain, size) if party.marginal_gain.of_next(size) > 0.0 else None

    def _giving(self, job_id: JobId) -> GivingRank | None:
        """The job's rank among donors at its remaining size; None if it gives no more."""
        draft, known = self._draft, self._draft.snapshot.peers.get(job_id)
        if known is None or known.gives is None or known.peers is not self.peers or job_id in self._nodes:
            return None
        if draft.shares is not None and job_id in draft.growing:
            return None
        size, job = self._sizes.get(job_id, len(known.job.workers)), known.job
        if draft.touched(job) or size <= job.min_workers or known.ready_at > draft.now:
            return None
        if not self._staying(job_id):
            return None
        return (known.marginal_gain.of_last(size), -job.submitted_at, job_id)


R = TypeVar("R", bound=tuple[Any, ...])


class _Standing(Generic[R]):
    """Ranks in order, read from a sorted row only as far as needed, while some of them change."""

    def __init__(self, row: Sequence[R], now: Callable[[JobId], R | None], besides: Sequence[R] = ()) -> None:
        self._row = row
        self._read = 0
        self._heap: list[R] = sorted(besides)
        self._now = now

    @property
    def head(self) -> R | None:
        """The first rank as it is now; None if there is no more."""
        while True:
            while self._read < len(self._row) and (not self._heap or self._row[self._read] <= self._heap[0]):
                heapq.heappush(self._heap, self._row[self._read])
                self._read += 1
            if not self._heap:
                return None
            rank = self._now(self._heap[0][-1])
            if rank == self._heap[0]:
                return rank
            if rank is None:
                heapq.heappop(self._heap)
            else:
                heapq.heapreplace(self._heap, rank)
