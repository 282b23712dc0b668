"""What a span of time came to: who held which slots, how long jobs waited, what was taken and lost."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Window:
    """A span of time in equal parts; unix seconds."""

    since: float
    until: float
    parts: int

    @property
    def step_seconds(self) -> float:
        return (self.until - self.since) / self.parts


class Held(NamedTuple):
    """Uses of slots that began in one part and ended in another, taken together.

    What was held before the window begins with it; what is held after it ends in the part after the last one.
    """

    first: int
    last: int
    slots: float
    #: Sum of slots times seconds from the window's start to the beginning of each, and to the end.
    slots_begun: float
    slots_ended: float


def slot_seconds(window: Window, held: Iterable[Held]) -> tuple[float, ...]:
    """What was held in each part of the window.

    Up to an edge at t, uses of s slots that began at a and ended at b have had the sum of s(t - a) over those that
    had begun by then, less the sum of s(t - b) over those that had ended: so sums by part are all that is needed.
    """
    slots = [0.0] * (window.parts + 1)
    moments = [0.0] * (window.parts + 1)
    for each in held:
        slots[each.first] += each.slots
        moments[each.first] += each.slots_begun
        slots[each.last] -= each.slots
        moments[each.last] -= each.slots_ended
    result, before = [], 0.0
    slots_so_far = moments_so_far = 0.0
    for part in range(window.parts):
        slots_so_far += slots[part]
        moments_so_far += moments[part]
        so_far = slots_so_far * window.step_seconds * (part + 1) - moments_so_far
        result.append(max(0.0, so_far - before))
        before = so_far
    return tuple(result)


class Happened(NamedTuple):
    """Events of one kind and cause in one part of the window; `amount` is the sum of theirs."""

    part: int
    kind: str
    cause: str
    times: int
    amount: float


@dataclass(frozen=True, slots=True)
class Waits:
    """How long jobs of one priority class waited for their starts; repeated starts count, too."""

    #: Position among the classes; -1: below the first one; None: the jobs have been removed since.
    priority_class: int | None
    starts: int = 0
    seconds_mean: float = 0.0
    #: Percentiles: half of them, nine of ten, 99 of 100 waited no longer than this.
    seconds_p50: float = 0.0
    seconds_p90: float = 0.0
    seconds_p99: float = 0.0
    seconds_max: float = 0.0
    #: Jobs that wait at the moment of asking, and since when the first of them does.
    waiting_now: int = 0
    queued_at_min: float | None = None


@dataclass(frozen=True, slots=True)
class UserShare:
    """What one user's jobs held."""

    user: str
    jobs: int
    slot_seconds: float
    #: On slots that others may be on, too.
    shared_slot_seconds: float


@dataclass(frozen=True, slots=True)
class Kept:
    """From when on everything is still stored; None: nothing has been removed."""

    jobs_since: float | None
    events_since: float | None


@dataclass(frozen=True, slots=True)
class Usage:
    """Slots over time: what there was, and what was held of it, by position of the priority class; -1: below."""

    window: Window
    kept: Kept
    #: From when on there were slots; None: there were none.
    slots_since: float | None
    #: Slot-seconds in each part.
    capacity: tuple[float, ...]
    used: dict[int, tuple[float, ...]]
    shared_slot_seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """All that `sched report` tells."""

    usage: Usage
    happened: tuple[Happened, ...]
    waits: tuple[Waits, ...]
    #: Those that held most, first.
    users: tuple[UserShare, ...]
