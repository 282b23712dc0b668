"""The marginal gain of a worker for an elastic job: the speed that it adds, against the work that is left.

Speed is what workers reported at the sizes that the job had (`estimate.speeds`): linear between two sizes, and beyond
them a power of the size, optimistic but not blind. The work left comes from the share that workers report as done, else
from the duration that the user declared, else from the service attained so far: a job that has had little is likely to
need little (least attained service: Nuyens & Wierman, "The foreground-background queue: a survey", 2008; for training
jobs Gu et al., "Tiresias", 2019). Dividing gains by the square root of the work left lies between the most throughput
and the shortest job first.
"""

import math
from bisect import bisect_left
from functools import lru_cache
from itertools import pairwise

from scheduler.config import PolicySettings
from scheduler.model.job import Job, Runtime
from scheduler.policy.estimate.speeds import UNMEASURED_EXPONENT, Points, known_speeds

#: (size before, size after, speed that each worker between them adds, relative to one worker's), steepest first.
Steps = tuple[tuple[int, int, float], ...]

#: Ratio of the bounds of a service class and the one before it.
CLASS_FACTOR = 4.0
#: Progress below this share says nothing yet about the whole.
FRACTION_MIN = 0.005
#: Least time that a job is assumed to have left, in seconds with one worker.
REMAINING_MIN_SECONDS = 60.0
#: Sizes up to here are looked at one by one, larger ones in growing strides.
_EVERY_SIZE = 64
_STRIDE = 1.1


class MarginalGain:
    """Marginal gains of workers for one value of a job at one moment, and how long they are valid."""

    __slots__ = ("_idle", "_steps", "_weight", "cap", "changes_at", "remaining", "widens_at")

    def __init__(self, job: Job, now: float, settings: PolicySettings) -> None:
        points, to_try, known_until = _points(job, now, settings)
        self.cap, cap_changes_at = _largest_size(job, points, now, settings)
        #: Slot-seconds with one worker that the job still needs, as far as can be told.
        self.remaining, class_changes_at = _remaining(job, now, settings)
        #: When time alone lets it try more workers; infinite: never.
        self.widens_at = min(known_until, cap_changes_at)
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


def service_class(slot_seconds: float, settings: PolicySettings) -> int:
    """The class of jobs with about this attained service; 0 is the least.

    `slot_seconds` is the attained service. A job needs about as much again; class 0 counts as a quarter of its bound.
    """
    if slot_seconds < settings.service_class_slot_seconds:
        return 0
    return 1 + int(math.log(slot_seconds / settings.service_class_slot_seconds, CLASS_FACTOR))


def _remaining(job: Job, now: float, settings: PolicySettings) -> tuple[float, float]:
    """Slot-seconds that the job still needs, and when time alone changes that estimate."""
    progress, spec = job.progress, job.spec
    least = REMAINING_MIN_SECONDS * job.shape.slots
    fraction, whole = progress.fraction, progress.whole_slot_seconds
    if fraction is not None and fraction >= FRACTION_MIN and whole is not None:
        return max(whole * (1.0 - fraction), least), math.inf
    if spec.expected_seconds is not None:
        declared = spec.expected_seconds * job.preferred_workers * job.shape.slots
        return max(declared - job.attained(_last_news(job)), least), math.inf
    had = job.attained(now)
    first = settings.service_class_slot_seconds
    level = service_class(had, settings)
    slots = sum(len(worker.slot_ids) for worker in job.workers)
    up_at = now + (first * math.pow(CLASS_FACTOR, level) - had) / slots if slots else math.inf
    return first * math.pow(CLASS_FACTOR, level - 1), max(up_at, math.nextafter(now, math.inf))


def _last_news(job: Job) -> float:
    """The time of the job's last report, resize or start."""
    return max(moment or 0.0 for moment in (job.progress.reported_at, job.last_resize_at, job.running_at))


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


def _points(job: Job, now: float, settings: PolicySettings) -> tuple[Points, Points, float]:
    """Speeds by size, those without sizes that may be tried again, and when time alone changes them."""
    if not settings.measured_gain:
        return (), (), math.inf
    known = known_speeds(job, now, settings)
    points = _with_declared(known.points, job.spec.speedup)
    to_try = points if known.to_try == known.points else _with_declared(known.to_try, job.spec.speedup)
    return points, to_try, known.changes_at


def _with_declared(measured: Points, declared: Points) -> Points:
    """Measured speeds, then declared ones beyond them, on one scale."""
    if not measured or not declared:
        return measured or declared
    scale = measured[-1][1] / _between(declared, measured[-1][0])
    return measured + tuple((size, speed * scale) for size, speed in declared if size > measured[-1][0])


def _between(points: Points, size: int) -> float:
    """Speed at a size: linear between two points, a power of the size beyond them."""
    if not points:
        return math.pow(size, UNMEASURED_EXPONENT)
    first, last = points[0], points[-1]
    if size <= first[0]:
        return first[1] * math.pow(size / first[0], UNMEASURED_EXPONENT)
    if size >= last[0]:
        return last[1] * math.pow(size / last[0], _exponent_beyond(points))
    k = bisect_left(points, (size, -math.inf))
    (few, slow), (many, fast) = points[k - 1], points[k]
    # Beside a very large speed, rounding may reduce the other one to nothing.
    return max(slow + (fast - slow) * (size - few) / (many - few), min(slow, fast))


def _exponent_beyond(points: Points) -> float:
    """The exponent between the last two points, at most that of unmeasured speeds."""
    if len(points) < 2:
        return UNMEASURED_EXPONENT
    (few, slow), (many, fast) = points[-2:]
    return min(max(math.log(fast / slow) / math.log(many / few), 0.0), UNMEASURED_EXPONENT)


@lru_cache(maxsize=16384)
def _steps(points: Points, cap: int) -> Steps:
    """The concave hull of speed over size: each of its steps counts as a whole."""
    sizes = [0, *range(1, min(cap, _EVERY_SIZE) + 1)]
    while sizes[-1] < cap:
        sizes.append(min(max(int(sizes[-1] * _STRIDE), sizes[-1] + 1), cap))
    speeds = [0.0, *(_between(points, size) for size in sizes[1:])]
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
