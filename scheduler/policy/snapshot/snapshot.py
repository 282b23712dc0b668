"""The planner's view of a world, kept from pass to pass and brought up to date by what changed.

A draft changes two parts of it, the ledger and the victim table. Both note their changes in the snapshot's journal.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from scheduler.config import PolicySettings
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job
from scheduler.model.node import Node, NodeIntent
from scheduler.model.trail import Touched
from scheduler.model.world import World
from scheduler.policy.capacity.journal import Journal
from scheduler.policy.capacity.ledger import Ledger
from scheduler.policy.capacity.placement import Places
from scheduler.policy.queues.shares import Standing
from scheduler.policy.queues.tree import Tree
from scheduler.policy.snapshot.order import Order
from scheduler.policy.snapshot.peers import AllPeers
from scheduler.policy.snapshot.tally import Tally
from scheduler.policy.snapshot.usage_index import UsageIndex
from scheduler.policy.snapshot.victim_table import VictimTable
from scheduler.policy.snapshot.waiting_jobs import WaitingJobs

K = TypeVar("K")
V = TypeVar("V")


class Snapshot:
    """Indexes and sums over one world, all of which follow from the world alone."""

    def __init__(
        self, world: World, now: float, settings: PolicySettings, late: Callable[[], bool] = lambda: False
    ) -> None:
        """`late` tells whether the plan has taken a long time: then it leaves to the next one what may wait."""
        self.world = world
        self.settings = settings
        self.late = late
        self.order = Order(now, settings)
        self.tree = Tree(world.queues)
        self._journal = Journal()
        self.ledger = Ledger(world, self._journal)
        self.places = Places(world, self.ledger)
        self.usages = UsageIndex(self.ledger)
        #: Usage of takeable jobs after the draft's takings.
        self.victim_table = VictimTable(len(self.ledger.nodes), self._journal)
        self._update_usages(world.active.items())
        self.peers = AllPeers(settings, self.tree)
        self.peers.update(world, now, world.active.items())
        self.waiting_jobs = WaitingJobs(self.order, self.tree, world.queued.values())
        #: Where queues stand before any decision; None: no draft has asked yet.
        self.standing: Standing | None = None
        #: What active jobs hold and want, as of the last standing.
        self.tallies: Mapping[JobId, Tally] = {}
        #: Nodes from which, or from some slots of which, workers are moved.
        self.draining = {
            node.name for node in world.nodes.values() if node.intent is NodeIntent.DRAINING or node.unhealthy_mask
        }

    def follow(self, world: World, now: float) -> bool:
        """Bring everything up to date; False if a new snapshot has to be made instead."""
        touched = world.touched_since(self.world)
        same_nodes = _same_nodes(self.world, world, touched) and self.world.crowded == world.crowded
        same_slots = same_nodes and self.ledger.held_twice == world.held_twice()
        if now < self.order.now or not same_slots or self.world.queues != world.queues:
            return False
        before, self.world, self.standing = self.world, world, None
        job_ids = touched.jobs if touched is not None else None
        self.order = Order(now, self.settings)
        active = list(_changed(before.active, world.active, job_ids))
        names = self._update_usages((job_id, after) for job_id, _, after in active)
        self.peers.update(world, now, ((job_id, after) for job_id, _, after in active))
        names |= {name for name, _, _ in _changed(before.foreign, world.foreign, None)}
        self.ledger.recount(world, names)
        if self.order.ages:
            self.waiting_jobs = WaitingJobs(self.order, self.tree, world.queued.values())
        else:
            for _, old, new in _changed(before.queued, world.queued, job_ids):
                if old is not None and new is not None:
                    self.waiting_jobs.replace(old, new)
                elif old is not None:
                    self.waiting_jobs.remove(old)
                elif new is not None:
                    self.waiting_jobs.add(new)
            self.waiting_jobs.advance(self.order)
        return True

    def _update_usages(self, jobs: Iterable[tuple[JobId, Job | None]]) -> set[NodeName]:
        """Gives the nodes on which these jobs are, or were."""
        changes = self.usages.update(jobs)
        self.victim_table.update(changes.gone, changes.come, changes.progressed)
        return changes.nodes

    def begin(self) -> None:
        """Record changes of a draft from here on, for `rollback`."""
        self._journal.begin()

    def rollback(self) -> None:
        """Undo the changes of the draft."""
        self._journal.rollback()
        self.places.trim()


def _changed(
    before: Mapping[K, V], after: Mapping[K, V], touched: Iterable[K] | None
) -> Iterator[tuple[K, V | None, V | None]]:
    """(key, old, new) where the values are not the same object; None: there is none."""
    if before is after:
        return
    for key in touched if touched is not None else {**before, **after}:
        old, new = before.get(key), after.get(key)
        if old is not new:
            yield key, old, new


def _same_nodes(before: World, after: World, touched: Touched | None) -> bool:
    """Whether all nodes are equal in everything that decisions depend on."""
    changed = _changed(before.nodes, after.nodes, touched.nodes if touched is not None else None)
    return all(old is not None and new is not None and _facts(old) == _facts(new) for _, old, new in changed)


def _facts(node: Node) -> Node:
    """The node without fields that only the engine uses."""
    kept = replace(node, failures=(), quarantines=0, quarantined_until=None, accepted_faults=())
    return replace(kept, unlisted_since=None, host="", version=0)
