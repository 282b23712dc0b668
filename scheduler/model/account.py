"""Accounts: the slots that the jobs of one user in one queue hold of one GPU type, and what they came to by the hour.

Slots that are shared beyond the physical ones are nobody's: no account counts them. Hours are those of people's clocks
in UTC, numbered from the epoch on.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from scheduler.model.event import EventKind

HOUR_SECONDS = 3600.0
#: What sums may be by.
KEYS = ("queue", "user", "gpu_type", "job")
#: Events whose amount is work that was lost, in slot-seconds.
LOSING = frozenset({EventKind.WORKER_ENDED, EventKind.JOB_STOPPING})
#: Stands for the GPU types that have no price of their own.
ANY_PRICE = "*"
#: Hours among which one interval is divided. What is longer was never measured: its beginning counts in the first one.
HOURS_MAX = 2 * 366 * 24


class AccountKey(NamedTuple):
    """Names an account. Jobs without a queue have an empty one, nodes without GPUs an empty type."""

    queue: str
    user: str
    gpu_type: str


@dataclass(frozen=True, slots=True)
class Holding:
    """What an account has held since a moment. It is counted up to there, and from there on at the next change."""

    key: AccountKey
    #: By the engine's clock; unix seconds.
    at: float
    slots: int
    #: Slots of them beyond the guarantees of the queue and of those around it.
    lent: float


class Charge(NamedTuple):
    """Slot-seconds that an account is charged in one hour."""

    hour: int
    key: AccountKey
    held: float
    #: Of them, those beyond the guarantees of the queue and of those around it.
    lent: float
    #: Held for work that was lost in this hour.
    lost: float


class AccountSum(NamedTuple):
    """Slot-seconds in a span of time of all accounts that have these keys; None: of any."""

    queue: str | None
    user: str | None
    gpu_type: str | None
    #: 0: jobs that are no longer stored.
    job: int | None
    held: float
    lent: float
    lost: float
    #: None: there are no prices.
    cost: float | None = None


def hour_of(at: float, ahead_seconds: float) -> int:
    """The hour of a moment of the engine's clock, behind which people's clocks are by so much."""
    return math.floor((at + ahead_seconds) / HOUR_SECONDS)


def hourly(since: float, until: float, ahead_seconds: float) -> Iterator[tuple[int, float]]:
    """The hours of an interval of the engine's clock, and the seconds in each; their sum is the interval."""
    last = hour_of(until, ahead_seconds)
    hour = max(hour_of(since, ahead_seconds), last - HOURS_MAX)
    while since < until:
        end = until if hour >= last else (hour + 1) * HOUR_SECONDS - ahead_seconds
        if end > since:
            yield hour, end - since
            since = end
        hour += 1


def charges_of(holding: Holding, until: float, ahead_seconds: float) -> Iterator[Charge]:
    """What the holding comes to up to a moment."""
    if holding.slots:
        for hour, seconds in hourly(holding.at, until, ahead_seconds):
            yield Charge(hour, holding.key, holding.slots * seconds, holding.lent * seconds, 0.0)


def summed(charges: Iterable[Charge]) -> tuple[Charge, ...]:
    """One charge for each account and hour."""
    sums: dict[tuple[int, AccountKey], Charge] = {}
    for each in charges:
        name = (each.hour, each.key)
        before = sums.get(name)
        if before is None:
            sums[name] = each
        else:
            held, lent, lost = before.held + each.held, before.lent + each.lent, before.lost + each.lost
            sums[name] = Charge(each.hour, each.key, held, lent, lost)
    return tuple(sums.values())


def folded(sums: Iterable[AccountSum], by: Collection[str]) -> list[AccountSum]:
    """One sum for each combination of these keys, in their order, without those that are nothing."""
    totals: dict[tuple[str, str, str, int], AccountSum] = {}
    for each in sums:
        part = AccountSum(
            each.queue if "queue" in by else None,
            each.user if "user" in by else None,
            each.gpu_type if "gpu_type" in by else None,
            each.job if "job" in by else None,
            each.held,
            each.lent,
            each.lost,
            each.cost,
        )
        name = (part.queue or "", part.user or "", part.gpu_type or "", part.job or 0)
        before = totals.get(name)
        totals[name] = part if before is None else _plus(before, part)
    return [totals[name] for name in sorted(totals) if totals[name].held or totals[name].lost]


def _plus(one: AccountSum, other: AccountSum) -> AccountSum:
    cost = None if one.cost is None or other.cost is None else one.cost + other.cost
    return AccountSum(*one[:4], one.held + other.held, one.lent + other.lent, one.lost + other.lost, cost)


def priced(sums: Iterable[AccountSum], prices: Mapping[str, float]) -> list[AccountSum]:
    """The sums, which are by GPU type, with what their held slots cost; prices are those of a slot for an hour.

    A type without a price costs what `*` says, else nothing.
    """
    otherwise = prices.get(ANY_PRICE, 0.0)
    return [each._replace(cost=each.held / HOUR_SECONDS * prices.get(each.gpu_type or "", otherwise)) for each in sums]
