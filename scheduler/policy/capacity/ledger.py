"""Free capacity of each node: kept from pass to pass, and changed on trial while a plan is made.

Each node has three amounts: *free* now, *coming* (held by workers that are leaving), and *held* for waiting jobs. The
views that decisions use follow from them:

    free   in use by nobody
    open   usable now without touching a reservation: min(free, free + coming - held)
    soon   usable once the leaving workers are gone: free + coming - held

Every node has a position, and one that takes no new workers has nothing there: it keeps its place for the time when it
does. Positions follow the names of nodes, so that every choice ends in a fixed tie-break; behind them come the shared
halves of oversold nodes (`scheduler.policy.capacity.pools`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import chain

import numpy as np
import numpy.typing as npt

from scheduler.model.foreign import NO_FOREIGN, ForeignUse
from scheduler.model.ids import NodeName, WorkerId
from scheduler.model.job import Placement
from scheduler.model.node import Node
from scheduler.model.node_usage import NO_USAGE, NodeUsage, without_slots
from scheduler.model.shape import WorkerShape
from scheduler.model.stray import Stray
from scheduler.model.worker import Worker
from scheduler.model.world import World
from scheduler.policy.capacity.journal import Journal
from scheduler.policy.capacity.pools import half, shareable, shared_half
from scheduler.policy.capacity.resources import (
    NOTHING,
    UNBOUNDED,
    Amount,
    Headroom,
    Held,
    Rows,
    add,
    amount_of,
    foreign_amount,
    least,
    nano_cpus,
    needs,
    no_rows,
)

#: The log is cleared once it is longer than this; see `Places.trim`.
LOG_MAX = 50_000


class View(StrEnum):
    """What counts as available; see the module's docstring."""

    FREE = "FREE"
    OPEN = "OPEN"
    SOON = "SOON"


class Ledger:
    """Free, coming and held capacity of the nodes that take new workers."""

    def __init__(self, world: World, journal: Journal) -> None:
        self._journal = journal
        #: Slots by node that are freed by nobody's end; see `World.held_twice`.
        self.held_twice: dict[NodeName, int] = {}
        own = sorted(world.nodes.values(), key=lambda n: n.name)
        #: By position; without slots where it takes no new workers.
        self.nodes: list[Node] = [*own, *(shared_half(node) for node in own if node.extra_slots)]
        #: Number of positions that are own halves; the rest are shared halves.
        self.own = len(own)
        self._places: dict[NodeName, int] = {node.name: i for i, node in enumerate(self.nodes)}
        #: Positions of nodes that take new workers.
        self.position: dict[NodeName, int] = {}
        #: Position of the other half, for each half of an oversold node that takes new workers.
        self._twin: dict[int, int] = {}
        #: Positions whose numbers changed, in order; readers remember how far they have read.
        self.log: list[int] = []
        self._free: dict[int, Amount] = dict.fromkeys(range(len(self.nodes)), NOTHING)
        self._coming: dict[int, Amount] = {}
        self._held: dict[int, Amount] = {}
        #: Positions where something is free, coming or held: elsewhere every view is empty.
        self.occupied: set[int] = set()
        #: Strays, and what each of them frees once it has ended: nothing if it may go on.
        self._strays: dict[WorkerId, tuple[Stray, Held]] = {}
        #: What the nodes would offer to workers if they held none, a row per position.
        self.empty: Rows = no_rows(len(self.nodes))
        self.follow_nodes(world, world.nodes)
        self.recount(world, world.nodes)
        #: Free and soon amounts of all nodes, as far as the log was read.
        self._rows: dict[View, Rows] = {view: no_rows(len(self.nodes)) for view in (View.FREE, View.SOON)}
        self._rows_read = 0

    @property
    def oversold(self) -> bool:
        """Whether any node has slots to share."""
        return bool(self._twin)

    @property
    def plain(self) -> bool:
        """Whether nothing is coming or held, so that all views are the same."""
        return not self._coming and not self._held

    def available(self, i: int, view: View) -> Amount:
        """The amount that node `i` offers in this view; negative where the node is over-committed."""
        free = self._free[i]
        if view is View.FREE or (i not in self._coming and i not in self._held):
            return free
        soon = add(add(free, self._coming.get(i, NOTHING)), self._held.get(i, NOTHING), -1)
        return soon if view is View.SOON else least(free, soon)

    def soon(self) -> Rows:
        """A copy of the soon amounts of all nodes, a row per position."""
        return self.rows_at(slice(None), View.SOON)

    def rows_at(self, positions: npt.NDArray[np.int64] | slice, view: View) -> Rows:
        """A copy of the amounts at these positions in this view, a row each."""
        self._follow()
        if view is View.OPEN:
            return np.minimum(self._rows[View.FREE][positions], self._rows[View.SOON][positions])
        return np.array(self._rows[view][positions])

    def take(self, i: int, shape: WorkerShape, count: int) -> None:
        """Use free capacity for `count` workers; a negative count gives it back."""
        for k, amount in self.spread(i, needs(shape, count)):
            self._put(self._free, k, add(self._free[k], amount, -1))

    def where(self, holder: Worker | Stray) -> int | None:
        """Position of the half on which the worker or stray holds slots."""
        i = self.position.get(holder.node)
        return self._twin.get(i) if holder.shared and i is not None else i

    def held_by(self, holder: Worker | Stray) -> Held:
        """Amounts that the end of a worker or stray frees: slots of its half, CPUs and memory of both halves."""
        own = self.position.get(holder.node)
        if own is None:
            return ()
        if holder.node in self.held_twice:
            holder = without_slots(holder, self.held_twice[holder.node])
        amount = amount_of(holder, self.nodes[own])
        i = self._twin.get(own) if holder.shared else own
        if i is None:  # it shares slots of a node that is oversold no more
            return ((own, (0, *amount[1:])),)
        return self.spread(i, amount)

    def held_by_each(self, workers: Iterable[Worker]) -> tuple[Held, ...]:
        """Amounts that each worker holds; neighbours of one job mostly hold equal amounts on one node."""
        each: list[Held] = []
        like: Worker | None = None
        held: Held = ()
        end = 0
        for worker in workers:
            slots = worker.slot_ids
            if like is None or not _alike(worker, like) or (slots and max(slots) >= end):
                like, held, end = worker, self.held_by(worker), self._slots_like(worker)
            each.append(held)
        return tuple(each)

    def _slots_like(self, worker: Worker) -> int:
        """Slot number below which alike workers hold the amount of this one; 0: it says nothing about others."""
        own = self.position.get(worker.node)
        if own is None or worker.node in self.held_twice:
            return 0
        node = self.nodes[own]
        slots = min(node.slots, *(each.slot for each in node.closed_slots)) if node.closed_slots else node.slots
        return slots if max(worker.slot_ids, default=-1) < slots else 0

    def spread(self, i: int, amount: Amount) -> Held:
        """The amount on one half, and the CPUs and memory that this takes from the other."""
        twin = self._twin.get(i)
        if twin is None or not (amount[1] or amount[2]):
            return ((i, amount),)
        return ((i, amount), (twin, (0, *amount[1:])))

    def headroom(self, rest: Rows, need: Rows) -> Headroom:
        """The headroom beside a blocked job that leaves `rest`, and needs so much at least; a row per position.

        Resources that the job does not need there are unbounded. On the other half of an oversold node, CPUs and memory
        are bounded.
        """
        rest = np.where(need > 0, rest, UNBOUNDED)
        suits = np.logical_or.reduce([need[:, resource] > 0 for resource in range(3)])
        bounded = suits.copy()
        for both in (np.array([i, twin]) for i, twin in self._twin.items() if i < twin):
            rest[both, 1:] = rest[both, 1:].min(axis=0)
            rest[both[~suits[both]], 0] = UNBOUNDED
            bounded[both] = suits[both].any()
        return Headroom(rest, bounded, self.spread)

    def come(self, i: int, amount: Amount, sign: int = 1) -> None:
        """Add an amount that is being freed on node `i`; with sign -1, subtract it."""
        self._put(self._coming, i, add(self._coming.get(i, NOTHING), amount, sign))

    def hold(self, placement: Placement, shape: WorkerShape, sign: int = 1) -> None:
        """Hold capacity for a waiting job; with sign -1, stop holding it."""
        for name, count in placement:
            i = self.position.get(name)
            for k, amount in self.spread(i, needs(shape, count)) if i is not None else ():
                self._put(self._held, k, add(self._held.get(k, NOTHING), amount, sign))

    def clear_log(self) -> None:
        """Forget the log, once every reader has read it."""
        self._follow()
        self.log.clear()
        self._rows_read = 0

    def has_place(self, node: Node) -> bool:
        """Whether the node can be followed: it has a position, and so has its shared half if it is oversold."""
        return node.name in self._places and (not node.extra_slots or half(node.name, True) in self._places)

    def follow_nodes(self, world: World, names: Iterable[NodeName]) -> None:
        """Let these nodes, each of which is gone or `has_place`, be as they are in the world; a recount has to follow.

        What workers hold there, and where other slots are held twice than before, is to be asked anew.
        """
        self.held_twice = world.held_twice()
        for name in names:
            node, i, k = world.nodes.get(name), self._places[name], self._places.get(half(name, True))
            if node is not None and not node.schedulable:
                node = None
            self._seat(i, node)
            if k is not None:
                shares = node is not None and node.extra_slots > 0
                self._seat(k, shared_half(node) if node is not None and shares else None)
                self._twin |= {i: k, k: i}
                if not shares:
                    del self._twin[i], self._twin[k]

    def _seat(self, i: int, node: Node | None) -> None:
        """Let this half of a node take new workers at its position; None: none takes any there."""
        if node is not None:
            self.nodes[i] = node
            self.position[node.name] = i
        else:
            self.nodes[i] = replace(self.nodes[i], slots=0)
            self.position.pop(self.nodes[i].name, None)
            self.empty[i] = 0
            self._put(self._free, i, NOTHING)

    def recount(self, world: World, names: Iterable[NodeName]) -> None:
        """Recount what workers and strays hold on these nodes, and on nodes that strays came to or left."""
        freed = {stray.id: self.held_by(stray) for stray in world.releasing_strays()}
        strays = {key: (stray, freed.get(key, ())) for key, stray in world.strays.items()}
        moved: set[NodeName] = set()
        if strays != self._strays:
            for known, sign in ((self._strays, -1), (strays, 1)):
                for stray, held in known.values():
                    moved.add(stray.node)
                    for i, amount in held:
                        self.come(i, amount, sign)
            self._strays = strays
        with_strays = {stray.node for stray in world.strays.values()}
        for name in moved.union(names):
            if name in self.position:
                used = world.used(name) if name in with_strays else world.usage.get(name, NO_USAGE)
                i = self.position[name]
                foreign = world.foreign.get(name, NO_FOREIGN)
                self._put(self._free, i, left_of(self.nodes[i], used, foreign))
                self.empty[i] = left_of_empty(self.nodes[i], world)
                if i in self._twin:
                    k, crowded = self._twin[i], world.crowded.get(name, ())
                    self._put(self._free, k, left_to_share(self.nodes[i], used, foreign, crowded))
                    self.empty[k] = left_to_share(self.nodes[i], NO_USAGE, foreign, crowded)

    def _follow(self) -> None:
        if self._rows_read < len(self.log):
            changed = list(set(self.log[self._rows_read :]))
            free, coming, held = (_rows_of(numbers, changed) for numbers in (self._free, self._coming, self._held))
            self._rows[View.FREE][changed] = free
            self._rows[View.SOON][changed] = free + coming - held
            self._rows_read = len(self.log)

    def _put(self, numbers: dict[int, Amount], i: int, amount: Amount) -> None:
        self._journal.note(self._set, numbers, i, numbers.get(i, NOTHING))
        self._set(numbers, i, amount)

    def _set(self, numbers: dict[int, Amount], i: int, amount: Amount) -> None:
        if amount == NOTHING and numbers is not self._free:
            numbers.pop(i, None)
        else:
            numbers[i] = amount
        if i in self._coming or i in self._held or self._free[i][0] > 0:
            self.occupied.add(i)
        else:
            self.occupied.discard(i)
        self.log.append(i)


def _rows_of(numbers: Mapping[int, Amount], positions: Sequence[int]) -> Rows:
    """The amounts at these positions, a row each; nothing where none is known."""
    amounts = chain.from_iterable([numbers.get(i, NOTHING) for i in positions])
    return np.fromiter(amounts, np.int64, 3 * len(positions)).reshape(-1, 3)


def _alike(a: Worker, b: Worker) -> bool:
    """Whether both hold the same amount on one node, provided that the node has all their slots."""
    return (
        a.node == b.node
        and len(a.slot_ids) == len(b.slot_ids)
        and a.cpus == b.cpus
        and a.memory_mib == b.memory_mib
        and a.shared is b.shared
    )


def left_of(node: Node, used: NodeUsage, foreign: ForeignUse) -> Amount:
    """The amount that workers, foreign processes and closed slots leave on the node."""
    slots = node.slots - ((used.slot_mask | node.closed_mask) & ((1 << node.slots) - 1)).bit_count()
    left = (slots, nano_cpus(node.cpus) - nano_cpus(used.cpus), node.memory_mib - used.memory_mib)
    return left if foreign is NO_FOREIGN else add(left, foreign_amount(foreign), -1)


def left_of_empty(node: Node, world: World) -> Amount:
    """The amount that the node has for workers when it holds none: all but closed slots and foreign use."""
    return left_of(node, NO_USAGE, world.foreign.get(node.name, NO_FOREIGN))


def left_to_share(node: Node, used: NodeUsage, foreign: ForeignUse, crowded: Collection[int]) -> Amount:
    """The amount left on the node's shared half while these of its slots are crowded."""
    _, cpus, memory = left_of(node, used, foreign)
    return (shareable(node, crowded) - used.slots_shared, cpus, memory)
