"""Finds room for a job's fixed group and its other workers at once.

Each fixed worker is placed where it costs the other workers the least room: first on nodes that the others cannot use,
then on few nodes with few slots.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scheduler.model.fixed import FixedGroup
from scheduler.model.job import Job
from scheduler.model.node import Node
from scheduler.model.shape import WorkerShape
from scheduler.policy.capacity.placement import NodeCounts, Places
from scheduler.policy.capacity.resources import Amount, Rows, add, fit_in, fit_in_rows, nano_cpus, needs, row

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Found(NamedTuple):
    """Room for all of the job."""

    #: Placement of the fixed group.
    fixed: NodeCounts
    #: Positions among which the other workers then have room.
    positions: Ints


@dataclass(frozen=True, slots=True)
class GroupRequest:
    """The request of a job with a fixed group: its needs, and the nodes that suit each part."""

    #: Need of each fixed worker, and their number.
    need_fixed: Amount
    replicas: int
    #: Need of each other worker, and how many must start together.
    need: Amount
    count: int
    #: By position: whether it suits a fixed worker.
    suits_fixed: Bools
    #: Positions that suit the other workers, in groups: one job stays within one group.
    groups: tuple[Ints, ...]

    def find(self, room: Rows) -> Found | None:
        """Room for the whole job; None if it does not fit."""
        for positions in self.groups:
            fixed = self._beside(room, positions)
            if fixed is not None:
                return Found(fixed, positions)
        return None

    def rest(self, room: Rows, found: Found) -> Rows:
        """The room left once the job is placed, with its other workers on the roomiest nodes."""
        rest = room.copy()
        for i, count in found.fixed.items():
            rest[i] -= np.array(self.need_fixed) * count
        fit = fit_in_rows(self.need, rest[found.positions])
        roomiest = np.argsort(-fit, kind="stable")
        before = fit[roomiest].cumsum() - fit[roomiest]
        workers = np.clip(self.count - before, 0, fit[roomiest])
        rest[found.positions[roomiest]] -= workers[:, None] * np.array(self.need)
        return rest

    def _beside(self, room: Rows, positions: Ints) -> NodeCounts | None:
        """Place the fixed group so that the other workers still fit at these positions; None if that is impossible."""
        room = room.copy()
        takes = np.where(self.suits_fixed, fit_in_rows(self.need_fixed, room), 0)
        fit = self._fit(room, positions)
        beyond, left = int(fit.sum()) - self.count, self.replicas
        node_counts: NodeCounts = {}
        while left:
            candidates = np.flatnonzero(takes)
            if beyond < 0 or not len(candidates):
                return None
            loss = fit[candidates] - self._fit(room - np.array(self.need_fixed), positions)[candidates]
            elsewhere = np.array([i not in node_counts for i in candidates.tolist()])
            slots = room[candidates, 0]
            i = int(candidates[np.lexsort((candidates, -takes[candidates], slots, elsewhere, loss))[0]])
            count = self._as_cheap(row(room, i), left, of_others=bool(fit[i]))
            room[i] -= np.array(self.need_fixed) * count
            before, takes[i] = int(fit[i]), fit_in(self.need_fixed, row(room, i))
            fit[i] = fit_in(self.need, row(room, i)) if before else 0
            beyond, left = beyond - before + int(fit[i]), left - count
            node_counts[i] = node_counts.get(i, 0) + count
        return node_counts if beyond >= 0 else None

    def _fit(self, room: Rows, positions: Ints) -> Ints:
        """By position: how many of the other workers fit."""
        fit = np.zeros(len(room), np.int64)
        fit[positions] = fit_in_rows(self.need, room[positions])
        return fit

    def _as_cheap(self, amount: Amount, most: int, *, of_others: bool) -> int:
        """Number of fixed workers that the node takes before one costs the other workers more than the first did."""
        most = min(most, fit_in(self.need_fixed, amount))
        if not of_others:
            return most
        amount = add(amount, self.need_fixed, -1)
        fit, count = fit_in(self.need, amount), 1
        while count < most:
            amount = add(amount, self.need_fixed, -1)
            if fit_in(self.need, amount) < fit:
                break
            count += 1
        return count


def group_of_fixed(job: Job) -> FixedGroup:
    """The fixed group of a job that has one."""
    assert job.spec.fixed is not None
    return job.spec.fixed


def request_of(places: Places, job: Job) -> GroupRequest:
    """The job's request, on the nodes that take new workers."""
    group, feasible = group_of_fixed(job), places.feasible(job.shape)
    suits_fixed = places.feasible(group.shape).mask
    groups = tuple(feasible.by_type.values())
    return GroupRequest(needs(group.shape), group.replicas, feasible.need, job.min_workers, suits_fixed, groups)


def fits_empty(nodes: Collection[Node], shape: WorkerShape, count: int, group: FixedGroup) -> bool:
    """Whether these nodes, if empty, would hold `count` workers and the fixed group."""
    nodes = sorted(nodes, key=lambda node: node.name)
    room = np.array([(node.slots, nano_cpus(node.cpus), node.memory_mib) for node in nodes], np.int64).reshape(-1, 3)
    kinds = sorted({node.gpu_type for node in nodes}, key=str)
    groups = tuple(
        np.array([i for i, node in enumerate(nodes) if node.gpu_type == kind and node.suits(shape)], np.int64)
        for kind in kinds
    )
    suits_fixed = np.array([node.suits(group.shape) for node in nodes], np.bool_)
    request = GroupRequest(needs(group.shape), group.replicas, needs(shape), count, suits_fixed, groups)
    return request.find(room) is not None
