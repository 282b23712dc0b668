"""Entitlements: how the slots of a cluster are divided among a tree of queues.

Level by level from the root, each queue first has its guarantee, as far as its jobs can use it and its limit allows;
guarantees above what there is shrink in proportion, down to what is kept of them. The rest is lent by weight, up to
demand and limit. What a queue cannot use goes to its siblings, so that nothing is left over while anybody below could
use it.

The numbers are those of one kind of slots: all, or the GPUs of one type. Where slots are whole, so are entitlements:
those that are left over go by the largest rests, among equal ones to whom holds more, so that nobody takes in turns,
then to whom has used less.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(slots=True)
class Share:
    """What one queue may claim, in slots of one kind, and the queues inside it."""

    #: Unique in the tree.
    name: str
    weight: float = 1.0
    #: None: as much as its inner queues are guaranteed together.
    guarantee: float | None = None
    limit: float = math.inf
    #: Slots that its jobs hold or wait for; of a queue with inner queues, these have all of it.
    demand: float = 0.0
    #: Slots that its jobs hold, what it has recently used for its weight, and the number of its first job: these only
    #: decide between equal rests.
    held: float = 0.0
    used: float = 0.0
    first: int = 0
    inner: "Sequence[Share]" = ()
    #: Its guarantee does not shrink below this many slots for the sake of what is not kept of those of its siblings.
    kept: float = 0.0
    #: Slots that it could use, with its inner queues, within its limit.
    wanted: float = field(init=False)
    #: Its guarantee, else that of its inner queues together.
    guaranteed: float = field(init=False)

    def __post_init__(self) -> None:
        inner = self.inner
        self.wanted = min(self.limit, sum(each.wanted for each in inner) if inner else self.demand)
        guarantee = self.guarantee
        self.guaranteed = sum(each.guaranteed for each in inner) if guarantee is None else guarantee


class Entitlement(NamedTuple):
    """Slots that a queue may have: those of its guarantee, and all."""

    guaranteed: float
    total: float


NO_ENTITLEMENT = Entitlement(0.0, 0.0)


def entitlements(root: Share, slots: float, *, lends: bool = True, in_whole: bool = True) -> Mapping[str, Entitlement]:
    """The entitlement of each queue by its name.

    Without `lends`, nothing is divided beyond guarantees. Without `in_whole`, fractions of a slot are kept.
    """
    total = min(slots, root.wanted)
    found = {root.name: Entitlement(total, total)}
    _divide_below(root, total, lends, found)
    return whole_below(root, found) if in_whole else found


def whole_below(root: Share, exact: Mapping[str, Entitlement]) -> Mapping[str, Entitlement]:
    """These entitlements in whole slots, so that each has less than a slot more or less than its part."""
    found = dict(exact)
    _make_whole(root, found)
    return found


def divided(slots: float, shares: Sequence[Share], *, lends: bool = True) -> list[Entitlement]:
    """The slots for each of these siblings; together no more than there are."""
    claims = [min(share.guaranteed, share.wanted) for share in shares]
    if sum(claims) > slots:
        keeps = [min(claim, share.kept) for share, claim in zip(shares, claims, strict=True)]
        cut = _shrunk(slots, [share.guaranteed for share in shares], filled(slots, keeps, keeps), claims)
        return [Entitlement(part, part) for part in cut]
    if not lends:
        return [Entitlement(claim, claim) for claim in claims]
    lent = filled(
        slots - sum(claims),
        [share.weight for share in shares],
        [share.wanted - claim for share, claim in zip(shares, claims, strict=True)],
    )
    return [Entitlement(claim, claim + more) for claim, more in zip(claims, lent, strict=True)]


def filled(amount: float, weights: Sequence[float], most: Sequence[float]) -> list[float]:
    """Divide an amount by weight, with at most so much for each: what one cannot take goes to the others (max-min)."""
    parts = [0.0] * len(most)
    weight = sum(w for w, bound in zip(weights, most, strict=True) if bound > 0)
    by_level = sorted((k for k, bound in enumerate(most) if bound > 0), key=lambda k: most[k] / weights[k])
    for k in by_level:
        parts[k] = min(most[k], amount * weights[k] / weight)
        amount, weight = amount - parts[k], weight - weights[k]
    return parts


def _shrunk(amount: float, weights: Sequence[float], least: Sequence[float], most: Sequence[float]) -> list[float]:
    """Divide as `filled` does, but with at least so much for each; all of these are no more than the amount."""
    at_least: set[int] = set()
    while True:
        rest = amount - sum(least[k] for k in at_least)
        parts = filled(rest, weights, [0.0 if k in at_least else bound for k, bound in enumerate(most)])
        below = {k for k, part in enumerate(parts) if part < least[k]} - at_least
        if not below:
            return [least[k] if k in at_least else part for k, part in enumerate(parts)]
        at_least |= below


def whole(parts: Sequence[Entitlement], shares: Sequence[Share], total: float) -> list[Entitlement]:
    """The parts of these siblings in whole slots, each rounded up or down, with this sum.

    A part that sums of floats left just below a whole number has the largest rest.
    """
    floors = [math.floor(part.total) for part in parts]
    rests = [round(part.total - floor, 6) for part, floor in zip(parts, floors, strict=True)]
    order = sorted(range(len(parts)), key=lambda k: (-rests[k], -shares[k].held, shares[k].used, shares[k].first))
    for k in order[: round(total) - sum(floors)]:
        floors[k] += rests[k] > 0
    return [Entitlement(min(part.guaranteed, whole), whole) for part, whole in zip(parts, floors, strict=True)]


def _make_whole(share: Share, found: dict[str, Entitlement]) -> None:
    parts = whole([found[inner.name] for inner in share.inner], share.inner, found[share.name].total)
    for inner, part in zip(share.inner, parts, strict=True):
        found[inner.name] = part
        _make_whole(inner, found)


def _divide_below(share: Share, slots: float, lends: bool, found: dict[str, Entitlement]) -> None:
    for inner, part in zip(share.inner, divided(slots, share.inner, lends=lends), strict=True):
        found[inner.name] = part
        _divide_below(inner, part.total, lends, found)
