"""All that a job needs to start, in parts that are placed together or not at all: its workers, and its fixed group.

The workers stay on nodes of one group; fixed workers may be anywhere. Each of these is placed where it costs the
workers the least room: first on nodes that they cannot use, then on few nodes with few slots.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scheduler.model.job import Job
from scheduler.model.job_state import WaitReason
from scheduler.model.node import Node
from scheduler.model.shape import WorkerShape
from scheduler.model.world import World
from scheduler.policy.capacity.journal import Journal
from scheduler.policy.capacity.ledger import Ledger, View
from scheduler.policy.capacity.node_kinds import NodeKind
from scheduler.policy.capacity.placement import FeasibleNodes, NodeCounts, Places, Sites
from scheduler.policy.capacity.pools import Group
from scheduler.policy.capacity.resources import (
    NOTHING,
    Amount,
    Headroom,
    Ints,
    Rows,
    add,
    enough,
    fit_in,
    fit_in_rows,
    nano_cpus,
    needs,
    no_rows,
    row,
    stable_order,
)

#: The nodes of each part of a request.
Chosen = tuple[NodeCounts, ...]


class Part(NamedTuple):
    """A number of alike workers, and the nodes that suit them."""

    feasible: FeasibleNodes
    number: int


class Found(NamedTuple):
    """Room for a request."""

    #: Nodes of the fixed group, if there is one.
    fixed: Chosen
    #: The room beside it, and the positions at which the workers fit into that.
    room: Rows
    positions: Ints


class Request(NamedTuple):
    """The parts of one job; the first are the workers that must start together."""

    ledger: Ledger
    workers: Part
    fixed: Part | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        return (self.workers,) if self.fixed is None else (self.workers, self.fixed)

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """By position: whether the node is feasible for any part."""
        mask = self.workers.feasible.mask
        return mask if self.fixed is None else mask | self.fixed.feasible.mask

    @property
    def types(self) -> dict[int, Group]:
        """Groups of nodes that are feasible for any part, by position."""
        types = self.workers.feasible.types
        return types if self.fixed is None else self.fixed.feasible.types | types

    def amounts(self, chosen: Chosen) -> dict[int, Amount]:
        """What the parts take on these nodes, by position."""
        total: dict[int, Amount] = {}
        for part, node_counts in zip(self.parts, chosen, strict=True):
            for i, count in node_counts.items():
                total[i] = add(total.get(i, NOTHING), needs(part.feasible.shape, count))
        return total

    def fits(self, view: View, headroom: Headroom | None = None) -> bool:
        """Whether all parts fit in this view, within `headroom`."""
        feasible, count = self.workers
        if self._hopeless(view, headroom) or feasible.fits(view, headroom).most() < count:
            return False
        return self.fixed is None or self.find(self._room(view, headroom)) is not None

    def place(self, view: View, headroom: Headroom | None = None) -> Chosen | None:
        """The best nodes for all parts in this view, within `headroom`; None if they do not fit."""
        feasible, count = self.workers
        if self._hopeless(view, headroom):
            return None
        if self.fixed is None:
            node_counts = feasible.fits(view, headroom).place(count)
            return None if node_counts is None else (node_counts,)
        found = self.find(self._room(view, headroom))
        if found is None:
            return None
        node_counts = feasible.place_in(found.room, count)
        assert node_counts is not None, "they fit beside the fixed group"
        return (node_counts, *found.fixed)

    def still(self, chosen: Chosen, view: View) -> bool:
        """Whether these nodes are what the job needs, and available in this view."""
        for (feasible, count), node_counts in zip(self.parts, chosen, strict=True):
            if sum(node_counts.values()) != count or not feasible.types.keys() >= node_counts.keys():
                return False
        taken: dict[int, Amount] = {}
        for i, amount in self.amounts(chosen).items():
            for k, part in self.ledger.spread(i, amount):
                taken[k] = add(taken.get(k, NOTHING), part)
        types = self.workers.feasible.types
        return len({types[i] for i in chosen[0]}) == 1 and all(
            enough(add(self.ledger.available(k, view), amount, -1), amount) for k, amount in taken.items()
        )

    def fit(self, positions: Ints, rows: Rows) -> Ints:
        """Number of workers that fit at each of these positions.

        With a fixed group: in how many ways fixed workers and workers can share the node. The number grows whenever one
        more of either fits. It is to be compared, and is no number of workers.
        """
        (feasible, _), fixed = self.workers, self.fixed
        if fixed is None:
            return fit_in_rows(feasible.need, rows)
        mixtures = np.zeros(len(rows), np.int64)
        possible = np.ones(len(rows), np.bool_)
        for _ in range(fixed.number + 1):
            mixtures += possible * (1 + feasible.mask[positions] * fit_in_rows(feasible.need, rows))
            possible &= fixed.feasible.mask[positions] & (fit_in_rows(fixed.feasible.need, rows) > 0)
            if not possible.any():
                break
            rows = rows - np.array(fixed.feasible.need)
        return mixtures

    def find(self, room: Rows) -> Found | None:
        """Where all parts fit into this room, a row per position; None if they do not."""
        feasible, count = self.workers
        fit = fit_in_rows(feasible.need, room)
        for positions in feasible.by_type.values():
            if fit[positions].sum() < count:
                continue
            found = self._beside(room, positions)
            if found is not None:
                return found
        return None

    def needs_within(self, room: Rows) -> Rows:
        """What one worker of each part needs at each position at which it may be if the job has this room; a row each.

        Zero elsewhere, so at all positions of a group in which the job does not fit.
        """
        (feasible, count), fixed = self.workers, self.fixed
        fit, suits = fit_in_rows(feasible.need, room), np.zeros(len(room), np.bool_)
        for positions in feasible.by_type.values():
            if fit[positions].sum() >= count and self._beside(room, positions) is not None:
                suits[positions] = fit[positions] > 0
        needed = no_rows(len(room))
        needed[suits] = feasible.need
        if fixed is not None and suits.any():
            suits = fixed.feasible.mask & (fit_in_rows(fixed.feasible.need, room) > 0)
            needed[suits] += fixed.feasible.need
        return needed

    def rest(self, found: Found) -> Rows:
        """The room left once the job is placed, with its workers on the roomiest nodes, so that it takes few."""
        feasible, count = self.workers
        fit = fit_in_rows(feasible.need, found.room[found.positions])
        roomiest = stable_order(-fit)
        before = fit[roomiest].cumsum() - fit[roomiest]
        used = roomiest[: before.searchsorted(count)]
        taken = np.minimum(count - before[: len(used)], fit[used])
        rest = found.room.copy(order="K")
        rest[found.positions[used]] -= taken[:, None] * np.array(feasible.need)
        return rest

    def _hopeless(self, view: View, headroom: Headroom | None) -> bool:
        """Whether the workers would not even fit if no headroom bounded them.

        That is known for all jobs of this shape, while what fits within a headroom is counted for each of these.
        """
        feasible, count = self.workers
        return headroom is not None and feasible.fits(view).most() < count

    def _room(self, view: View, headroom: Headroom | None) -> Rows:
        rows = self.ledger.rows_at(slice(None), view)
        return rows if headroom is None else headroom.within(rows)

    def _beside(self, room: Rows, positions: Ints) -> Found | None:
        """Place the fixed group so that the workers still fit at these positions; None if that is impossible."""
        if self.fixed is None:
            return Found((), room, positions)
        room, need, (feasible, left) = room.copy(order="K"), self.workers.feasible.need, self.fixed
        takes = np.where(feasible.mask, fit_in_rows(feasible.need, room), 0)
        fit = self._workers_at(room, positions)
        node_counts: NodeCounts = {}
        while left:
            candidates = np.flatnonzero(takes)
            if not len(candidates):
                return None
            loss = fit[candidates] - self._workers_at(room - np.array(feasible.need), positions)[candidates]
            elsewhere = np.array([i not in node_counts for i in candidates.tolist()])
            slots = room[candidates, 0]
            i = int(candidates[np.lexsort((candidates, -takes[candidates], slots, elsewhere, loss))[0]])
            count = min(left, int(takes[i]))
            if fit[i]:
                count = self._as_cheap(row(room, i), count)
            for k, amount in self.ledger.spread(i, needs(feasible.shape, count)):
                room[k] -= amount
                takes[k] = fit_in(feasible.need, row(room, k)) if takes[k] else 0
                fit[k] = fit_in(need, row(room, k)) if fit[k] else 0
            node_counts[i] = node_counts.get(i, 0) + count
            left -= count
            if fit.sum() < self.workers.number:
                return None
        return Found((node_counts,), room, positions)

    def _workers_at(self, room: Rows, positions: Ints) -> Ints:
        """By position: how many of the workers fit."""
        fit = np.zeros(len(room), np.int64)
        fit[positions] = fit_in_rows(self.workers.feasible.need, room[positions])
        return fit

    def _as_cheap(self, amount: Amount, most: int) -> int:
        """Number of fixed workers that the node takes before one costs the workers more than the first did."""
        assert self.fixed is not None
        taken = np.arange(1, most + 1)[:, None] * np.array(self.fixed.feasible.need)
        fit = fit_in_rows(self.workers.feasible.need, np.array(amount) - taken)
        return int(np.count_nonzero(fit == fit[0]))


def gains(fit: Callable[[Ints, Rows], Ints], rows: Rows, where: Ints, frees: Rows) -> Ints:
    """By piece: how much the fit of its node grows once the amount is free, after the pieces before it.

    `fit` gives the fit of nodes at these positions with these amounts; `rows` is what is free before, a row per
    position.
    """
    order = stable_order(where)
    where, frees = where[order], frees[order]
    begins = begins_of(where)
    first = np.flatnonzero(begins)
    freed = frees.cumsum(axis=0)
    freed -= (freed - frees)[first][begins.cumsum() - 1]
    after = fit(where, rows.take(where, 0) + freed)
    before = np.roll(after, 1)
    before[first] = fit(where[first], rows.take(where[first], 0))
    gained = np.empty_like(after)
    gained[order] = after - before
    return gained


def begins_of(where: Ints) -> npt.NDArray[np.bool_]:
    """Whether each piece is the first of its node, of pieces by node."""
    begins = np.ones(len(where), np.bool_)
    begins[1:] = where[1:] != where[:-1]
    return begins


def request_of(ledger: Ledger, places: Places, job: Job) -> Request:
    """The job's request, on the nodes that take new workers."""
    workers, group = Part(places.feasible(job.shape), job.min_workers), job.spec.fixed
    return Request(ledger, workers, None if group is None else Part(places.feasible(group.shape), group.replicas))


def impossible(request: Request, nodes: Collection[Node]) -> WaitReason | None:
    """Why no plan can start the job on these nodes, of which some may take no workers; None if one could."""
    (feasible, count), fixed = request.workers, request.fixed
    if fixed is None:
        return feasible.impossible(count)
    wanted = [(part.feasible.shape, part.number) for part in request.parts]
    if fits_empty([node.reduced() for node in nodes if node.schedulable], *wanted):
        return None
    if fits_empty(nodes, *wanted):
        return WaitReason.NODES_UNAVAILABLE
    matched = feasible.matched and fixed.feasible.matched
    return WaitReason.EXCEEDS_CLUSTER if matched else WaitReason.NO_MATCHING_NODE


def fits_empty(nodes: Collection[Node], *wanted: tuple[WorkerShape, int]) -> bool:
    """Whether these nodes, if empty, would hold all parts at once, of which each is a shape and a number of workers."""
    nodes = sorted(nodes, key=lambda node: node.name)
    nowhere = Ledger(World(), Journal())

    def part(shape: WorkerShape, count: int) -> Part:
        suiting = [(i, node) for i, node in enumerate(nodes) if node.suits(shape)]
        kinds = [NodeKind(node, node, False, node.slots, node.slots, 1, [i]) for i, node in suiting]
        return Part(FeasibleNodes(shape, nowhere, kinds, Sites(kinds, len(nodes))), count)

    room = np.array([(node.slots, nano_cpus(node.cpus), node.memory_mib) for node in nodes], np.int64).reshape(-1, 3)
    return Request(nowhere, *(part(*each) for each in wanted)).find(room) is not None
