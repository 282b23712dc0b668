"""Work left and speed of a job, for policies that cannot do without numbers.

Speeds are declared ones, else measured ones, which say little beyond the sizes that a job had. Work is counted in the
unit of the job's speeds times seconds.
"""

import math

from scheduler.model.job import Job
from scheduler.policy.estimate.time_left import speed, speed_at, work_left

#: In the unit of the job's own speeds.
SPEED_MIN = 1e-9
#: The least that is guessed to be left, in worker-seconds; guesses are this times a power of two.
GUESS_SECONDS = 60.0
#: A moment that was computed for a step has reached it.
_ROUNDING = 1e-6


def work_to_do(job: Job, now: float) -> float:
    """The work left: the undone share of the declared work, else another estimate, else a guess."""
    expected, fraction = job.spec.expected_seconds, job.progress.fraction
    if expected is not None and fraction is not None:
        return max(expected * pace(job, job.preferred_workers) * (1.0 - fraction) - _since_report(job, now), 0.0)
    whole = job.progress.whole_slot_seconds
    if fraction and whole is not None:
        # Equal while it runs and while it waits, or it would be stopped and started by turns.
        return whole * (1.0 - fraction) / (job.shape.slots * job.preferred_workers) * pace(job, job.preferred_workers)
    known = work_left(job, now)
    if known is None:
        return _guess(job, now) * pace(job, 1)
    size = len(job.wanted_workers) or job.preferred_workers
    return known[0] / max(speed(job, size), SPEED_MIN) * pace(job, size)


def seconds_left(job: Job, workers: int, now: float) -> float:
    """Seconds left with `workers` workers."""
    return work_to_do(job, now) / pace(job, workers)


def pace(job: Job, workers: int) -> float:
    """The job's speed at this size, never 0: a job that reports none would have no end."""
    return max(speed_at(job.spec.speedup or job.progress.throughput, workers), SPEED_MIN)


def guess_grows_at(job: Job, now: float) -> float | None:
    """When a running job's service will raise the guess of what is left; None where nothing is guessed."""
    slots = sum(len(worker.slot_ids) for worker in job.workers if worker.started_at is not None)
    if not slots or job.progress.fraction is not None or work_left(job, now) is not None:
        return None
    return now + (_guess(job, now) * job.shape.slots - job.attained(now)) / slots


def _guess(job: Job, now: float) -> float:
    """Worker-seconds: about the service so far, in steps, so that two jobs do not overtake each other for ever."""
    steps = math.floor(math.log2(max(job.worker_seconds(now) / GUESS_SECONDS, 0.5)) + _ROUNDING) + 1
    return GUESS_SECONDS * 2.0**steps


def _since_report(job: Job, now: float) -> float:
    """Work done since the job's workers reported last."""
    reported_at, size = job.progress.reported_at, len(job.wanted_workers)
    if reported_at is None or not size:
        return 0.0
    return max(now - reported_at, 0.0) * pace(job, size)
