"""Running jobs that could grow, in the order in which growth serves them; kept from pass to pass."""

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.config import PolicySettings
from scheduler.model.ids import JobId
from scheduler.model.job import Job, JobState
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import Worker, WorkerState
from scheduler.model.world import World
from scheduler.policy.order import end_of
from scheduler.policy.place import Group, group_of

_GROWING_STATES = frozenset({JobState.RUNNING, JobState.RESIZING})

#: Place in growth, smaller first: priority, gain per slot, size, age, id.
GrowthRank = tuple[int, float, int, float, JobId]
#: Shape, where they are, priority, preemptible.
Kind = tuple[WorkerShape, Group, int, bool]


class Growers:
    """Running jobs that are alike and have room below their maximum."""

    def __init__(self, kind: Kind) -> None:
        self.shape, self.group, self.priority, self.preemptible = kind
        self.ranks: list[GrowthRank] = []
        #: (when, job) of those that have to cool down first, soonest first.
        self.cooling: list[tuple[float, JobId]] = []
        #: When time limits end them, soonest first.
        self.ends: list[float] = []


@dataclass(frozen=True, slots=True)
class _Known:
    growers: Growers
    rank: GrowthRank
    ready_at: float
    end: float | None


class Growing:
    """All running jobs that would grow if they had the slots."""

    def __init__(self, settings: PolicySettings) -> None:
        self._settings = settings
        self._growers: dict[Kind, Growers] = {}
        self._known: dict[JobId, _Known] = {}
        self._now = float("-inf")

    @property
    def growers(self) -> Iterable[Growers]:
        return self._growers.values()

    def update(self, world: World, jobs: Iterable[tuple[JobId, Job | None]]) -> None:
        """Take notice of new values of active jobs (None: not active any more)."""
        for job_id, job in jobs:
            known = self._known.pop(job_id, None)
            if known is not None:
                self._remove(known, job_id)
            if job is not None and _wants_more(job):
                self._add(job, group_of(world, job.workers[0]))

    def advance(self, now: float) -> None:
        """Time has passed: some have cooled down."""
        self._now = now
        for growers in self._growers.values():
            cooling = growers.cooling
            while cooling and cooling[0][0] <= now:
                insort(growers.ranks, self._known[cooling.pop(0)[1]].rank)

    def _add(self, job: Job, group: Group) -> None:
        kind = (job.shape, group, job.priority, job.spec.preemptible)
        growers = self._growers.get(kind)
        if growers is None:
            growers = self._growers[kind] = Growers(kind)
        end = end_of(job, job.started_at)
        known = _Known(growers, growth_rank(job, len(job.workers)), cooled_at(job, self._settings), end)
        self._known[job.id] = known
        if end is not None:
            insort(growers.ends, end)
        if known.ready_at > self._now:
            insort(growers.cooling, (known.ready_at, job.id))
        else:
            insort(growers.ranks, known.rank)

    def _remove(self, known: _Known, job_id: JobId) -> None:
        growers = known.growers
        if known.end is not None:
            del growers.ends[bisect_left(growers.ends, known.end)]
        if known.ready_at > self._now:
            del growers.cooling[bisect_left(growers.cooling, (known.ready_at, job_id))]
        else:
            del growers.ranks[bisect_left(growers.ranks, known.rank)]
        if not growers.ranks and not growers.cooling:
            del self._growers[growers.shape, growers.group, growers.priority, growers.preemptible]


def growth_rank(job: Job, size: int) -> GrowthRank:
    """Where the job stands in growth at this size."""
    return (-job.priority, -gain(job.progress.throughput, size), size, job.submitted_at, job.id)


def cooled_at(job: Job, settings: PolicySettings) -> float:
    """When the job may grow again: after the cool-down, and when its last resize has paid for itself."""
    if job.last_resize_at is None:
        return 0.0
    payback = settings.grow_payback_factor * (job.progress.resize_seconds or 0.0)
    return job.last_resize_at + max(settings.grow_cooldown_seconds, payback)


def gain(throughput: tuple[tuple[int, float], ...], size: int) -> float:
    """What one more worker adds, as a share of what a worker of the smallest measured size does, in tenths.

    Full (1.0) until measured: a job that was not tried at two sizes is taken to scale. Tenths, so that noise in what
    workers report does not decide between jobs that scale alike.
    """
    if len(throughput) < 2 or throughput[0][1] <= 0:
        return 1.0
    upper = next((k for k in range(1, len(throughput)) if throughput[k][0] > size), len(throughput) - 1)
    (few, slow), (many, fast) = throughput[upper - 1], throughput[upper]
    single = throughput[0][1] / throughput[0][0]
    return min(round((fast - slow) / (many - few) / single, 1), 1.0)


def _wants_more(job: Job) -> bool:
    """Whether it has room below its maximum, no worker is leaving, and its group stands.

    Newcomers that still start do not matter: slots that come free one after the other make one resize together.
    """
    return (
        job.state in _GROWING_STATES
        and job.elastic
        and not job.finishing
        and 0 < len(job.workers) < job.max_workers
        and all(worker.wanted and _in_place(job, worker) for worker in job.workers)
    )


def _in_place(job: Job, worker: Worker) -> bool:
    if worker.member:
        return job.state is JobState.RUNNING or worker.reported_generation >= job.generation
    return worker.state is not WorkerState.READY and worker.not_before == 0.0
