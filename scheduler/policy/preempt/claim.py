"""What a job may take from jobs of other queues: a queue below what it is entitled to takes from those above theirs.

Both are seen below the lowest queue that contains both. The one that takes does not come above what it is entitled to,
and those that lose do not come below theirs, so that nothing is taken back. Up to its guarantee a queue may also stop
jobs of others; beyond, it makes them shrink, and stops them only after a time that a setting says.
"""

import math
from collections.abc import Iterator

import numpy as np

from scheduler.model.job import Job
from scheduler.policy.capacity.resources import Held
from scheduler.policy.draft import Draft
from scheduler.policy.queues.shares import Counts, Shares
from scheduler.policy.queues.tree import Lane
from scheduler.policy.snapshot.taking import Taking
from scheduler.policy.snapshot.victim_table import Bools, Ints, VictimOrder, surplus

#: An account that loses slots, and their kind.
_Loser = tuple[str, int]


class Claim:
    """What one job may take, as the draft stands."""

    def __init__(self, draft: Draft, shares: Shares, job: Job, counts: Counts) -> None:
        """`counts`: the slots by kind that the job gets."""
        self._draft = draft
        self._shares = shares
        self._lane = lane = draft.lane(job)
        self._typed = next((k for k, slots in enumerate(counts) if k and slots), None)
        #: Number of levels that it must share with whom it takes from: for its guarantee, for a guarantee of its GPU
        #: type, and for all that it is entitled to.
        self._guaranteed = shares.depth_within(lane, counts[0], guaranteed=True)
        self._of_type = math.inf
        if self._typed is not None:
            self._of_type = shares.depth_within(lane, counts[self._typed], kind=self._typed, guaranteed=True)
        self._entitled = shares.depth_within(lane, counts[0])
        #: Slots that accounts may still lose.
        self._left: dict[_Loser, float] = {}

    def reservations(self) -> Iterator[Taking]:
        """Reservations of jobs of other queues that it may take over, the last in the queue first."""
        draft = self._draft
        holders = draft.order.queue(map(draft.world.queued.__getitem__, draft.holding))
        for holder in holders[::-1]:
            held = tuple(draft.held_for(holder))
            if self._may_lose(draft.lane(holder), held):
                yield Taking(holder, (), False, held)

    def victims(self, everybody: Ints, useful: Bools, lanes: list[Lane], *, shrinkable: bool) -> VictimOrder:
        """Victims in other queues, those of the queue with most of its entitlement first.

        `everybody` are all records in preemption order; by record, `useful` tells whether the job holds anything that
        helps, and `lanes` has the lane.
        """
        draft, table = self._draft, self._draft.victim_table.table
        parts = {lane: self._part(lane) for lane in set(lanes)}
        by_record = np.array([parts[lane] for lane in lanes], np.float64)
        candidates = everybody[(useful & (by_record > 0.0))[everybody]]
        candidates = candidates[np.argsort(-by_record[candidates], kind="stable")]
        spare, whole = np.zeros(len(candidates), np.int64), np.zeros(len(candidates), np.bool_)
        most = surplus(table)[candidates].tolist()
        for n, k in enumerate(candidates.tolist()):
            victim = draft.victim_table.victim(k)
            each = [taking.freed for taking in victim.takings]
            while spare[n] < most[n] and self._may_lose(lanes[k], each[spare[n]]):
                spare[n] += 1
            if not shrinkable and self._may_stop(victim.job):
                rest = tuple(piece for held in each[spare[n] :] for piece in held)
                whole[n] = self._may_lose(lanes[k], rest)
        gives = (spare > 0) | whole
        order = candidates[gives]
        equal = np.zeros(len(order), np.bool_)
        return VictimOrder(draft.victim_table, order, equal, spare[gives], whole[gives], None, draft.ledger.own)

    def _part(self, lane: Lane) -> float:
        """How much of its entitlement a lane from which the job may take holds; 0: it may not."""
        if not lane.path or lane.own == self._lane.own:
            return 0.0
        depth = lane.shared_levels(self._lane)
        if depth < min(self._entitled, self._guaranteed, self._of_type):
            return 0.0
        return self._shares.part(lane, depth)

    def _may_stop(self, victim: Job) -> bool:
        """Whether it may take all of the victim."""
        depth = self._draft.lane(victim).shared_levels(self._lane)
        if depth >= min(self._guaranteed, self._of_type):
            return True
        after = self._draft.settings.fair_stop_seconds
        if after is None or victim.started_at is None:
            return False
        self._draft.look_at(victim.started_at + after)
        return self._draft.now >= victim.started_at + after

    def _may_lose(self, lane: Lane, held: Held) -> bool:
        """Whether accounts of the lane may lose these amounts, too; if so, they count as lost."""
        if not self._part(lane):
            return False
        counts = self._shares.standing.counts(held)
        losses = dict(self._losses(lane, counts))
        for loser, slots in losses.items():
            left = self._left.get(loser)
            if left is None:
                left = self._left[loser] = self._shares.beyond(*loser)
            if slots > left:
                return False
        for loser, slots in losses.items():
            self._left[loser] -= slots
        return True

    def _losses(self, lane: Lane, counts: Counts) -> Iterator[tuple[_Loser, int]]:
        """Slots by account and kind that such a loss is counted as."""
        depth = lane.shared_levels(self._lane)
        only_typed = self._typed is not None and depth >= self._of_type
        for account in lane.path[depth:]:
            for kind, slots in enumerate(counts):
                if slots and (kind or not only_typed):
                    yield (account, kind), slots
