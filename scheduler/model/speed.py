"""How fast a job was at the sizes that it had, and how much its reports of that scatter."""

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
