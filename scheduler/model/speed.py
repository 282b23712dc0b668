"""How fast a job was at the sizes that it had, how much its reports of that scatter, and how fast it is at any size."""

import math
from bisect import bisect_left
from dataclasses import dataclass, replace

from scheduler import bounds

#: Later reports count as if there had been no more than these before them: old ones fade.
REPORTS_MAX = 20
#: A report farther from the mean than this many standard deviations is a change of speed, not noise: the workers are on
#: other nodes, the machine does other work, or a sample is worth another amount of progress.
CHANGE_SIGMAS = 3.0
#: Later reports count for the scatter as if there had been no more than these before them.
SCATTER_REPORTS_MAX = 30
#: One loss more makes no difference.
LOSSES_MAX = 10
#: Speed grows with this power of the size where nothing is known.
UNMEASURED_EXPONENT = 0.8

#: (workers, speed in any one unit), ascending by workers.
Points = tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class SizeSpeed:
    """The speed of a job at one size, as far as it was reported."""

    workers: int
    #: Useful samples per second, samples times efficiency: the mean of the reports since the speed changed last.
    per_second: float
    #: How many reports that mean is made of, at most `REPORTS_MAX`.
    reports: int = 1
    #: The generation of the last report.
    generation: int = 0
    #: How often the job gave workers back because it was slower at this size than at a smaller one.
    losses: int = 0

    def __post_init__(self) -> None:
        bounds.RATE.check("per_second", self.per_second)


@dataclass(frozen=True, slots=True)
class Scatter:
    """How far one report of the speed lies from the mean of those before it, estimated over all sizes of a job.

    It begins with a guess that counts as two reports: five percent.
    """

    #: The mean of the squared distance, as a share of the speed: 0.0025 is a standard deviation of five percent.
    variance: float = 0.0025
    #: How many reports the estimate is made of, the guess counted as two; at most `SCATTER_REPORTS_MAX`.
    reports: int = 2

    def __post_init__(self) -> None:
        bounds.FRACTION.check("variance", self.variance)

    def explains(self, distance: float) -> bool:
        """Whether one report may be this far from the mean, as a share of it, by chance."""
        return distance * distance <= CHANGE_SIGMAS**2 * self.variance

    def after(self, distance: float) -> "Scatter":
        """The estimate after one more report at this distance; one that is too far off counts as just not so."""
        square = min(distance * distance, CHANGE_SIGMAS**2 * self.variance, 1.0)
        variance = self.variance + (square - self.variance) / (self.reports + 1)
        return Scatter(bounds.FRACTION.nearest(variance), min(self.reports + 1, SCATTER_REPORTS_MAX))


#: What is known of the speed of a job: by size, ascending, and the scatter of its reports.
Known = tuple[tuple[SizeSpeed, ...], Scatter]


def after_report(known: Known, workers: int, per_second: float, generation: int) -> Known:
    """What is known after one more report of the speed at this size, in this generation."""
    speeds, scatter = known
    before = next((speed for speed in speeds if speed.workers == workers), None)
    if before is None:
        now = SizeSpeed(workers, per_second, generation=generation)
        return tuple(sorted((*speeds, now), key=lambda speed: speed.workers)), scatter
    if before.per_second <= 0:
        return _with(speeds, replace(before, per_second=per_second, reports=1, generation=generation)), scatter
    distance = per_second / before.per_second - 1.0
    reports = before.reports + 1 if scatter.explains(distance) else 1
    mean = bounds.RATE.nearest(before.per_second + (per_second - before.per_second) / reports)
    now = replace(before, per_second=mean, reports=min(reports, REPORTS_MAX), generation=generation)
    return _with(speeds, now), scatter.after(distance)


def _with(speeds: tuple[SizeSpeed, ...], now: SizeSpeed) -> tuple[SizeSpeed, ...]:
    return tuple(now if speed.workers == now.workers else speed for speed in speeds)


def after_loss(speeds: tuple[SizeSpeed, ...], workers: int) -> tuple[SizeSpeed, ...]:
    """What is known once the job has given workers back because it was slower at this size."""
    known = {speed.workers: speed for speed in speeds}
    if workers not in known:
        return speeds
    return _with(speeds, replace(known[workers], losses=min(known[workers].losses + 1, LOSSES_MAX)))


def speed_at(points: Points, size: int) -> float:
    """The speed at a size: linear between two points, a power of the size beyond them."""
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


def with_declared(measured: Points, declared: Points) -> Points:
    """Measured speeds, then declared ones beyond them, on one scale."""
    if not measured or not declared:
        return measured or declared
    scale = measured[-1][1] / speed_at(declared, measured[-1][0])
    return measured + tuple((size, speed * scale) for size, speed in declared if size > measured[-1][0])


def _exponent_beyond(points: Points) -> float:
    """The exponent between the last two points, at most that of unmeasured speeds."""
    if len(points) < 2:
        return UNMEASURED_EXPONENT
    (few, slow), (many, fast) = points[-2:]
    return min(max(math.log(fast / slow) / math.log(many / few), 0.0), UNMEASURED_EXPONENT)
