"""Time that a job still runs, as far as known: from its workers' reports, else from its declared duration.

Work is counted in the unit of the job's speeds times seconds; where it has no speeds, in worker-seconds.
"""

from enum import StrEnum

from scheduler.model.job import Job

#: A job that overran its declared duration by no more than this share is expected to end at any moment.
OVERRUN_SHARE = 0.05


class EndBasis(StrEnum):
    """The basis of a predicted end."""

    #: The time limit of its attempt; it may end earlier, and not later.
    TIME_LIMIT = "TIME_LIMIT"
    #: The duration that was declared for it.
    DECLARED = "DECLARED"
    #: The share of the work that its workers report as done.
    REPORTED = "REPORTED"
    #: One of its workers has already ended with success.
    FINISHING = "FINISHING"


def speed(job: Job, workers: int) -> float:
    """The job's speed at this size: linear between measured or declared sizes; without any, the number of workers."""
    return speed_at(job.progress.throughput if len(job.progress.throughput) > 1 else job.spec.speedup, workers)


def speed_at(points: tuple[tuple[int, float], ...], workers: int) -> float:
    """The speed of `workers` on the line through known points of (workers, speed), which ascend."""
    if not points:
        return float(workers)
    first_workers, first_speed = points[0]
    if workers <= first_workers or len(points) == 1:
        return first_speed * workers / first_workers
    upper = next((k for k in range(1, len(points)) if points[k][0] >= workers), len(points) - 1)
    (few, slow), (many, fast) = points[upper - 1], points[upper]
    slope = (fast - slow) / (many - few)
    return fast + max(slope, 0.0) * (workers - many) if workers > many else slow + slope * (workers - few)


def work_left(job: Job, now: float) -> tuple[float, EndBasis] | None:
    """The work left and its basis; None without a basis, or where the job ran far longer than declared."""
    fraction, reported_at = job.progress.fraction, job.progress.reported_at
    if fraction and job.workers:
        since_report = max(now - reported_at, 0.0) if reported_at is not None else 0.0
        since_report *= speed(job, len(job.wanted_workers))
        left = max(work_done(job, now) - since_report, 0.0) * (1.0 / fraction - 1.0) - since_report
        return (max(left, 0.0), EndBasis.REPORTED)
    declared = work_declared(job)
    if declared is None:
        return None
    left = declared - work_done(job, now)
    return (max(left, 0.0), EndBasis.DECLARED) if left >= -OVERRUN_SHARE * declared else None


def work_declared(job: Job) -> float | None:
    """All of the job's work, if its duration was declared."""
    expected = job.spec.expected_seconds
    return None if expected is None else expected * speed(job, job.preferred_workers)


def work_done(job: Job, now: float) -> float:
    """The work done so far, as if the job had always had its present size.

    An elastic job goes on where it was stopped, and so does a job with shards; an ordinary command begins again at each
    attempt.
    """
    size = max(len(job.wanted_workers), 1)
    if keeps_work(job) or job.attempt <= 1:
        worker_seconds = job.worker_seconds(now)
    else:
        worker_seconds = max(now - (job.started_at or now), 0.0) * size if job.workers else 0.0
    return worker_seconds * speed(job, size) / size


def keeps_work(job: Job) -> bool:
    """Whether the job goes on where it was stopped."""
    return job.spec.runtime.reports or job.spec.data is not None
