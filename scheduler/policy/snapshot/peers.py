"""Running elastic jobs that are alike, by marginal gain; kept from pass to pass."""

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from scheduler.config import PolicySettings
from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import WorkerState
from scheduler.model.world import World
from scheduler.policy.capacity.pools import Group, group_of
from scheduler.policy.estimate.marginal_gain import MarginalGain
from scheduler.policy.estimate.speeds import Faster, faster_size
from scheduler.policy.queues.tree import Lane, Tree
from scheduler.policy.snapshot.order import end_of

_GROWING_STATES = frozenset({JobState.RUNNING, JobState.RESIZING})

#: Rank in growth, smaller first: priority, gain of one more worker, size, age, id.
GrowthRank = tuple[int, float, int, float, JobId]
#: Rank in giving, smaller first: gain of the last worker, youth, id.
GivingRank = tuple[float, float, JobId]
#: Lane, shape, group of nodes, priority, shrinkable.
PeerKey = tuple[Lane, WorkerShape, Group, int, bool]


class Peers:
    """Running jobs that are alike: a worker's place in one of them serves each of the others."""

    def __init__(self, kind: PeerKey) -> None:
        self.kind = kind
        self.lane, self.shape, self.group, self.priority, self.shrinkable = kind
        self.members = 0
        #: Jobs for which one more worker pays; some have to cool down first.
        self.growers: list[GrowthRank] = []
        #: Jobs with workers above their minimum.
        self.donors: list[GivingRank] = []
        #: (when, job) of jobs for which time alone changes what they can do, soonest first.
        self.changing: list[tuple[float, JobId]] = []
        #: When time limits end growers, soonest first.
        self.ends: list[float] = []

    def sort(self) -> None:
        """Put all ranks in order."""
        for ranks in (self.growers, self.donors, self.changing, self.ends):
            ranks.sort()

    @property
    def changes_at(self) -> float:
        """When time alone next changes what one of them can do; infinite: never."""
        return self.changing[0][0] if self.changing else math.inf


@dataclass(frozen=True, slots=True)
class Peer:
    """One job among its peers."""

    job: Job
    marginal_gain: MarginalGain
    peers: Peers
    grows: GrowthRank | None
    gives: GivingRank | None
    #: When it may be resized again.
    ready_at: float
    #: When time alone changes what it can do; infinite: never.
    changes_at: float
    end: float | None
    #: A smaller size at which it was faster; None: there is none.
    faster: Faster | None


class AllPeers:
    """All running elastic jobs whose size may change now."""

    def __init__(self, settings: PolicySettings, tree: Tree) -> None:
        self._settings = settings
        self._tree = tree
        self._peers: dict[PeerKey, Peers] = {}
        self._known: dict[JobId, Peer] = {}
        #: Jobs that were faster with fewer workers.
        self._slowed: set[JobId] = set()
        self._now = -math.inf

    def __iter__(self) -> Iterator[Peers]:
        return iter(self._peers.values())

    def __getitem__(self, job_id: JobId) -> Peer:
        return self._known[job_id]

    def slowed(self) -> Iterator[Peer]:
        """Jobs that were faster with fewer workers, by id."""
        return (self._known[job_id] for job_id in sorted(self._slowed))

    def get(self, job_id: JobId) -> Peer | None:
        """The job among its peers; None if it is not running, not elastic, or in the middle of a change."""
        return self._known.get(job_id)

    def update(self, world: World, now: float, jobs: Iterable[tuple[JobId, Job | None]]) -> None:
        """Advance to this moment and apply new values of active jobs (None: not active any more)."""
        self._now = now
        first = not self._known
        for job_id, job in jobs:
            if job_id in self._known:
                self._remove(job_id)
            if job is not None and may_change(job):
                self._add(job, world, list.append if first else insort)
        for peers in self if first else ():
            peers.sort()
        for peers in tuple(self._peers.values()):
            while peers.changes_at <= now:
                job = self._known[peers.changing[0][1]].job
                self._remove(job.id)
                self._add(job, world)

    def _add(self, job: Job, world: World, put: Callable[..., None] = insort) -> None:
        """`put` adds a rank to a list: all are in order, unless they are sorted afterwards."""
        group = group_of(world, job.workers[0])
        kind = (self._tree.lane_of(job), job.shape, group, job.priority, job.spec.shrinkable)
        peers = self._peers.get(kind)
        if peers is None:
            peers = self._peers[kind] = Peers(kind)
        peers.members += 1
        peer = self._known[job.id] = self._peer(job, peers)
        if peer.changes_at < math.inf:
            put(peers.changing, (peer.changes_at, job.id))
        if peer.faster is not None:
            self._slowed.add(job.id)
        if peer.gives is not None:
            put(peers.donors, peer.gives)
        if peer.grows is not None:
            if peer.end is not None:
                put(peers.ends, peer.end)
            put(peers.growers, peer.grows)

    def _peer(self, job: Job, peers: Peers) -> Peer:
        settings, size = self._settings, len(job.workers)
        marginal_gain = MarginalGain(job, self._now, settings)
        grows = growth_rank(job, marginal_gain, size) if _grows(job, marginal_gain, settings) else None
        gives = None
        if settings.share and peers.shrinkable and job.state is JobState.RUNNING and size > job.min_workers:
            gives = (marginal_gain.of_last(size), -job.submitted_at, job.id)
        may_give = settings.measured_gain and peers.shrinkable and job.state is JobState.RUNNING
        faster = faster_size(job) if may_give else None
        ready_at, end = cooled_at(job, settings), end_of(job, job.started_at)
        changes_at = marginal_gain.changes_at if ready_at <= self._now else min(marginal_gain.changes_at, ready_at)
        return Peer(job, marginal_gain, peers, grows, gives, ready_at, changes_at, end, faster)

    def _remove(self, job_id: JobId) -> None:
        peer = self._known.pop(job_id)
        self._slowed.discard(job_id)
        peers = peer.peers
        if peer.changes_at < math.inf:
            del peers.changing[bisect_left(peers.changing, (peer.changes_at, job_id))]
        if peer.gives is not None:
            del peers.donors[bisect_left(peers.donors, peer.gives)]
        if peer.grows is not None:
            if peer.end is not None:
                del peers.ends[bisect_left(peers.ends, peer.end)]
            del peers.growers[bisect_left(peers.growers, peer.grows)]
        peers.members -= 1
        if not peers.members:
            del self._peers[peers.kind]


def growth_rank(job: Job, marginal_gain: MarginalGain, size: int) -> GrowthRank:
    """The job's rank in growth at this size."""
    return (-job.priority, -marginal_gain.of_next(size), size, job.submitted_at, job.id)


def cooled_at(job: Job, settings: PolicySettings) -> float:
    """When the job may be resized again for the sake of speed."""
    if job.last_resize_at is None:
        return 0.0
    cost = job.progress.resize_seconds or 0.0
    return job.last_resize_at + max(settings.grow_cooldown_seconds, settings.grow_cooldown_factor * cost)


def _payback_seconds(job: Job, settings: PolicySettings) -> float:
    """Seconds by which the job's end has to come nearer for a resize to pay."""
    return settings.grow_payback_factor * (job.progress.resize_seconds or 0.0)


def pays_back(job: Job, marginal_gain: MarginalGain, settings: PolicySettings) -> bool:
    """Whether growing pays for the resize before the job ends."""
    cost = _payback_seconds(job, settings)
    return cost == 0.0 or marginal_gain.seconds_saved(len(job.workers)) >= cost


def _grows(job: Job, marginal_gain: MarginalGain, settings: PolicySettings) -> bool:
    """Whether one more worker serves the job, or may be tried again, and growing pays."""
    return marginal_gain.wants_idle(len(job.workers)) and pays_back(job, marginal_gain, settings)


def pays_to_shrink(job: Job, marginal_gain: MarginalGain, faster: Faster, settings: PolicySettings) -> bool:
    """Whether shrinking to the size at which the job was faster pays for the resize before the job ends."""
    return marginal_gain.seconds_left(faster.workers) * (faster.times - 1.0) >= _payback_seconds(job, settings)


def may_change(job: Job) -> bool:
    """Whether no worker of the job is leaving, and its group is complete.

    Newcomers that still start do not matter: slots that come free one after the other make one resize together.
    """
    return job.state in _GROWING_STATES and job.elastic and not job.finishing and bool(job.workers) and _stands(job)


def _stands(job: Job) -> bool:
    """Whether no worker leaves, all members have come to the job's group, and all others are still starting."""
    generation = 0 if job.state is JobState.RUNNING else job.generation
    ready = WorkerState.READY
    for worker in job.workers:
        if not worker.wanted:
            return False
        if worker.rank is None:
            if worker.state is ready or worker.not_before != 0.0:
                return False
        elif worker.reported_generation < generation:
            return False
    return True
