"""Numbers of settings, requests and reports as pydantic takes them; `scheduler.bounds` says what each may be."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from annotated_types import Ge, GroupedMetadata, Le
from pydantic import AfterValidator

from scheduler import bounds
from scheduler.bounds import Bound

#: Larger ones have more digits than anybody reads.
_SHOWN_WHOLE_MAX = 10**12


@dataclass(frozen=True)
class Within(GroupedMetadata):
    """A number inside a bound. A schema shows the smallest and the largest number; a rule has all of it."""

    bound: Bound

    def __iter__(self) -> Iterator[Any]:
        low = -self.bound.high if self.bound.signed else 0.0 if self.bound.zero else self.bound.low
        yield Ge(_plain(low))
        yield Le(_plain(self.bound.high))
        if self.bound.zero or self.bound.signed:
            yield AfterValidator(self._admitted)

    def _admitted(self, value: float) -> float:
        """Raises `ValueError` for a number that is nearly zero."""
        if not self.bound.admits(value):
            raise ValueError(f"{self.bound.rule}, not {value!r}")
        return value


def _plain(number: float) -> float:
    """A whole number as one, so that schemas and messages show it without a point."""
    return int(number) if number % 1 == 0 and abs(number) <= _SHOWN_WHOLE_MAX else number


Workers = Annotated[int, Within(bounds.WORKERS)]
Slots = Annotated[int, Within(bounds.SLOTS)]
SlotsPerWorker = Annotated[int, Within(bounds.SLOTS_PER_WORKER)]
MemoryMib = Annotated[int, Within(bounds.MEMORY_MIB)]
Priority = Annotated[int, Within(bounds.PRIORITY)]
SlotsOfQueue = Annotated[int, Within(bounds.SLOTS_OF_QUEUE)]
JobsOfQueue = Annotated[int, Within(bounds.JOBS_OF_QUEUE)]
Budget = Annotated[int, Within(bounds.BUDGET)]
Weight = Annotated[float, Within(bounds.WEIGHT)]
Seconds = Annotated[float, Within(bounds.SECONDS)]
Duration = Annotated[float, Within(bounds.DURATION)]
Grace = Annotated[float, Within(bounds.GRACE)]
Heartbeat = Annotated[float, Within(bounds.HEARTBEAT)]
Moment = Annotated[float, Within(bounds.MOMENT)]
Cpus = Annotated[float, Within(bounds.CPUS)]
Rate = Annotated[float, Within(bounds.RATE)]
Speed = Annotated[float, Within(bounds.SPEED)]
Fraction = Annotated[float, Within(bounds.FRACTION)]
Efficiency = Annotated[float, Within(bounds.EFFICIENCY)]
SlotSeconds = Annotated[float, Within(bounds.SLOT_SECONDS)]
Factor = Annotated[float, Within(bounds.FACTOR)]
Price = Annotated[float, Within(bounds.PRICE)]
Metric = Annotated[float, Within(bounds.METRIC)]
