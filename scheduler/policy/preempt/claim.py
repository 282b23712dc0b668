"""What a job may take from jobs of other queues: a queue below what it is entitled to takes from those above theirs.

Both are seen below the lowest queue that contains both. The one that takes does not come above what it is entitled to,
and those that lose do not come below theirs, so that nothing is taken back. Up to its guarantee a queue may also stop
jobs of others; beyond, it makes them shrink, and stops them only after a time that a setting says.
"""

from collections.abc import Iterator

import numpy as np

from scheduler.model.job import Job
from scheduler.policy.capacity.pools import reserved
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
        levels = range(len(lane.path))
        #: By number of levels that it shares with whom it takes from: whether its account there stays inside its
        #: guarantee, or inside that of the GPU type; what is inside a guarantee is divided below it as anything is.
        self._guaranteed = [shares.within(lane.path[d], counts[0], guaranteed=True) for d in levels]
        self._of_type = [self._typed is not None and self._within_type(d, counts) for d in levels]
        #: Number of levels that it must share for all accounts below them to stay inside what they are entitled to.
        self._entitled = shares.depth_within(lane, counts[0])
        #: Slots that accounts may still lose.
        self._left: dict[_Loser, float] = {}

    def _within_type(self, depth: int, counts: Counts) -> bool:
        """Whether the account at this depth stays inside its guarantee of the type, and those below inside theirs."""
        shares, path, kind = self._shares, self._lane.path, self._typed
        assert kind is not None, "only jobs that ask for a type that a queue names"
        inner = all(
            shares.within(account, counts[kind], kind=kind, guaranteed=True) or shares.within(account, counts[0])
            for account in path[depth + 1 :]
        )
        return inner and shares.within(path[depth], counts[kind], kind=kind, guaranteed=True)

    def reservations(self) -> Iterator[Taking]:
        """Reservations of jobs of other queues that it may take over, the last in the queue first.

        None that this draft made: who leaves for them does so for that job alone.
        """
        draft = self._draft
        holders = draft.order.queue(map(draft.world.queued.__getitem__, draft.holding))
        for holder in holders[::-1]:
            if reserved(holder) != draft.holding[holder.id]:
                continue
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
        if depth < self._entitled and not self._of_type[depth]:
            return 0.0
        return self._shares.part(lane, depth)

    def _may_stop(self, victim: Job) -> bool:
        """Whether it may take all of the victim."""
        depth = self._draft.lane(victim).shared_levels(self._lane)
        if self._guaranteed[depth] or self._of_type[depth]:
            return True
        after = self._draft.settings.fair_stop_seconds
        return after is not None and victim.started_at is not None and self._draft.now >= victim.started_at + after

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
        only_typed = self._of_type[depth]
        for account in lane.path[depth:]:
            for kind, slots in enumerate(counts):
                if slots and (kind or not only_typed):
                    yield (account, kind), slots
