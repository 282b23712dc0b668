"""Resource quantities of Kubernetes, and the amounts of those resources that the scheduler counts."""

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from kubernetes.utils.quantity import parse_quantity

from scheduler import bounds

_MIB = 1024 * 1024
#: Upper bound of a quantity, more than any node has; larger ones count as this.
MOST = Decimal(2**60)


@lru_cache(maxsize=4096)
def quantity(text: str) -> Decimal:
    """The number that `500m` or `64Gi` stands for, at most `MOST`; 0 for unreadable text."""
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

    def beyond(self, other: "Amounts") -> "Amounts":
        """By how much each amount exceeds the other."""
        return Amounts(
            max(self.slots - other.slots, Decimal(0)),
            max(self.cpus - other.cpus, Decimal(0)),
            max(self.memory - other.memory, Decimal(0)),
        )

    def at_least(self, other: "Amounts") -> "Amounts":
        """The larger of each amount."""
        return Amounts(max(self.slots, other.slots), max(self.cpus, other.cpus), max(self.memory, other.memory))

    @property
    def whole_slots(self) -> int:
        """Number of complete slots."""
        return min(math.floor(self.slots), int(bounds.SLOTS.high))

    @property
    def touched_slots(self) -> int:
        """Number of slots of which at least a part is used."""
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
    """Amounts of a resource list; one unit of `resource` is one slot."""
    return Amounts(*(quantity(str(resources.get(name, "0"))) for name in (resource, "cpu", "memory")))


def total(items: Iterable[Amounts]) -> Amounts:
    result = NONE
    for item in items:
        result = result.plus(item)
    return result
