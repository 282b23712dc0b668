"""Speed-up curves: speed of a number of workers relative to one. Pure functions of their parameters."""

import math
from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from scheduler import bounds
from scheduler.errors import InvalidInput

_RULE = "must be linear, amdahl SHARE with a share of 0 to 1, or points such as 1=1 2=1.9 4=3.4"


class Speedup(Protocol):
    """A curve; the same for every placement of the workers."""

    def __call__(self, workers: int) -> float:
        """Speed of `workers` workers; that of one is 1 unless the curve was measured otherwise."""
        ...


@dataclass(frozen=True, slots=True)
class Linear:
    """Every worker adds the same."""

    def __call__(self, workers: int) -> float:
        return float(workers)


@dataclass(frozen=True, slots=True)
class Amdahl:
    """A share of the work is done one after the other, however many workers there are (Amdahl 1967)."""

    serial_share: float

    def __call__(self, workers: int) -> float:
        return 1.0 / (self.serial_share + (1.0 - self.serial_share) / workers)


@dataclass(frozen=True, slots=True)
class Measured:
    """Straight lines between measured (workers, speed), ascending; in proportion below, level above them."""

    points: tuple[tuple[int, float], ...]

    def __call__(self, workers: int) -> float:
        sizes = [size for size, _ in self.points]
        right = bisect_left(sizes, workers)
        if right == len(self.points):
            return self.points[-1][1]
        many, fast = self.points[right]
        if right == 0:
            return fast * workers / many
        few, slow = self.points[right - 1]
        return slow + (fast - slow) * (workers - few) / (many - few)


def parse_speedup(text: str, field: str = "speed") -> Speedup:
    """The curve that `linear`, `amdahl 0.05` or `1=1 2=1.9 4=3.4` names. Raises `InvalidInput`."""
    words = text.lower().split()
    match words:
        case ["linear"]:
            return Linear()
        case ["amdahl", share]:
            serial_share = _number(share)
            if not 0.0 <= serial_share <= 1.0:
                raise InvalidInput(field, f"{text!r} {_RULE}")
            return Amdahl(serial_share)
        case [_, *_] if all("=" in word for word in words):
            return Measured(_points(words, text, field))
    raise InvalidInput(field, f"{text!r} {_RULE}")


def _points(words: list[str], text: str, field: str) -> tuple[tuple[int, float], ...]:
    pairs = [(_number(word.partition("=")[0]), _number(word.partition("=")[2])) for word in words]
    if not all(
        bounds.WORKERS.admits(workers) and workers % 1 == 0 and bounds.SPEED.admits(speed) for workers, speed in pairs
    ):
        raise InvalidInput(field, f"{text!r} {_RULE}")
    if any(first[0] >= second[0] for first, second in pairwise(pairs)):
        raise InvalidInput(field, f"{text!r} must name its numbers of workers in ascending order")
    return tuple((int(workers), speed) for workers, speed in pairs)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
