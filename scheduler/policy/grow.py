"""Growth: what is left goes to elastic jobs, by priority; among equals by gain per slot, then evenly.

Jobs that this plan starts take part, so that a job starts at once at the size it can have.
"""

import heapq
from dataclasses import dataclass, field

from scheduler.config import PolicySettings
from scheduler.model.job import Job, JobState
from scheduler.model.worker import Worker, WorkerState
from scheduler.policy.backfill import Blocked, end_of
from scheduler.policy.draft import Draft
from scheduler.policy.ledger import Spare, View
from scheduler.policy.place import Fits, GpuType, Spots

_GROWING_STATES = frozenset({JobState.RUNNING, JobState.RESIZING})


@dataclass(slots=True)
class Candidate:
    """A job with room below its maximum, and what growth gave it so far."""

    job: Job
    fits: Fits
    spare: Spare | None
    gpu_type: GpuType
    #: Workers that it has or starts with, by position where the node takes more.
    own: Spots
    size: int
    gained: Spots = field(default_factory=dict)

    @property
    def rank(self) -> tuple[int, float, int, float, int]:
        job = self.job
        return (-job.priority, -gain(job.progress.throughput, self.size), self.size, job.submitted_at, job.id)


def grow(draft: Draft, blocked: Blocked | None) -> None:
    """Deal open slots out one worker at a time, then place what each job got together."""
    candidates: list[Candidate] = []
    cooling: list[tuple[float, Candidate]] = []
    for job in _elastic(draft):
        candidate = _candidate(draft, job, blocked)
        ready_at = cooled_at(job, draft.settings)
        if job.id not in draft.starts and ready_at > draft.now:
            cooling.append((ready_at, candidate))
        else:
            candidates.append(candidate)
    _deal(draft, candidates)
    for candidate in candidates:
        if candidate.gained:
            _place_together(draft, candidate)
    for ready_at, candidate in cooling:
        if candidate.fits.place_more(1, candidate.gpu_type, candidate.own) is not None:
            draft.look_at(ready_at)


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


def _elastic(draft: Draft) -> list[Job]:
    started = [draft.world.queued[job_id] for job_id in draft.starts]
    running = [job for job in draft.world.active.values() if job.state in _GROWING_STATES and _can_grow(draft, job)]
    return [job for job in started + running if job.elastic and not _near_end(draft, job)]


def _can_grow(draft: Draft, job: Job) -> bool:
    """Whether it has room below its maximum, no worker is leaving, and its group stands.

    Newcomers that still start do not matter: slots that come free one after the other make one resize together.
    """
    return (
        not job.finishing
        and len(job.workers) < job.max_workers
        and not draft.touched(job)
        and all(worker.wanted and _in_place(job, worker) for worker in job.workers)
    )


def _in_place(job: Job, worker: Worker) -> bool:
    if worker.member:
        return job.state is JobState.RUNNING or worker.reported_generation >= job.generation
    return worker.state is not WorkerState.READY and worker.not_before == 0.0


def _near_end(draft: Draft, job: Job) -> bool:
    end = end_of(job, draft.now if job.id in draft.starts else job.started_at)
    return end is not None and end - draft.now < draft.settings.near_end_seconds


def _candidate(draft: Draft, job: Job, blocked: Blocked | None) -> Candidate:
    own: Spots = {}
    if job.id in draft.starts:
        own = dict(draft.starts[job.id])
        gpu_type = draft.ledger.nodes[next(iter(own))].gpu_type
        size = sum(own.values())
    else:
        gpu_type = draft.world.nodes[job.workers[0].node].gpu_type
        size = len(job.workers)
        for worker in job.workers:
            i = draft.ledger.position.get(worker.node)
            if i is not None:
                own[i] = own.get(i, 0) + 1
    spare = None
    if blocked is not None and not draft.order.more_important(job, blocked.job):
        spare = blocked.bounds(draft, job)
    return Candidate(job, draft.places.suited(job.shape).fits(View.OPEN, spare), spare, gpu_type, own, size)


def _deal(draft: Draft, candidates: list[Candidate]) -> None:
    heap = [(candidate.rank, candidate) for candidate in candidates if candidate.size < candidate.job.max_workers]
    heapq.heapify(heap)
    while heap:
        _, candidate = heapq.heappop(heap)
        spots = candidate.fits.place_more(1, candidate.gpu_type, candidate.own.keys() | candidate.gained.keys())
        if spots is None:
            continue
        _take(draft, candidate, spots, 1)
        for i, count in spots.items():
            candidate.gained[i] = candidate.gained.get(i, 0) + count
        candidate.size += 1
        if candidate.size < candidate.job.max_workers:
            heapq.heappush(heap, (candidate.rank, candidate))


def _place_together(draft: Draft, candidate: Candidate) -> None:
    """Place all that the job got at once, which takes fewer nodes than worker by worker; a starting job, as a whole."""
    job = candidate.job
    _take(draft, candidate, candidate.gained, -1)
    count = sum(candidate.gained.values())
    if job.id in draft.starts:
        _take(draft, candidate, candidate.own, -1)
        spots = candidate.fits.place_more(count + job.min_workers, candidate.gpu_type, ())
        draft.starts[job.id] = {}
    else:
        spots = candidate.fits.place_more(count, candidate.gpu_type, candidate.own)
    assert spots is not None, "what it just gave back is free"
    draft.grow(job, spots)
    _use_spare(candidate, spots, 1)


def _take(draft: Draft, candidate: Candidate, spots: Spots, sign: int) -> None:
    _use_spare(candidate, spots, sign)
    for i, count in spots.items():
        draft.ledger.take(i, candidate.job.shape, sign * count)


def _use_spare(candidate: Candidate, spots: Spots, sign: int) -> None:
    if candidate.spare is not None:
        for i, count in spots.items():
            candidate.spare.take(i, candidate.job.shape, sign * count)
