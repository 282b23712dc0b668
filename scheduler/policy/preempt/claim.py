"""What a job may take from jobs of other queues: a queue below what it is entitled to takes from those above theirs.

Both are seen below the lowest queue that contains both. The one that takes does not come above what it is entitled to,
and those that lose do not come below theirs, so that nothing is taken back. Up to its guarantee a queue may also stop
jobs of others; beyond, it makes them shrink, and stops them only after a time that a setting says.
"""

import math
from collections.abc import Iterator

import numpy as np

from scheduler.model.job import Job
from scheduler.policy.capacity.pools import reserved
from scheduler.policy.capacity.resources import Held
from scheduler.policy.draft import Draft
from scheduler.policy.preempt.lanes import LaneTable
from scheduler.policy.queues.shares import Counts, Shares, kind_of
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
        self._typed = typed = kind_of(counts)
        #: Numbers of shared levels at which it may take: for its guarantee, for one of its GPU type, and for all that
        #: it is entitled to.
        self._guaranteed = shares.depths_within(lane, counts[0], guaranteed=True)
        self._of_type = frozenset[int]()
        if typed:
            self._of_type = shares.depths_within(lane, counts[typed], kind=typed, guaranteed=True)
        self._entitled = shares.depths_within(lane, counts[0])
        #: All of them: none where it may take nothing from other queues.
        self.depths = self._entitled | self._guaranteed | self._of_type
        #: Slots that accounts may still lose.
        self._left: dict[_Loser, float] = {}

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

    def victims(self, by_lane: LaneTable, useful: Bools, *, shrinkable: bool) -> VictimOrder:
        """Victims in other queues, those of the queue with most of its entitlement first.

        `useful` tells by record whether the job holds what helps.
        """
        table = self._draft.victim_table.table
        everybody = self._draft.victim_table.in_turn(self._draft.now, shrink=shrinkable)
        candidates = everybody[(useful & by_lane.counted)[everybody]]
        parts = np.array([self._part(lane) for lane in by_lane.lanes], np.float64)
        part = parts[by_lane.lane[candidates]]
        candidates = candidates[part > 0.0]
        candidates = candidates[np.argsort(-part[part > 0.0], kind="stable")]
        spare = np.zeros(len(candidates), np.int64)
        whole = np.zeros(len(candidates), np.bool_)
        kinds = len(self._shares.tree.kinds)
        groups = by_lane.lane[candidates] * kinds + by_lane.kind[candidates]
        _, first = np.unique(groups, return_index=True)
        in_turn = [(groups[k], by_lane.lanes[groups[k] // kinds], int(groups[k] % kinds)) for k in sorted(first)]
        for group, lane, kind in in_turn:
            left = self._least_left(lane, kind)
            if not left:
                continue
            mine = np.flatnonzero(groups == group)
            records = candidates[mine]
            slots = by_lane.slots[records]
            wanted = surplus(table)[records] * slots
            before = wanted.cumsum() - wanted
            spare[mine] = np.clip(left - before, 0, wanted) // np.maximum(slots, 1)
            self._lose(lane, kind, int((spare[mine] * slots).sum()))
        for group, lane, kind in () if shrinkable else in_turn:
            left = self._least_left(lane, kind)
            if not left:
                continue
            mine = np.flatnonzero(groups == group)
            records = candidates[mine]
            rest = (table["workers"][records] - spare[mine]) * by_lane.slots[records]
            rest += by_lane.fixed_slots[records] * (table["fixed"][records] > 0)
            whole[mine] = stops = self._stoppable(left, records, rest)
            self._lose(lane, kind, int(rest[stops].sum()))
        gives = (spare > 0) | whole
        equal = np.zeros(np.count_nonzero(gives), np.bool_)
        victim_table, own = self._draft.victim_table, self._draft.ledger.own
        return VictimOrder(victim_table, candidates[gives], equal, spare[gives], whole[gives], None, own)

    def _stoppable(self, left: int, records: Ints, rest: Ints) -> Bools:
        """Which of these it may stop one after the other, with no more slots together than are `left`.

        `rest`: slots that each would lose besides its spare workers.
        """
        found = np.zeros(len(records), np.bool_)
        for n, (k, slots) in enumerate(zip(records.tolist(), rest.tolist(), strict=True)):
            found[n] = slots <= left and self._may_stop(self._draft.victim_table.victim(k).job)
            left -= slots if found[n] else 0
        return found

    def _least_left(self, lane: Lane, kind: int) -> int:
        """Slots of nodes of this kind that the lane may still lose."""
        return max(math.floor(min(map(self._left_of, self._losers(lane, kind)))), 0)

    def _lose(self, lane: Lane, kind: int, slots: int) -> None:
        for loser in self._losers(lane, kind):
            self._left[loser] = self._left_of(loser) - slots

    def _left_of(self, loser: _Loser) -> float:
        left = self._left.get(loser)
        return self._shares.beyond(*loser) if left is None else left

    def _losers(self, lane: Lane, kind: int) -> list[_Loser]:
        """What counts the loss of slots of nodes of this kind."""
        depth = lane.shared_levels(self._lane)
        only_typed = kind > 0 and kind == self._typed and depth in self._of_type
        return [(a, k) for a in lane.path[depth:] for k in {0, kind} if k or not only_typed]

    def _part(self, lane: Lane) -> float:
        """How much of its entitlement a lane from which the job may take holds; 0: it may not."""
        if not lane.path or lane.own == self._lane.own:
            return 0.0
        depth = lane.shared_levels(self._lane)
        if depth not in self.depths:
            return 0.0
        return self._shares.part(lane, depth)

    def _may_stop(self, victim: Job) -> bool:
        """Whether it may take all of the victim."""
        depth = self._draft.lane(victim).shared_levels(self._lane)
        if depth in self._guaranteed | self._of_type:
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
        kind = kind_of(counts)
        if not counts[0] or counts[0] > self._least_left(lane, kind):
            return False
        self._lose(lane, kind, counts[0])
        return True
