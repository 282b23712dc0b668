"""The planner's view of a world, kept from pass to pass and brought up to date by what changed.

A draft changes two parts of it, the ledger and the victim table. Both note their changes in the snapshot's journal.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from scheduler.config import PolicySettings
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job
from scheduler.model.node import Node, NodeIntent
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
        self, world: World, now: float, settings: PolicySettings, seconds: Callable[[], float] = lambda: 0.0
    ) -> None:
        """`seconds`: how long the plan has taken; one that takes long leaves to the next one what may wait."""
        self.world = world
        self.settings = settings
        self.seconds = seconds
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
        self.draining = _draining(world, world.nodes)

    def follow(self, world: World, now: float) -> bool:
        """Bring everything up to date; False if a new snapshot has to be made instead."""
        touched, before = world.touched_since(self.world), self.world
        nodes = _changed_nodes(before, world, touched.nodes if touched is not None else None)
        placed = all(name not in world.nodes or self.ledger.has_place(world.nodes[name]) for name in nodes)
        if now < self.order.now or not placed or before.queues != world.queues:
            return False
        self.world, self.standing, self.order = world, None, Order(now, self.settings)
        job_ids = touched.jobs if touched is not None else None
        anew = self._follow_nodes(nodes)
        changed = anew.union(job_id for job_id, _, _ in _changed(before.active, world.active, job_ids))
        active = [(job_id, world.active.get(job_id)) for job_id in changed]
        names = self._update_usages(chain(((job_id, None) for job_id in anew), active))
        self.peers.update(world, now, active)
        names |= {name for name, _, _ in _changed(before.foreign, world.foreign, None)}
        self.ledger.recount(world, names | nodes)
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

    def _follow_nodes(self, nodes: set[NodeName]) -> set[JobId]:
        """Follow changes of these nodes, and of slots held twice; gives the active jobs that are to be indexed anew."""
        twice = self.ledger.held_twice
        self.ledger.follow_nodes(self.world, nodes)
        names = nodes.union(name for name, _ in twice.items() ^ self.ledger.held_twice.items())
        if nodes:
            self.places = Places(self.world, self.ledger)
            self.draining = (self.draining - nodes) | _draining(self.world, nodes)
            # what jobs want depends on where they could be
            self.tallies = {}
            self.waiting_jobs.forget_demands()
        return {job_id for name in names for job_id in self.usages.on.get(name, ())}

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


def _changed_nodes(before: World, after: World, touched: Iterable[NodeName] | None) -> set[NodeName]:
    """Nodes that came, are gone, or differ in something that decisions depend on."""
    nodes = _changed(before.nodes, after.nodes, touched)
    names = {name for name, old, new in nodes if old is None or new is None or _facts(old) != _facts(new)}
    crowded = _changed(before.crowded, after.crowded, None)
    return names.union(name for name, old, new in crowded if old != new and name in after.nodes)


def _draining(world: World, names: Iterable[NodeName]) -> set[NodeName]:
    """Those of these nodes from which, or from some slots of which, workers are moved."""
    nodes = (world.nodes[name] for name in names if name in world.nodes)
    return {node.name for node in nodes if node.intent is NodeIntent.DRAINING or node.unhealthy_mask}


def _facts(node: Node) -> Node:
    """The node without fields that only the engine uses."""
    kept = replace(node, failures=(), quarantines=0, quarantined_until=None, accepted_faults=())
    return replace(kept, unlisted_since=None, host="", version=0)
