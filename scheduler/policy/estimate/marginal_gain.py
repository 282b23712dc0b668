"""The marginal gain of a worker for an elastic job: the speed that it adds, against the work that is left.

Speeds are optimistic but not blind (`estimate.speeds`). Dividing gains by the square root of the work left
(`estimate.work_left`) lies between the most throughput and the shortest job first.
"""

import math
from bisect import bisect_left
from functools import lru_cache
from itertools import pairwise

from scheduler.config import PolicySettings
from scheduler.model.job import Job, Runtime
from scheduler.model.speed import Points, speed_at
from scheduler.policy.estimate.speeds import known_speeds
from scheduler.policy.estimate.work_left import guessed_work, work_left

#: (size before, size after, speed that each worker between them adds, relative to one worker's), steepest first.
Steps = tuple[tuple[int, int, float], ...]

#: Least time that a job is assumed to have left, in seconds with one worker.
REMAINING_MIN_SECONDS = 60.0
#: Sizes up to here are looked at one by one, larger ones in growing strides.
_EVERY_SIZE = 64
_STRIDE = 1.1


class MarginalGain:
    """Marginal gains of workers for one value of a job at one moment, and how long they are valid."""

    __slots__ = ("_idle", "_steps", "_weight", "cap", "changes_at", "remaining", "widens_at")

    def __init__(self, job: Job, now: float, settings: PolicySettings) -> None:
        known = known_speeds(job, now, settings)
        points, to_try = known.points, known.to_try
        self.cap, cap_changes_at = _largest_size(job, points, now, settings)
        #: Slot-seconds that the job still needs, as far as can be told.
        self.remaining, class_changes_at = _remaining(job, now, settings)
        #: When time alone lets it try more workers; infinite: never.
        self.widens_at = min(known.changes_at, cap_changes_at)
        #: When time alone changes anything here; infinite: never.
        self.changes_at = min(self.widens_at, class_changes_at)
        self._steps = _steps(points, self.cap)
        #: Steps that treat sizes as unknown which lost and may be tried again with idle slots.
        self._idle = self._steps if to_try == points else _steps(to_try, _largest_size(job, to_try, now, settings)[0])
        self._weight = 1.0 / math.sqrt(self.remaining) / job.shape.slots

    def of_next(self, size: int) -> float:
        """The gain of one more worker at this size; 0 where it adds nothing or is beyond `cap`."""
        return _gain(self._steps, size) * self._weight if size < self.cap else 0.0

    def of_last(self, size: int) -> float:
        """The gain of the last worker at this size."""
        return _gain(self._steps, size - 1) * self._weight

    def wants_idle(self, size: int) -> bool:
        """Whether the job can use one more worker on an idle slot: it adds speed, or is to be tried again."""
        return self.of_next(size) > 0.0 or _gain(self._idle, size) > 0.0

    def seconds_left(self, size: int) -> float:
        """Seconds that the job still takes at this size."""
        speed = _speed(self._steps, size)
        return self.remaining / speed if speed > 0 else math.inf

    def seconds_saved(self, size: int) -> float:
        """Seconds by which the job ends earlier if it grows from this size as far as that helps."""
        steps = self._steps if self.of_next(size) > 0.0 else self._idle
        now = _speed(steps, size)
        best = _speed(steps, max(steps[-1][1], size))
        return self.remaining / now * (1.0 - now / best) if now > 0 and best > 0 else 0.0


def _gain(steps: Steps, size: int) -> float:
    """Speed that one more worker adds at this size, relative to one worker's."""
    k = bisect_left(steps, size + 1, key=lambda step: step[1])
    return steps[k][2] if k < len(steps) else 0.0


def _speed(steps: Steps, size: int) -> float:
    """The speed at this size, relative to one worker's."""
    speed = 0.0
    for before, after, gain in steps:
        if before >= size:
            break
        speed += (min(after, size) - before) * max(gain, 0.0)
    return speed


def _remaining(job: Job, now: float, settings: PolicySettings) -> tuple[float, float]:
    """Slot-seconds that the job still needs by its last news, and when time alone changes that."""
    known = work_left(job, _last_news(job))
    if known is None:
        return guessed_work(job, now, settings)
    return max(known.slot_seconds, REMAINING_MIN_SECONDS * job.shape.slots), math.inf


def _last_news(job: Job) -> float:
    """The time of the job's last report, else of its last resize or start."""
    return job.progress.reported_at or max(job.last_resize_at or 0.0, job.running_at or 0.0)


def _largest_size(job: Job, known: Points, now: float, settings: PolicySettings) -> tuple[int, float]:
    """The largest size that is worth trying, and when time alone changes that.

    A job with measured speeds is tried at no more than twice its largest measured size, or at the size that its user
    prefers; a job without them first gets some time to report.
    """
    asked_for = max(job.spec.preferred_workers or 0, len(job.workers))
    if known:
        return min(job.max_workers, max(2 * known[-1][0], asked_for)), math.inf
    if job.spec.runtime is not Runtime.ELASTIC or not settings.measured_gain:
        return job.max_workers, math.inf
    cautious = max(settings.unmeasured_workers, job.min_workers, asked_for)
    waits_until = math.inf if job.running_at is None else job.running_at + settings.measure_seconds
    if cautious >= job.max_workers or now >= waits_until:
        return job.max_workers, math.inf
    return cautious, waits_until


@lru_cache(maxsize=16384)
def _steps(points: Points, cap: int) -> Steps:
    """The concave hull of speed over size: each of its steps counts as a whole."""
    sizes = [0, *range(1, min(cap, _EVERY_SIZE) + 1)]
    while sizes[-1] < cap:
        sizes.append(min(max(int(sizes[-1] * _STRIDE), sizes[-1] + 1), cap))
    speeds = [0.0, *(speed_at(points, size) for size in sizes[1:])]
    single = speeds[1]
    hull: list[tuple[int, int, float]] = []
    for (before, slow), (after, fast) in pairwise(zip(sizes, speeds, strict=True)):
        gain = (fast - slow) / (after - before) / single
        while hull and gain >= hull[-1][2]:
            start, end, above = hull.pop()
            gain = (gain * (after - before) + above * (end - start)) / (after - start)
            before = start
        hull.append((before, after, gain))
    return tuple((before, after, max(gain, 0.0)) for before, after, gain in hull)
