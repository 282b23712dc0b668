"""Work of simulated jobs: along a speed-up curve, or another work with noise; and how long work takes."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from scheduler.clusters.simulated.work import Pace, Work
from scheduler.simulate.speed import Speedup


@dataclass(frozen=True, slots=True)
class CurveWork:
    """An amount of work, in the unit of the curve's speeds times seconds."""

    total: float
    speedup: Speedup

    @classmethod
    def lasting(cls, seconds: float, workers: int, speedup: Speedup) -> "CurveWork":
        """The work that `workers` workers do in `seconds`."""
        return cls(seconds * speedup(workers), speedup)

    def pace(self, members: tuple[int, ...], done: float) -> Pace:
        speed = self.speedup(sum(members))
        return Pace(speed, self.total, samples_per_second=speed)

    def fraction(self, done: float) -> float:
        return done / self.total


@dataclass(frozen=True, slots=True)
class NoisyWork:
    """Work that goes faster or slower than it should, by one factor for the whole job and one for each placement.

    Factors are log-normal with median 1: `spread` 0.1 means about 10 % up or down. They follow from `seed` alone.
    """

    work: Work
    spread: float
    seed: str
    _factors: dict[tuple[int, ...], float] = field(default_factory=dict, compare=False)

    @property
    def total(self) -> float:
        return self.work.total

    def pace(self, members: tuple[int, ...], done: float) -> Pace:
        return self.work.pace(members, done).times(self._factor(()) * self._factor(members))

    def fraction(self, done: float) -> float:
        return self.work.fraction(done)

    def _factor(self, members: tuple[int, ...]) -> float:
        if members not in self._factors:
            generator = random.Random(f"{self.seed} {members}")
            self._factors[members] = generator.lognormvariate(0.0, self.spread)
        return self._factors[members]


def paces(work: Work, members: tuple[int, ...]) -> Iterator[tuple[float, Pace]]:
    """What (amount, pace) the work consists of if these workers do all of it."""
    done = 0.0
    while done < work.total:
        pace = work.pace(members, done)
        until = min(pace.until, work.total)
        yield until - done, pace
        done = until


def seconds_alone(work: Work, members: tuple[int, ...]) -> float:
    """Seconds that these workers (`members` per node) take for all of the work, without any pause."""
    return sum(amount / pace.per_second for amount, pace in paces(work, members))


def packed(workers: int, slots_per_worker: int, node_slots: int) -> tuple[int, ...]:
    """A number of workers on as few nodes of this size as possible."""
    per_node = max(node_slots // slots_per_worker, 1)
    full, rest = divmod(workers, per_node)
    return (per_node,) * full + ((rest,) if rest else ())
