"""Where the accounts of queues stand at the start of a pass: what their jobs hold and want, and what is divided."""

from collections.abc import Iterable
from typing import NamedTuple

from scheduler.model.job import Job
from scheduler.policy.capacity.ledger import Ledger
from scheduler.policy.queues.entitlement import Entitlement, Share, entitlements
from scheduler.policy.queues.shares import Counts, Standing
from scheduler.policy.queues.tree import TOP, Lane, Tree
from scheduler.policy.snapshot.peers import AllPeers
from scheduler.policy.snapshot.snapshot import Snapshot
from scheduler.policy.snapshot.usage import JobUsage


class _Tallies(NamedTuple):
    """Slots by account and kind."""

    held: dict[str, list[int]]
    leaving: dict[str, list[int]]
    pinned: dict[str, list[int]]


def standing_of(snapshot: Snapshot) -> Standing:
    """The standing before any decision of a pass; the snapshot's world has queues."""
    tree, ledger = snapshot.tree, snapshot.ledger
    empty = Standing(tree, _kinds(tree, ledger), {}, {}, {}, {}, {}, {})
    tallies = _Tallies({}, {}, {})
    demand: dict[str, list[int]] = {}
    lanes: dict[Lane, None] = {}
    oldest: dict[str, int] = {}
    divisible = [float(count) for count in empty.counts(enumerate(map(tuple, ledger.soon().tolist())))]
    for job_id in snapshot.world.active:
        usage = snapshot.usages[job_id]
        lane = tree.lane_of(usage.job)
        if lane is not TOP:
            held = empty.counts(usage.held)
            lanes[lane] = None
            _tally(tallies, lane, usage, held, empty.counts(usage.leaving))
            spent = lane.inside(snapshot.world.spent)
            _want(demand, lane, held if spent else _wanted_by_active(empty, usage, held, snapshot.peers))
            divisible = [slots + more for slots, more in zip(divisible, held, strict=True)]
    for lane, first, wanted in _waiting(snapshot, empty):
        if lane is TOP:
            divisible = [slots - less for slots, less in zip(divisible, wanted, strict=True)]
        elif not lane.inside(snapshot.world.spent):
            lanes[lane] = None
            oldest[lane.own] = min(oldest.get(lane.own, first), first)
            _want(demand, lane, wanted)
    roots = [tree.share(k, lanes, demand) for k in range(len(tree.kinds))]
    entitled = _entitled(roots, divisible)
    tallied = (_fixed(tallies.held), _fixed(tallies.leaving), _fixed(tallies.pinned))
    return Standing(tree, empty.kinds, entitled, *tallied, _fixed(demand), oldest, snapshot.world.spent)


def _fixed(tally: dict[str, list[int]]) -> dict[str, Counts]:
    return {account: tuple(counts) for account, counts in tally.items()}


def _kinds(tree: Tree, ledger: Ledger) -> list[int]:
    index = {name: k for k, name in enumerate(tree.kinds)}
    return [index.get(node.gpu_type or "", 0) for node in ledger.nodes[: ledger.own]]


def _tally(tallies: _Tallies, lane: Lane, usage: JobUsage, held: Counts, leaving: Counts) -> None:
    pinned = held if not usage.job.spec.preemptible else (0,) * len(held)
    for tally, counts in zip(tallies, (held, leaving, pinned), strict=True):
        _add(tally, lane.accounts, counts)


def _want(demand: dict[str, list[int]], lane: Lane, wanted: Counts) -> None:
    _add(demand, lane.path, wanted)


def _add(tally: dict[str, list[int]], accounts: Iterable[str], counts: Counts) -> None:
    for account in accounts:
        before = tally.get(account)
        tally[account] = list(counts) if before is None else [a + b for a, b in zip(before, counts, strict=True)]


def _wanted_by_active(standing: Standing, usage: JobUsage, held: Counts, peers: AllPeers) -> Counts:
    """Slots of an active job at the size that it would have if all were free."""
    job = usage.job
    grows = usage.resizable and job.elastic and ((peer := peers.get(job.id)) is None or peer.grows is not None)
    more = max(job.max_workers - len(usage.staying), 0) if grows else 0
    wanted = standing.typed(job.shape.gpu_type, more * job.shape.slots)
    return tuple(a + b for a, b in zip(held, wanted, strict=True))


def _waiting(snapshot: Snapshot, standing: Standing) -> Iterable[tuple[Lane, int, Counts]]:
    """Lane, number of the first job, and slots that they want, of jobs that wait and could start some time."""
    for job_class in snapshot.waiting_jobs.job_classes:
        shape = job_class.shape
        if snapshot.places.feasible(shape).impossible(job_class.min_workers) is None:
            slots = job_class.wanted_workers * shape.slots
            yield job_class.lane, job_class.ranks[0][2], standing.typed(shape.gpu_type, slots)
    for job in snapshot.waiting_jobs.singles.values():
        if job.not_before <= snapshot.order.now:
            yield snapshot.tree.lane_of(job), job.id, counts_of(standing, job, job.max_workers)


def counts_of(standing: Standing, job: Job, workers: int) -> Counts:
    """Slots of so many workers of the job and of its fixed group, by kind."""
    counts = standing.typed(job.shape.gpu_type, workers * job.shape.slots)
    group = job.spec.fixed
    if group is None:
        return counts
    fixed = standing.typed(group.shape.gpu_type, group.replicas * group.shape.slots)
    return tuple(a + b for a, b in zip(counts, fixed, strict=True))


def _entitled(roots: list[Share], divisible: list[float]) -> dict[str, tuple[Entitlement, ...]]:
    """Of all slots, guarantees and what is lent; of one GPU type, guarantees alone."""
    each = [
        entitlements(root, max(slots, 0.0), lends=k == 0)
        for k, (root, slots) in enumerate(zip(roots, divisible, strict=True))
    ]
    return {account: tuple(kind[account] for kind in each) for account in each[0]}
