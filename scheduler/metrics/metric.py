"""What a metric is: a row of the documentation, from which it is also made."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Literal

Kind = Literal["gauge", "counter", "histogram"]

#: Values of labels that are enums; what a newer engine adds is counted as `other`.
OTHER = "other"
#: Stands for every priority class in `Metric.series`.
ANY_CLASS = "*"


@dataclass(frozen=True, slots=True)
class Metric:
    """Name, kind, labels and meaning. Labels are bounded by nodes, queues or enums, never by jobs or users."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    #: Upper bounds of a histogram, in its unit.
    buckets: tuple[float, ...] = ()
    #: Values of its labels that are there from the start, with zero: else nobody would see a first increase.
    series: tuple[tuple[str, ...], ...] = ()
    #: Whether somebody else keeps the number, which is read at every scrape.
    watched: bool = False


def each(*values: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """Series of every combination of these labels' values."""
    return tuple(product(*values))


def known(value: str, values: Iterable[str]) -> str:
    """The value if it is among these, else `other`."""
    return value if value in values else OTHER
