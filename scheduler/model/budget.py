"""Budgets of queues: slot-hours in a calendar month, which begins and ends in UTC by people's clocks."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from scheduler.model.account import HOUR_SECONDS, Holding
from scheduler.model.queue import Queue, ancestry

#: The part of a budget from which on it is nearly spent.
NEAR = 0.8


@dataclass(frozen=True, slots=True)
class MonthSoFar:
    """What is stored of a month."""

    #: Slot-seconds that jobs of a queue are charged, without those of the queues inside it.
    held: Mapping[str, float]
    #: Queues of which it was told that their budget is nearly spent.
    told: frozenset[str]


def month_hours(at: float) -> tuple[int, int]:
    """The first hour of the month of a moment of people's clocks, and that of the next month."""
    day = datetime.fromtimestamp(at, UTC).date().replace(day=1)
    following = day.replace(year=day.year + day.month // 12, month=day.month % 12 + 1)
    first, last = (datetime(each.year, each.month, 1, tzinfo=UTC).timestamp() for each in (day, following))
    return int(first // HOUR_SECONDS), int(last // HOUR_SECONDS)


def held_since(held: Mapping[str, float], holdings: Iterable[Holding], since: float, now: float) -> Mapping[str, float]:
    """Slot-seconds of each queue with those inside it: what they are charged, and what they hold since a moment."""
    found: Counter[str] = Counter()
    for path, seconds in held.items():
        for each in ancestry(path):
            found[each] += seconds  # type: ignore[assignment]
    for holding in holdings:
        for each in ancestry(holding.key.queue):
            found[each] += holding.slots * max(0.0, now - max(holding.at, since))  # type: ignore[assignment]
    return found


def share_spent(queue: Queue, held: Mapping[str, float]) -> float:
    """The part of the queue's budget that is spent; 0: it has none."""
    if queue.budget is None:
        return 0.0
    return held.get(queue.path, 0.0) / HOUR_SECONDS / queue.budget if queue.budget else 1.0


def spent_paths(queues: Mapping[str, Queue], held: Mapping[str, float]) -> frozenset[str]:
    """Queues that have spent their budget, or are inside one that has."""
    over = {path for path, queue in queues.items() if share_spent(queue, held) >= 1.0}
    return frozenset(path for path in queues if not over.isdisjoint(ancestry(path)))
