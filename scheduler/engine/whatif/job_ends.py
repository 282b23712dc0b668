"""Ends of the running jobs of a copied world, from their work left and their speed."""

from dataclasses import dataclass

from scheduler.engine.state.deadlines import limit_deadline
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.policy.estimate.work_left import EndBasis, keeps_work, seconds_for, work_left

_WORKING = frozenset({JobState.STARTING, JobState.RUNNING, JobState.RESIZING})


@dataclass(frozen=True, slots=True)
class Ending:
    """A job's expected end, and the nodes on which it frees slots."""

    job_id: JobId
    name: str
    #: Unix seconds.
    at: float
    basis: EndBasis
    nodes: frozenset[NodeName]


@dataclass(slots=True)
class _JobEnd:
    attempt: int
    #: Seconds that one worker would take for the work left; None: not known.
    left: float | None
    basis: EndBasis
    #: Relative to one worker's.
    speed: float
    since: float


class JobEnds:
    """Follows every job through its changes of size."""

    def __init__(self) -> None:
        self._job_ends: dict[JobId, _JobEnd] = {}
        #: The next end of each job that works, where it is known.
        self.endings: dict[JobId, Ending] = {}

    def follow(self, job: Job, now: float) -> None:
        """Apply the job's new value from now on."""
        job_end = self._job_ends.get(job.id)
        if job_end is None or (job_end.attempt != job.attempt and not keeps_work(job)):
            job_end = self._job_ends[job.id] = _job_end(job, now)
        elif job_end.left is not None:
            job_end.left = max(job_end.left - (now - job_end.since) * job_end.speed, 0.0)
        job_end.attempt, job_end.since = job.attempt, now
        job_end.speed = job.speed(len(job.wanted_workers)) / job.speed(1) if job.state in _WORKING else 0.0
        ending = _ending(job, job_end, now)
        if ending is None:
            self.endings.pop(job.id, None)
        else:
            self.endings[job.id] = ending


def _job_end(job: Job, now: float) -> _JobEnd:
    known = work_left(job, now)
    left, basis = (None, EndBasis.DECLARED) if known is None else (seconds_for(job, known.slot_seconds, 1), known.basis)
    return _JobEnd(job.attempt, left, basis, 0.0, now)


def _ending(job: Job, job_end: _JobEnd, now: float) -> Ending | None:
    if job.state not in _WORKING:
        return None
    ends: list[tuple[float, EndBasis]] = []
    limit = limit_deadline(job)
    if job.finishing:
        ends.append((now, EndBasis.FINISHING))
    elif job_end.left is not None and job_end.speed > 0:
        ends.append((now + job_end.left / job_end.speed, job_end.basis))
    if limit is not None:
        ends.append((limit, EndBasis.TIME_LIMIT))
    if not ends:
        return None
    at, basis = min(ends, key=lambda end: end[0])
    return Ending(job.id, job.spec.name, at, basis, frozenset(worker.node for worker in job.all_workers))
