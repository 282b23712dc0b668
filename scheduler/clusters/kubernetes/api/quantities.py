"""Amounts of resources as Kubernetes writes them, and what a node or pod has of those that count here."""

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from kubernetes.utils.quantity import parse_quantity

from scheduler import bounds

_MIB = 1024 * 1024
#: More of anything is on no node; what is more counts as this much.
MOST = Decimal(2**60)


@lru_cache(maxsize=4096)
def quantity(text: str) -> Decimal:
    """The number that `500m` or `64Gi` stands for; what cannot be read is nothing, and no more than `MOST` counts."""
    try:
        number = Decimal(parse_quantity(text))
    except (ValueError, ArithmeticError):
        return Decimal(0)
    return min(max(number, Decimal(0)), MOST) if not number.is_nan() else Decimal(0)


class Amounts(NamedTuple):
    """Slots, CPUs and bytes, exactly."""

    slots: Decimal = Decimal(0)
    cpus: Decimal = Decimal(0)
    memory: Decimal = Decimal(0)

    def plus(self, other: "Amounts") -> "Amounts":
        return Amounts(self.slots + other.slots, self.cpus + other.cpus, self.memory + other.memory)

    def at_least(self, other: "Amounts") -> "Amounts":
        """The larger of each."""
        return Amounts(max(self.slots, other.slots), max(self.cpus, other.cpus), max(self.memory, other.memory))

    @property
    def whole_slots(self) -> int:
        """Slots that are there in full."""
        return min(math.floor(self.slots), int(bounds.SLOTS.high))

    @property
    def touched_slots(self) -> int:
        """Slots of which at least a part is used."""
        return min(math.ceil(self.slots), int(bounds.SLOTS.high))

    @property
    def finite_cpus(self) -> float:
        """CPUs as the model counts them."""
        return bounds.CPUS_HELD.nearest(float(self.cpus))

    @property
    def whole_mib(self) -> int:
        return min(math.floor(self.memory / _MIB), int(bounds.MEMORY_MIB.high))

    @property
    def touched_mib(self) -> int:
        return min(math.ceil(self.memory / _MIB), int(bounds.MEMORY_MIB.high))


NONE = Amounts()


def amounts_of(resources: Mapping[str, Any], resource: str) -> Amounts:
    """What a list of resources holds; a slot is one `resource`."""
    return Amounts(*(quantity(str(resources.get(name, "0"))) for name in (resource, "cpu", "memory")))


def total(items: Iterable[Amounts]) -> Amounts:
    result = NONE
    for item in items:
        result = result.plus(item)
    return result
