"""Growth: what is left goes to elastic jobs, by priority; among equals by what a worker is worth, then evenly.

Jobs that this plan starts take part, so that a job starts at once at the size it can have. Running jobs that are alike
stand in a row: where nothing is open for one of them, nobody behind it is looked at.
"""

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.policy.capacity.ledger import View
from scheduler.policy.capacity.placement import Fits, NodeCounts
from scheduler.policy.capacity.pools import Group, group_of
from scheduler.policy.capacity.resources import Headroom
from scheduler.policy.draft import Draft
from scheduler.policy.estimate.marginal_gain import MarginalGain
from scheduler.policy.snapshot.peers import GrowthRank, Peers, growth_rank
from scheduler.policy.start.backfill import HeadReservation


@dataclass(slots=True)
class Candidate:
    """A job with room below its maximum, and what growth gave it so far."""

    job: Job
    marginal_gain: MarginalGain
    fits: Fits
    headroom: Headroom | None
    group: Group
    #: Workers that it has or starts with, by position where the node takes more.
    own: NodeCounts
    size: int
    gained: NodeCounts = field(default_factory=dict)

    @property
    def rank(self) -> GrowthRank:
        return growth_rank(self.job, self.marginal_gain, self.size)

    @property
    def wants_more(self) -> bool:
        return self.marginal_gain.wants_idle(self.size)


@dataclass(slots=True)
class Row:
    """Peers, and how many of their growers were served."""

    peers: Peers
    k: int = 0


#: Who is served next: a candidate, or the next of a row.
Head = tuple[GrowthRank, Candidate | Row]


def grow(draft: Draft, head_reservation: HeadReservation | None) -> "GrowthRound":
    """Deal open slots out one worker at a time, then place what each job got together."""
    growth_round = GrowthRound(draft, head_reservation)
    growth_round.run()
    for candidate in growth_round.served():
        _place_together(draft, candidate)
    growth_round.look_at_cooling()
    return growth_round


class GrowthRound:
    """Open slots, dealt out by rank."""

    def __init__(self, draft: Draft, head_reservation: HeadReservation | None) -> None:
        self._draft = draft
        self._head_reservation = head_reservation
        self._heads: list[Head] = []
        self._gained: dict[JobId, Candidate] = {}

    def run(self) -> None:
        draft, heads = self._draft, self._heads
        for job_id in draft.starts:
            job = draft.world.queued[job_id]
            candidate = self._starting(job) if job.elastic and not draft.near_end(job) else None
            if candidate is not None and candidate.wants_more:
                heads.append((candidate.rank, candidate))
        for peers in draft.snapshot.peers:
            if peers.growers and self._open(peers):
                heads.append((peers.growers[0], Row(peers)))
        heapq.heapify(heads)
        while heads:
            _, head = heapq.heappop(heads)
            if isinstance(head, Candidate):
                self._serve(head)
            else:
                self._serve_next(head)

    @property
    def sizes(self) -> dict[JobId, int]:
        """How large those are now who got something."""
        return {job_id: candidate.size for job_id, candidate in self._gained.items()}

    def served(self) -> Iterator[Candidate]:
        """Who got something: those that start, in their order, then running jobs by id."""
        starting = (self._gained[job_id] for job_id in self._draft.starts if job_id in self._gained)
        running = (self._gained[job_id] for job_id in sorted(self._gained) if job_id not in self._draft.starts)
        yield from starting
        yield from running

    def look_at_cooling(self) -> None:
        """Look again when the first job has cooled down that could have grown now, or may grow further then."""
        active = self._draft.world.active
        widens_at = self._draft.snapshot.peers.widens_at
        if widens_at < math.inf and any(self._open(peers) for peers in self._draft.snapshot.peers):
            self._draft.look_at(widens_at)
        for peers in self._draft.snapshot.peers:
            if peers.cooling and self._open(peers):
                for ready_at, job_id in peers.cooling:
                    if self._running(active[job_id]) is not None:
                        self._draft.look_at(ready_at)
                        break

    def _serve_next(self, row: Row) -> None:
        """Serve the next of the row for whom something is open."""
        peers = row.peers
        if not self._open(peers):
            return
        candidate = self._running(self._draft.world.active[peers.growers[row.k][-1]])
        row.k += 1
        if row.k < len(peers.growers):
            heapq.heappush(self._heads, (peers.growers[row.k], row))
        if candidate is not None:
            self._serve(candidate)

    def _serve(self, candidate: Candidate) -> None:
        """One more worker, if one fits."""
        node_counts = candidate.fits.place_more(1, candidate.group, candidate.own.keys() | candidate.gained.keys())
        if node_counts is None:
            return
        _take(self._draft, candidate, node_counts, 1)
        for i, count in node_counts.items():
            candidate.gained[i] = candidate.gained.get(i, 0) + count
        candidate.size += 1
        self._gained[candidate.job.id] = candidate
        if candidate.wants_more:
            heapq.heappush(self._heads, (candidate.rank, candidate))

    def _open(self, peers: Peers) -> bool:
        """Whether any of them could get a slot; where the blocked job bounds all of them, what it leaves counts."""
        head_reservation = self._head_reservation
        bound_all = (
            head_reservation is not None
            and (not peers.ends or peers.ends[0] > head_reservation.promised_at)
            and peers.priority <= head_reservation.job.priority
            and head_reservation.bounds_all(peers.priority, peers.preemptible)
            and not self._gets_back(peers.priority, peers.preemptible)
        )
        headroom = head_reservation.headroom if head_reservation is not None and bound_all else None
        feasible = self._draft.places.feasible(peers.shape)
        return feasible.fits(View.OPEN, headroom).total(peers.group) > 0

    def _running(self, job: Job) -> Candidate | None:
        """The running job, if something is open for it, the draft leaves its size alone, and it is not about to end."""
        draft = self._draft
        headroom = self.headroom(job)
        fits = self._fits(job, headroom)
        group = group_of(draft.world, job.workers[0])
        if not fits.total(group) or draft.touched(job) or draft.near_end(job):
            return None
        own: NodeCounts = {}
        for worker in job.workers:
            i = draft.ledger.where(worker)
            if i is not None:
                own[i] = own.get(i, 0) + 1
        return Candidate(job, draft.snapshot.peers[job.id].marginal_gain, fits, headroom, group, own, len(job.workers))

    def _starting(self, job: Job) -> Candidate:
        draft = self._draft
        own = dict(draft.starts[job.id])
        group = draft.places.feasible(job.shape).types[next(iter(own))]
        headroom = self.headroom(job)
        marginal_gain = MarginalGain(job, draft.now, draft.settings)
        return Candidate(job, marginal_gain, self._fits(job, headroom), headroom, group, own, sum(own.values()))

    def headroom(self, job: Job) -> Headroom | None:
        """What the blocked job leaves to this one if it grows; None: that is no limit."""
        head_reservation = self._head_reservation
        if head_reservation is None or self._draft.order.more_important(job, head_reservation.job):
            return None
        if self._gets_back(job.priority, job.spec.preemptible):
            return None
        return head_reservation.bounds(self._draft, job)

    def _gets_back(self, priority: int, preemptible: bool) -> bool:
        """Whether the blocked job gets back from such jobs what they grow by."""
        head_reservation = self._head_reservation
        return (
            self._draft.settings.share
            and head_reservation is not None
            and head_reservation.gets_back(priority, preemptible)
        )

    def _fits(self, job: Job, headroom: Headroom | None) -> Fits:
        return self._draft.places.feasible(job.shape).fits(View.OPEN, headroom)


def _place_together(draft: Draft, candidate: Candidate) -> None:
    """Place all that the job got at once, which takes fewer nodes than worker by worker; a starting job, as a whole."""
    job = candidate.job
    _take(draft, candidate, candidate.gained, -1)
    count = sum(candidate.gained.values())
    if job.id in draft.starts:
        _take(draft, candidate, candidate.own, -1)
        node_counts = candidate.fits.place_more(count + job.min_workers, candidate.group, ())
        draft.starts[job.id] = {}
    else:
        node_counts = candidate.fits.place_more(count, candidate.group, candidate.own)
    assert node_counts is not None, "what it just gave back is free"
    draft.grow(job, node_counts)
    _use_headroom(candidate, node_counts, 1)


def _take(draft: Draft, candidate: Candidate, node_counts: NodeCounts, sign: int) -> None:
    _use_headroom(candidate, node_counts, sign)
    for i, count in node_counts.items():
        draft.ledger.take(i, candidate.job.shape, sign * count)


def _use_headroom(candidate: Candidate, node_counts: NodeCounts, sign: int) -> None:
    if candidate.headroom is not None:
        for i, count in node_counts.items():
            candidate.headroom.take(i, candidate.job.shape, sign * count)
