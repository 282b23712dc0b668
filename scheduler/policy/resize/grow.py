"""Growth: slots left over go to elastic jobs, by priority; among equals by marginal gain, then evenly.

Jobs that this plan starts take part, so that a job starts at once at the size it can have. Running jobs that are alike
form a row: where nothing is open for one of them, the rest of the row is skipped.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.shape import WorkerShape
from scheduler.policy.capacity.ledger import View
from scheduler.policy.capacity.placement import Fits, NodeCounts
from scheduler.policy.capacity.pools import Group, group_of
from scheduler.policy.capacity.resources import Headroom
from scheduler.policy.draft import Draft
from scheduler.policy.estimate.marginal_gain import MarginalGain
from scheduler.policy.queues.shares import Counts
from scheduler.policy.queues.tree import Lane
from scheduler.policy.queues.turns import Turn, Turns
from scheduler.policy.snapshot.peers import GrowthRank, Peers, growth_rank
from scheduler.policy.start.backfill import HeadReservation


@dataclass(slots=True)
class Candidate:
    """A job with room below its maximum, and the workers that growth gave it so far."""

    job: Job
    marginal_gain: MarginalGain
    fits: Fits
    headroom: Headroom | None
    group: Group
    #: Workers that it has or starts with, by position, on nodes that take more.
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


#: The next to be served: a candidate, or the next job of a row.
Head = tuple[GrowthRank, Candidate | Row]


#: Heads of a queue by what a worker of theirs asks for, as heaps.
Heads = dict[Counts, list[Head]]


#: Finds room for one more worker of a running job at the cost of other queues, and tells whether there is any.
Claimed = Callable[[Job, Group, Headroom | None, float | None], bool]


class GrowthRound:
    """Hands out open slots one worker at a time; queues take turns, and in one those go first that have its turn.

    Of those that ask for what has the same turn, such as all that is beyond guarantees, the first by rank does.

    A queue's jobs are looked at when its turn comes first, so that jobs which start by then take part.
    """

    def __init__(self, draft: Draft, head_reservation: Callable[[], HeadReservation | None], claim: Claimed) -> None:
        """`head_reservation` gives that of the first job that could not be placed by now; `claim`: see `Reclaims`."""
        self._draft = draft
        self._blocked = head_reservation
        self._claim = claim
        #: Jobs that this draft starts, as far as they were seen.
        self._seen = 0
        #: By queue: running jobs, jobs that start, and who is to be served, once its turn has come.
        self._peers: dict[str, list[Peers]] = {}
        self._newcomers: dict[str, list[Job]] = {}
        self._heads: dict[str, Heads] = {}
        #: By queue whose turn has not come yet: what workers of its jobs ask for.
        self._asked: defaultdict[str, dict[Counts, None]] = defaultdict(dict)
        self._turns = Turns(draft.shares)
        self._gained: dict[JobId, Candidate] = {}
        for peers in draft.snapshot.peers:
            self._peers.setdefault(peers.lane.own, []).append(peers)
            if peers.growers:
                self._line_up(peers.lane, self._asks(peers.group, peers.shape))

    @property
    def _head_reservation(self) -> HeadReservation | None:
        return self._blocked()

    def turn(self) -> Turn | None:
        """The turn of the queue whose job is next; None: no job gets more."""
        self._see_newcomers()
        first = self._turns.first()
        return None if first is None else first[0]

    def serve(self) -> None:
        """Serve the next job of the queue whose turn it is."""
        first = self._turns.first()
        assert first is not None, "there is a job"
        queue = first[1]
        heads = self._heads.get(queue)
        if heads is None:
            heads = self._heads[queue] = self._all_heads(queue)
        else:
            asked = self._turns.asked(queue)
            alike = heads[asked]
            _, head = heapq.heappop(alike)
            if isinstance(head, Candidate):
                self._serve(head, alike)
            else:
                self._serve_next(head, alike)
            if not alike:
                del heads[asked]
        if heads:
            self._put_in_turn(heads)
        else:
            self._turns.remove(queue)

    def place(self) -> None:
        """Place the new workers of each job together, and look again when others may grow or give."""
        for candidate in self.served():
            _place_together(self._draft, candidate)
        self.look_at_changes()

    def _see_newcomers(self) -> None:
        draft = self._draft
        if len(draft.starts) == self._seen:
            return
        for job_id in islice(draft.starts, self._seen, None):
            job = draft.world.queued[job_id]
            queue = draft.lane(job).own
            self._newcomers.setdefault(queue, []).append(job)
            if queue not in self._heads:
                self._line_up(draft.lane(job), self._asks(self._group(job), job.shape))
            elif found := self._starting_heads([job]):
                for head in found:
                    self._add(self._heads[queue], head)
                self._put_in_turn(self._heads[queue])
        self._seen = len(draft.starts)

    def _line_up(self, lane: Lane, asked: Counts) -> None:
        """Let a queue whose jobs were not looked at yet take its turn also by this."""
        self._asked[lane.own][asked] = None
        self._turns.put(lane, *self._asked[lane.own])

    def _asks(self, group: Group, shape: WorkerShape) -> Counts:
        """What one more worker in this group asks for."""
        shares = self._draft.shares
        return () if shares is None else shares.standing.typed(group[1], shape.slots)

    def _put_in_turn(self, heads: Heads) -> None:
        """Let the queue with these jobs take its turn by what a worker of one of the first asks for."""
        by_rank = sorted(heads, key=lambda asked: heads[asked][0]) if len(heads) > 1 else heads
        _, head = next(iter(heads.values()))[0]
        lane = self._draft.lane(head.job) if isinstance(head, Candidate) else head.peers.lane
        self._turns.put(lane, *by_rank)

    def _add(self, heads: Heads, head: Head) -> None:
        of = head[1]
        group, shape = (of.group, of.job.shape) if isinstance(of, Candidate) else (of.peers.group, of.peers.shape)
        heapq.heappush(heads.setdefault(self._asks(group, shape), []), head)

    def _all_heads(self, queue: str) -> Heads:
        found, heads = self._starting_heads(self._newcomers.get(queue, ())), Heads()
        for peers in self.peers_in(queue):
            if peers.growers and self._open(peers):
                found.append((peers.growers[0], Row(peers)))
        for head in found:
            self._add(heads, head)
        return heads

    def _starting_heads(self, jobs: Iterable[Job]) -> list[Head]:
        heads: list[Head] = []
        for job in jobs:
            candidate = self._starting(job) if job.elastic and not self._draft.near_end(job) else None
            if candidate is not None and candidate.wants_more:
                heads.append((candidate.rank, candidate))
        return heads

    def peers_in(self, queue: str) -> Sequence[Peers]:
        """Running jobs of the queue with this own account, by kind."""
        return self._peers.get(queue, ())

    @property
    def sizes(self) -> dict[JobId, int]:
        """Present sizes of the jobs that got workers."""
        return {job_id: candidate.size for job_id, candidate in self._gained.items()}

    def served(self) -> Iterator[Candidate]:
        """Jobs that got workers: starting jobs in their order, then running jobs by id."""
        starting = (self._gained[job_id] for job_id in self._draft.starts if job_id in self._gained)
        running = (self._gained[job_id] for job_id in sorted(self._gained) if job_id not in self._draft.starts)
        yield from starting
        yield from running

    def look_at_changes(self) -> None:
        """Look again when time alone changes what a running job can do, where slots are open for it or may come.

        Exchanges among equals are looked at in intervals: each costs both a resize.
        """
        draft = self._draft
        for peers in draft.snapshot.peers:
            if peers.changing and (draft.shares is not None or self._has_open(peers)):
                draft.look_at(peers.changes_at)

    def _serve_next(self, row: Row, heads: list[Head]) -> None:
        """Serve the next job of the row, if a slot is open for it."""
        peers = row.peers
        if not self._open(peers):
            return
        candidate = self._running(self._draft.world.active[peers.growers[row.k][-1]])
        row.k += 1
        if row.k < len(peers.growers):
            heapq.heappush(heads, (peers.growers[row.k], row))
        if candidate is not None:
            self._serve(candidate, heads)

    def _serve(self, candidate: Candidate, heads: list[Head]) -> None:
        """Give the candidate one more worker, if one fits."""
        draft, job = self._draft, candidate.job
        if job.id in draft.shrinks or job.id in draft.stops or not draft.admits(job, candidate.group):
            return
        if draft.shares is not None:  # what its queue is entitled to may be used up by now
            candidate.headroom = self.headroom(job)
            candidate.fits = self._fits(job, candidate.headroom)
        node_counts = candidate.fits.place_more(1, candidate.group, candidate.own.keys() | candidate.gained.keys())
        if node_counts is None:
            self._reclaim(candidate, heads)
            return
        _take(self._draft, candidate, node_counts, 1)
        for i, count in node_counts.items():
            candidate.gained[i] = candidate.gained.get(i, 0) + count
        candidate.size += 1
        self._gained[candidate.job.id] = candidate
        self._draft.growing.add(candidate.job.id)
        if candidate.wants_more:
            heapq.heappush(heads, (candidate.rank, candidate))

    def _reclaim(self, candidate: Candidate, heads: list[Head]) -> None:
        """Make queues above what they are entitled to free slots for one more worker of a running job."""
        job, head_reservation, passes_on_at = candidate.job, self._head_reservation, None
        if candidate.headroom is not None and head_reservation is not None:
            passes_on_at = head_reservation.passes_on_at(self._draft.lane(job))
        may_claim = candidate.headroom is None or passes_on_at is not None
        cools_down_first = bool(candidate.gained)  # what was freed by then would go to others meanwhile
        if (
            job.state.active
            and may_claim
            and not cools_down_first
            and self._claim(job, candidate.group, candidate.headroom, passes_on_at)
        ):
            candidate.size += 1
            self._draft.growing.add(job.id)
            if candidate.wants_more:
                heapq.heappush(heads, (candidate.rank, candidate))

    def _open(self, peers: Peers) -> bool:
        """Whether any of the peers could get a slot; within the headroom, where the blocked job bounds all of them."""
        if not self._has_open(peers):
            return self._draft.may_reclaim(peers.lane)
        head_reservation = self._head_reservation
        bound_all = (
            head_reservation is not None
            and (not peers.ends or peers.ends[0] > head_reservation.promised_at)
            and peers.priority <= head_reservation.job.priority
            and head_reservation.bounds_all(peers.lane, peers.priority, peers.shrinkable)
            and not self._gets_back(peers.lane, peers.priority, peers.shrinkable)
        )
        headroom = head_reservation.headroom if head_reservation is not None and bound_all else None
        return self._has_open(peers, headroom) or self._draft.may_reclaim(peers.lane)

    def _has_open(self, peers: Peers, headroom: Headroom | None = None) -> bool:
        return self._draft.places.feasible(peers.shape).fits(View.OPEN, headroom).total(peers.group) > 0

    def _running(self, job: Job) -> Candidate | None:
        """The running job as a candidate; None if no slot is open for it, or if it is not to be resized now."""
        draft, peer = self._draft, self._draft.snapshot.peers[job.id]
        headroom = self.headroom(job)
        fits = self._fits(job, headroom)
        group = group_of(draft.world, job.workers[0])
        if not fits.total(group) and not draft.may_reclaim(draft.lane(job)):
            return None
        if draft.touched(job) or draft.near_end(job) or peer.ready_at > draft.now:
            return None
        own: NodeCounts = {}
        for worker in job.workers:
            i = draft.ledger.where(worker)
            if i is not None:
                own[i] = own.get(i, 0) + 1
        return Candidate(job, peer.marginal_gain, fits, headroom, group, own, len(job.workers))

    def _starting(self, job: Job) -> Candidate:
        draft = self._draft
        own = dict(draft.starts[job.id][0])
        group, headroom = self._group(job), self.headroom(job)
        marginal_gain = MarginalGain(job, draft.now, draft.settings)
        return Candidate(job, marginal_gain, self._fits(job, headroom), headroom, group, own, sum(own.values()))

    def _group(self, job: Job) -> Group:
        """Where the job starts in this draft."""
        return self._draft.places.feasible(job.shape).types[next(iter(self._draft.starts[job.id][0]))]

    def headroom(self, job: Job) -> Headroom | None:
        """The headroom that limits the job's growth; None if nothing does."""
        head_reservation = self._head_reservation
        if head_reservation is None or self._draft.outranks(job, head_reservation.job):
            return None
        if self._gets_back(self._draft.lane(job), job.priority, job.spec.shrinkable):
            return None
        return head_reservation.bounds(self._draft, job)

    def _gets_back(self, lane: Lane, priority: int, preemptible: bool) -> bool:
        """Whether the blocked job gets back what such jobs grow by."""
        head_reservation = self._head_reservation
        return (
            self._draft.settings.share
            and head_reservation is not None
            and head_reservation.gets_back(lane, priority, preemptible)
        )

    def _fits(self, job: Job, headroom: Headroom | None) -> Fits:
        return self._draft.places.feasible(job.shape).fits(View.OPEN, headroom)


def _place_together(draft: Draft, candidate: Candidate) -> None:
    """Place all new workers of a job at once, which takes fewer nodes; a starting job is placed anew as a whole."""
    job = candidate.job
    _take(draft, candidate, candidate.gained, -1)
    count = sum(candidate.gained.values())
    if job.id in draft.starts:
        _take(draft, candidate, candidate.own, -1)
        node_counts = candidate.fits.place_more(count + job.min_workers, candidate.group, ())
        draft.starts[job.id][0].clear()
    else:
        node_counts = candidate.fits.place_more(count, candidate.group, candidate.own)
    assert node_counts is not None, "what it just gave back is free"
    draft.grow(job, node_counts)
    _use_headroom(candidate, node_counts, 1)


def _take(draft: Draft, candidate: Candidate, node_counts: NodeCounts, sign: int) -> None:
    _use_headroom(candidate, node_counts, sign)
    draft.count(candidate.job, draft.amounts(candidate.job, node_counts), sign)
    for i, count in node_counts.items():
        draft.ledger.take(i, candidate.job.shape, sign * count)


def _use_headroom(candidate: Candidate, node_counts: NodeCounts, sign: int) -> None:
    if candidate.headroom is not None:
        for i, count in node_counts.items():
            candidate.headroom.take(i, candidate.job.shape, sign * count)
