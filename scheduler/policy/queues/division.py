"""The tree of queues as shares of one kind of slots."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from scheduler.model.queue import ROOT
from scheduler.policy.queues.entitlement import Entitlement, Share, entitlements
from scheduler.policy.queues.tree import Lane, Tree

#: Slots that jobs hold or wait for, by account and kind.
Demand = Mapping[str, Sequence[int]]


def divided_among(
    tree: Tree, first: Mapping[Lane, int], demand: Demand, held: Demand, slots: Sequence[float]
) -> dict[str, tuple[Entitlement, ...]]:
    """The entitlements by account and kind; `slots` are those of each kind that are divided.

    `first` has the number of the first job of each lane.
    Of all slots, guarantees and what is lent; of one GPU type, guarantees alone.
    """
    inner: dict[str, dict[str, None]] = {}
    first_of: dict[str, int] = {}
    for lane, number in first.items():
        for above, account in zip((ROOT, *lane.path), lane.path, strict=False):
            inner.setdefault(above, {})[account] = None
            first_of[account] = min(first_of.get(account, number), number)
    roots = [_Shares(tree, kind, inner, demand, held, first_of).of(ROOT) for kind in range(len(tree.kinds))]
    each = [
        entitlements(root, max(most, 0.0), lends=kind == 0)
        for kind, (root, most) in enumerate(zip(roots, slots, strict=True))
    ]
    return {account: tuple(kind[account] for kind in each) for account in each[0]}


class _Shares(NamedTuple):
    """What is known of accounts, in one kind of slots by its index."""

    tree: Tree
    kind: int
    inner: Mapping[str, Iterable[str]]
    demand: Demand
    held: Demand
    first: Mapping[str, int]

    def of(self, account: str) -> Share:
        """The share of an account, with those inside it."""
        queue, name = self.tree.queue(account), self.tree.kinds[self.kind]
        below = [self.of(each) for each in self.inner.get(account, ())]
        wanted, held = (float(tally[account][self.kind]) if account in tally else 0.0 for tally in self[3:5])
        guarantee, limit, weight = None if below else 0.0, math.inf, 1.0
        if queue is not None:
            guarantee = float(dict(queue.guarantee).get(name, math.nan))
            guarantee = guarantee if not math.isnan(guarantee) else None if below else 0.0
            limit, weight = float(dict(queue.limit).get(name, math.inf)), queue.weight
        return Share(account, weight, guarantee, limit, wanted, held, self.first.get(account, 0), below)
