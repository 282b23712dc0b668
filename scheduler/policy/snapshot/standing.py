"""Where the accounts of queues stand at the start of a pass: what their jobs hold and want, and what is divided."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np

from scheduler.config import PolicySettings
from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.queue_tree import closed_queues
from scheduler.model.world import World
from scheduler.policy.capacity.ledger import Ledger
from scheduler.policy.capacity.placement import Places
from scheduler.policy.queues.division import divided_among
from scheduler.policy.queues.shares import Counts, Standing, add_to
from scheduler.policy.queues.tree import TOP, Lane, Tree
from scheduler.policy.snapshot.order import Order
from scheduler.policy.snapshot.peers import AllPeers
from scheduler.policy.snapshot.tally import Tally
from scheduler.policy.snapshot.usage import JobUsage
from scheduler.policy.snapshot.usage_index import UsageIndex
from scheduler.policy.snapshot.waiting_jobs import Demand, JobClass, WaitingJobs


class Seen(Protocol):
    """What a snapshot knows."""

    @property
    def world(self) -> World: ...
    @property
    def settings(self) -> PolicySettings: ...
    @property
    def order(self) -> Order: ...
    @property
    def tree(self) -> Tree: ...
    @property
    def ledger(self) -> Ledger: ...
    @property
    def places(self) -> Places: ...
    @property
    def usages(self) -> UsageIndex: ...
    @property
    def peers(self) -> AllPeers: ...
    @property
    def waiting_jobs(self) -> WaitingJobs: ...

    tallies: Mapping[JobId, Tally]


def standing_of(snapshot: Seen) -> Standing:
    """The standing before any decision of a pass; the world of the snapshot has queues."""
    tree, ledger = snapshot.tree, snapshot.ledger
    empty = Standing(tree, _kinds(tree, ledger))
    held, leaving, pinned = dict[Lane, Counts](), dict[Lane, Counts](), dict[Lane, Counts]()
    closed = closed_queues(snapshot.world.queues, snapshot.world.spent)
    wanted_by: dict[Lane, Counts] = {}
    first: dict[Lane, int] = {}
    oldest: dict[str, int] = {}
    divisible = [float(count) for count in empty.counts(enumerate(map(tuple, ledger.soon().tolist())))]
    snapshot.tallies = {job_id: _tally(snapshot, empty, job_id) for job_id in snapshot.world.active}
    for job_id, tally in snapshot.tallies.items():
        lane = tally.lane
        if lane is not TOP:
            first[lane] = min(first.get(lane, job_id), job_id)
            add_to(held, (lane,), tally.held)
            if any(tally.leaving):
                add_to(leaving, (lane,), tally.leaving)
            if any(tally.pinned):
                add_to(pinned, (lane,), tally.pinned)
            add_to(wanted_by, (lane,), tally.held if lane.inside(closed) else tally.wanted)
            divisible = [slots + more for slots, more in zip(divisible, tally.held, strict=True)]
    for lane, number, wanted in _waiting(snapshot, empty):
        if lane is TOP:
            divisible = [slots - less for slots, less in zip(divisible, wanted, strict=True)]
        elif not lane.inside(closed):
            first[lane] = min(first.get(lane, number), number)
            oldest[lane.own] = min(oldest.get(lane.own, number), number)
            add_to(wanted_by, (lane,), wanted)
    divisible = [slots + more for slots, more in zip(divisible, _overfull(snapshot, empty), strict=True)]
    demand, used, held_in = _demand(wanted_by), _used(snapshot), _by_account(held)
    return replace(
        empty,
        entitled=divided_among(tree, first, demand, held_in, used, divisible),
        held=held_in,
        leaving=_by_account(leaving),
        pinned=_by_account(pinned),
        divisible=divisible,
        wanted=demand,
        elsewhere=_elsewhere(snapshot, empty),
        used=used,
        oldest=oldest,
        closed=closed,
    )


def _by_account(by_lane: Mapping[Lane, Counts]) -> dict[str, Counts]:
    """Slots of lanes, for each account that counts them."""
    found: dict[str, Counts] = {}
    for lane, counts in by_lane.items():
        add_to(found, lane.accounts, counts)
    return found


def _overfull(snapshot: Seen, standing: Standing) -> Counts:
    """Slots by which foreign processes, closed slots and jobs above all queues exceed nodes: other nodes owe none."""
    soon, tree, over = snapshot.ledger.soon()[:, 0], snapshot.tree, dict[int, int]()
    for i in np.flatnonzero(soon[: len(standing.kinds)] < 0).tolist():
        name, held = snapshot.ledger.nodes[i].name, 0
        for usage in map(snapshot.usages.__getitem__, snapshot.usages.on.get(name, ())):
            if tree.lane_of(usage.job) is not TOP:
                held += sum(slots for at, (slots, _, _) in usage.held if at == i)
        over[i] = max(-int(soon[i]) - held, 0)
    return standing.counts((i, (slots, 0, 0)) for i, slots in over.items())


def _used(snapshot: Seen) -> dict[str, float]:
    """Decayed slot-seconds of each account in relation to its weight; none where usage is forgotten at once."""
    half_life_seconds, now = snapshot.settings.usage_half_life_seconds, snapshot.order.now
    if not half_life_seconds:
        return {}
    return {
        account: usage.now(now, half_life_seconds) / snapshot.tree.weight(account)
        for account, usage in snapshot.world.queue_usage.items()
    }


def _kinds(tree: Tree, ledger: Ledger) -> list[int]:
    index = {name: k for k, name in enumerate(tree.kinds)}
    return [index.get(node.gpu_type or "", 0) for node in ledger.nodes[: ledger.own]]


def _tally(snapshot: Seen, standing: Standing, job_id: JobId) -> Tally:
    """What the job holds and wants; as it was known where nothing changed."""
    usage, peer, known = snapshot.usages[job_id], snapshot.peers.get(job_id), snapshot.tallies.get(job_id)
    if known is not None and known.usage is usage and known.peer is peer:
        return known
    held = standing.counts(usage.held)
    leaving, pinned = standing.counts(usage.leaving), standing.counts(usage.kept)
    wanted = _wanted_by_active(snapshot, standing, usage, held)
    return Tally(usage, peer, snapshot.tree.lane_of(usage.job), held, leaving, pinned, wanted)


def _elsewhere(snapshot: Seen, standing: Standing) -> dict[str, Counts]:
    """Slots that workers hold where they are not divided: on nodes that take no new workers, and closed ones."""
    world, found = snapshot.world, dict[str, Counts]()
    names = (name for name, node in world.nodes.items() if not node.schedulable or node.closed_slots)
    for job_id in {job_id for name in names for job_id in snapshot.usages.on.get(name, ())}:
        usage = snapshot.usages[job_id]
        lane, divided = snapshot.tree.lane_of(usage.job), standing.counts((*usage.held, *usage.leaving))
        add_to(found, lane.accounts, divided, -1)
        for worker in usage.job.all_workers:
            gpu_type = world.nodes[worker.node].gpu_type if worker.node in world.nodes else None
            if not worker.shared:
                add_to(found, lane.accounts, standing.typed(gpu_type, len(worker.slot_ids)))
    return found


def _demand(wanted_by: Mapping[Lane, Counts]) -> dict[str, Counts]:
    """Slots by account that jobs want, as far as limits for each user let them have any."""
    demand: dict[str, Counts] = {}
    for lane, wanted in wanted_by.items():
        limits = [limit.slots for limit in lane.limits if limit.of_user]
        add_to(demand, lane.path, tuple(min(slots, *limits) if limits else slots for slots in wanted))
    return demand


def _wanted_by_active(snapshot: Seen, standing: Standing, usage: JobUsage, held: Counts) -> Counts:
    """Slots of an active job at the size that it would have if all were free."""
    job, peer = usage.job, snapshot.peers.get(usage.job.id)
    more = 0
    if usage.resizable and job.elastic and (peer is None or peer.grows is not None):
        most = min(job.max_workers, snapshot.places.feasible(job.shape).most_ready)
        more = max(most - len(usage.staying), 0)
    wanted = standing.typed(job.shape.gpu_type, more * job.shape.slots)
    return tuple(a + b for a, b in zip(held, wanted, strict=True))


def _waiting(snapshot: Seen, standing: Standing) -> Iterable[tuple[Lane, int, Counts]]:
    """Lane, number of the first job, and slots that they want, of jobs that wait and could start some time.

    Those do not count that empty nodes would not hold, or that rules of their queues never let start, and of the others
    no more than empty nodes would hold: nobody has to leave room for what no job can have.
    """
    places = snapshot.places
    for lane, waiting in snapshot.waiting_jobs.lanes.items():
        if waiting.demand is None:
            waiting.demand = _demand_of(lane, waiting.job_classes.values(), places, standing)
        if waiting.demand.first is not None:
            yield lane, waiting.demand.first, waiting.demand.slots
    for job in snapshot.waiting_jobs.singles.values():
        lane, group, most = snapshot.tree.lane_of(job), job.spec.fixed, places.feasible(job.shape).most_ready
        fits = job.min_workers <= most and (group is None or places.feasible(group.shape).most_ready > 0)
        needed = counts_of(standing, job, job.min_workers)
        never = not fits or _never(standing.tree, lane, needed, preemptible=job.spec.preemptible)
        if job.not_before <= snapshot.order.now and not never:
            yield lane, job.id, counts_of(standing, job, min(job.max_workers, most))


def _demand_of(lane: Lane, job_classes: Iterable[JobClass], places: Places, standing: Standing) -> Demand:
    """What jobs of these classes of a lane want that could start some time."""
    first: list[JobId] = []
    total = standing.typed(None, 0)
    for job_class in job_classes:
        minimum, shape = job_class.minimum, job_class.minimum.shape
        needed = standing.typed(shape.gpu_type, minimum.slots)
        most = places.feasible(shape).most_ready
        if minimum.workers <= most and not _never(standing.tree, lane, needed, preemptible=job_class.preemptible):
            first.append(job_class.ranks[0][2])
            wanted = standing.typed(shape.gpu_type, job_class.wanted_workers(most) * shape.slots)
            total = tuple(a + b for a, b in zip(total, wanted, strict=True))
    return Demand(min(first, default=None), total)


def _never(tree: Tree, lane: Lane, needed: Counts, *, preemptible: bool) -> bool:
    """Whether rules of its queues never let a job that needs these slots start, whatever others give up."""
    if lane is TOP:
        return False
    above_limit = any(needed[limit.kind] > limit.slots for limit in lane.limits)
    return above_limit or not (preemptible or tree.may_guarantee(lane, needed))


def counts_of(standing: Standing, job: Job, workers: int) -> Counts:
    """Slots of this many workers of the job and of its fixed group, by kind."""
    counts = standing.typed(job.shape.gpu_type, workers * job.shape.slots)
    group = job.spec.fixed
    if group is None:
        return counts
    fixed = standing.typed(group.shape.gpu_type, group.replicas * group.shape.slots)
    return tuple(a + b for a, b in zip(counts, fixed, strict=True))
