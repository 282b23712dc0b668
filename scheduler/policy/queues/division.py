"""The tree of queues as shares of one kind of slots."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from scheduler.model.queue import ANY_GPU, ROOT, Queue
from scheduler.policy.queues.entitlement import NO_ENTITLEMENT, Entitlement, Share, entitlements, whole_below
from scheduler.policy.queues.tree import Lane, Tree

#: Slots that jobs hold or wait for, by account and kind.
Demand = Mapping[str, Sequence[int]]


def divided_among(
    tree: Tree,
    first: Mapping[Lane, int],
    demand: Demand,
    held: Demand,
    used: Mapping[str, float],
    slots: Sequence[float],
) -> dict[str, tuple[Entitlement, ...]]:
    """The entitlements by account and kind; `slots` are those of each kind that are divided.

    `first` has the number of the first job of each lane, `used` what accounts have recently used for their weights.
    Of all slots, guarantees and what is lent; of one GPU type, guarantees alone. Queues whose jobs want nothing, as
    those on oversold slots, are entitled to nothing, and what is guaranteed to them is nobody's.
    """
    none = (NO_ENTITLEMENT,) * len(tree.kinds)
    inner: dict[str, dict[str, None]] = {}
    first_of: dict[str, int] = {}
    for lane, number in first.items():
        if not any(demand.get(lane.own, ())):
            continue
        for above, account in zip((ROOT, *lane.path), lane.path, strict=False):
            inner.setdefault(above, {})[account] = None
            first_of[account] = min(first_of.get(account, number), number)
    exact: list[Mapping[str, Entitlement]] = [{}] * len(tree.kinds)
    each: list[Mapping[str, Entitlement]] = [{}] * len(tree.kinds)
    for kind in reversed(range(len(tree.kinds))):  # what is had of types is part of the guarantee of any
        root = _Shares(tree, kind, inner, demand, held, used, first_of, exact).of(ROOT)
        exact[kind] = entitlements(root, max(slots[kind], 0.0), lends=kind == 0, in_whole=False)
        each[kind] = whole_below(root, exact[kind])
    found = {account: tuple(kind.get(account, NO_ENTITLEMENT) for kind in each) for account in each[0]}
    return dict.fromkeys((account for lane in first for account in lane.path), none) | found


class _Shares(NamedTuple):
    """What is known of accounts, in one kind of slots by its index."""

    tree: Tree
    kind: int
    inner: Mapping[str, Iterable[str]]
    demand: Demand
    held: Demand
    used: Mapping[str, float]
    first: Mapping[str, int]
    #: By kind, what is found so far: of all types before that of any.
    entitled: Sequence[Mapping[str, Entitlement]]

    def of(self, account: str) -> Share:
        """The share of an account, with those inside it."""
        queue, name = self.tree.queue(account), self.tree.kinds[self.kind]
        inner = self.inner.get(account, ()) if self.tree.divides(account, self.kind) else ()
        below = [self.of(each) for each in inner]
        wanted, held = (float(tally[account][self.kind]) if account in tally else 0.0 for tally in self[3:5])
        guarantee = self._guarantee(account, queue, below) if queue is not None else None
        if unread := queue is not None and not queue.readable:
            guarantee = wanted  # what it was promised is not known: nothing is taken from it
        limit = float(dict(queue.limit).get(name, math.inf)) if queue is not None else math.inf
        weight = self.tree.weight(account)
        used, first = self.used.get(account, 0.0), self.first.get(account, 0)
        kept = math.inf if unread else self._guaranteed_of_types(account)
        return Share(account, weight, guarantee, limit, wanted, held, used, first, below, kept=kept)

    def _guarantee(self, account: str, queue: Queue, below: Sequence[Share]) -> float | None:
        """What the queue is guaranteed; None: as much as those inside it.

        Guarantees of GPU types, as far as its jobs can use them and slots of these types suffice, are part of that of
        any type, and may be all of it.
        Where it is guaranteed slots of any type and none of this one, those inside it have no more of it together.
        """
        promised, name = dict(queue.guarantee), self.tree.kinds[self.kind]
        if self.kind and name not in promised and ANY_GPU in promised:
            return min(float(promised[ANY_GPU]), sum(each.guaranteed for each in below))
        if self.kind or not promised:
            found = promised.get(name)
            return None if found is None else float(found)
        by_type = zip(self.tree.kinds[1:], self.entitled[1:], strict=True)
        typed = sum(entitled[account].guaranteed for name, entitled in by_type if name in promised)
        return float(max(promised.get(ANY_GPU, 0), typed))

    def _guaranteed_of_types(self, account: str) -> float:
        """Of all slots, those that the account is guaranteed of GPU types: no guarantee of any type takes them."""
        of_types = self.entitled[1:] if self.kind == 0 else ()
        return sum(entitled.get(account, NO_ENTITLEMENT).guaranteed for entitled in of_types)
