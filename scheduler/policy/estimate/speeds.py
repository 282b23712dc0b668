"""The speeds by which a job grows and shrinks: a loss counts only where noise does not explain it.

A size at which the job was no faster than with fewer workers is tried again, with slots that are idle: after
`policy.retry_seconds` at the present size, and after twice as long for each time that it lost there again. All that was
measured at larger sizes is forgotten after `policy.remeasure_seconds` at the present one.
"""

import math
from dataclasses import dataclass

from scheduler.backoff import Backoff
from scheduler.config import PolicySettings
from scheduler.model.job import Job
from scheduler.model.speed import UNMEASURED_EXPONENT, Points, Scatter, SizeSpeed, with_declared

#: A loss is believed beyond this many standard errors: by chance it comes once in 700 looks.
SIGMAS = 3.0


@dataclass(frozen=True, slots=True)
class KnownSpeeds:
    """The speeds of one job by which it grows and shrinks."""

    #: Measured speeds, and declared ones beyond them; a loss that noise explains is taken for the gain that it allows.
    points: Points
    #: Those points without sizes that lost and may be tried again with idle slots.
    to_try: Points
    #: When time alone makes more sizes unknown again; infinite: never.
    changes_at: float


@dataclass(frozen=True, slots=True)
class Faster:
    """A smaller size at which a job was faster than it is now."""

    workers: int
    #: Its speed there, relative to its present speed: above 1.
    times: float


def known_speeds(job: Job, now: float, settings: PolicySettings) -> KnownSpeeds:
    """The speeds of the job at this moment by which it grows and shrinks; none if the settings say so."""
    if not settings.measured_gain:
        return KnownSpeeds((), (), math.inf)
    points: list[tuple[int, float]] = []
    to_try: list[tuple[int, float]] = []
    changes_at, best = math.inf, None
    for each in job.progress.speeds:
        forgotten_at = _forgotten_at(job, each, settings)
        if each.per_second <= 0 or forgotten_at <= now:
            continue
        retried_at = math.inf
        if best is None or each.per_second > best.per_second:
            best, point = each, (each.workers, each.per_second)
        elif _loses(best, each, job.progress.scatter):
            point, retried_at = (each.workers, each.per_second), _retried_at(job, each, settings)
        else:
            point = (each.workers, _possible(best, each, job.progress.scatter))
        points.append(point)
        if retried_at > now:
            to_try.append(point)
        changes_at = min(changes_at, *(at for at in (forgotten_at, retried_at) if at > now), math.inf)
    declared = job.spec.speedup
    return KnownSpeeds(with_declared(tuple(points), declared), with_declared(tuple(to_try), declared), changes_at)


def _loses(best: SizeSpeed, speed: SizeSpeed, scatter: Scatter) -> bool:
    """Whether the job was no faster at this size than at the best smaller one, and noise does not explain it."""
    return speed.losses > 0 or speed.per_second + _noise(best, speed, scatter) <= best.per_second


def _possible(best: SizeSpeed, speed: SizeSpeed, scatter: Scatter) -> float:
    """The highest speed that noise allows where it explains a loss, at most that of an unmeasured size."""
    unmeasured = best.per_second * math.pow(speed.workers / best.workers, UNMEASURED_EXPONENT)
    return min(speed.per_second + _noise(best, speed, scatter), unmeasured)


def faster_size(job: Job) -> Faster | None:
    """The smaller size at which the job was fastest, if it is slower now, beyond noise."""
    speeds, size = job.progress.speeds, len(job.workers)
    now = next((speed for speed in speeds if speed.workers == size and speed.generation == job.generation), None)
    fewer = [speed for speed in speeds if job.min_workers <= speed.workers < size]
    if now is None or now.per_second <= 0 or not fewer:
        return None
    best = max(fewer, key=lambda speed: (speed.per_second, -speed.workers))
    if now.per_second + _noise(best, now, job.progress.scatter) >= best.per_second:
        return None
    return Faster(best.workers, best.per_second / now.per_second)


def _noise(one: SizeSpeed, other: SizeSpeed, scatter: Scatter) -> float:
    """The difference of the two means that chance explains."""
    return SIGMAS * math.sqrt(scatter.variance * (_squared_error(one) + _squared_error(other)))


def _squared_error(speed: SizeSpeed) -> float:
    """Squared error of the mean, for a scatter of 1. Reports overlap by half, so two count less than two."""
    return 2.0 * speed.per_second**2 / (speed.reports + 1)


def _retried_at(job: Job, speed: SizeSpeed, settings: PolicySettings) -> float:
    """When a size that lost may be tried again."""
    since = job.running_at if job.last_resize_at is None else job.last_resize_at
    if since is None or speed.workers <= len(job.workers):
        return math.inf
    return since + Backoff(settings.retry_seconds, math.inf).pause_seconds(speed.losses)


def _forgotten_at(job: Job, speed: SizeSpeed, settings: PolicySettings) -> float:
    """When a larger size counts as never measured."""
    if job.last_resize_at is None or not 0 < len(job.workers) < speed.workers:
        return math.inf
    return job.last_resize_at + settings.remeasure_seconds
