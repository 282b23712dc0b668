"""The tree of queues as shares of one kind of slots."""

import math
from collections.abc import Iterable, Mapping, Sequence

from scheduler.model.queue import ROOT
from scheduler.policy.queues.entitlement import Entitlement, Share, entitlements
from scheduler.policy.queues.tree import Lane, Tree

#: Slots that jobs hold or wait for, by account and kind.
Demand = Mapping[str, Sequence[int]]


def divided_among(
    tree: Tree, lanes: Iterable[Lane], demand: Demand, slots: Sequence[float]
) -> dict[str, tuple[Entitlement, ...]]:
    """The entitlements by account and kind; `slots` are those of each kind that are divided.

    Of all slots, guarantees and what is lent; of one GPU type, guarantees alone.
    """
    inner: dict[str, dict[str, None]] = {}
    for lane in lanes:
        for above, account in zip((ROOT, *lane.path), lane.path, strict=False):
            inner.setdefault(above, {})[account] = None
    roots = [_share(tree, ROOT, kind, inner, demand) for kind in range(len(tree.kinds))]
    each = [
        entitlements(root, max(most, 0.0), lends=kind == 0)
        for kind, (root, most) in enumerate(zip(roots, slots, strict=True))
    ]
    return {account: tuple(kind[account] for kind in each) for account in each[0]}


def _share(tree: Tree, account: str, kind: int, inner: Mapping[str, Iterable[str]], demand: Demand) -> Share:
    queue, name = tree.queue(account), tree.kinds[kind]
    below = [_share(tree, each, kind, inner, demand) for each in inner.get(account, ())]
    wanted = float(demand[account][kind]) if account in demand else 0.0
    if queue is None:
        return Share(account, guarantee=None if below else 0.0, demand=wanted, inner=below)
    promised = dict(queue.guarantee).get(name)
    guarantee = float(promised) if promised is not None else None if below else 0.0
    limit = float(dict(queue.limit).get(name, math.inf))
    return Share(account, queue.weight, guarantee, limit, wanted, below)
