"""What a job may take from jobs of other queues: a queue below what it is entitled to takes from those above theirs.

Both are seen below the lowest queue that contains both. The one that takes does not come above what it is entitled to,
and those that lose do not come below theirs, so that nothing is taken back. Up to its guarantee a queue may also stop
jobs of others; beyond, it makes them shrink, and stops them only after a time that a setting says. Where nothing else
lets it have its guarantee, it stops jobs of a queue that holds more than its own part even if less than that is left to
this one: a job that cannot shrink keeps nothing from those who have the guarantee. A guarantee of any type leaves
others what is guaranteed to them of GPU types, which they would take back.
"""

import math
from collections.abc import Iterator
from copy import copy

import numpy as np

from scheduler.model.job import Job
from scheduler.policy.capacity.resources import Held, together
from scheduler.policy.draft import Draft
from scheduler.policy.preempt.lanes import Floats, LaneTable
from scheduler.policy.queues.shares import Counts, Shares, kind_of
from scheduler.policy.queues.tree import Lane
from scheduler.policy.snapshot.taking import Taking
from scheduler.policy.snapshot.victim_table import Bools, Ints, VictimOrder, surplus

#: An account that loses slots, and their kind.
_Loser = tuple[str, int]


class _Left(dict[_Loser, float]):
    """Slots that accounts may still lose: at first, what they hold beyond what they are entitled to."""

    def __init__(self, shares: Shares) -> None:
        super().__init__()
        self._shares = shares

    def __missing__(self, loser: _Loser) -> float:
        self[loser] = left = self._shares.beyond(*loser)
        return left


class Claim:
    """What one job may take, as the draft stands."""

    def __init__(self, draft: Draft, shares: Shares, lane: Lane, counts: Counts) -> None:
        """`counts`: the slots by kind that the job gets; `lane`: its own."""
        self._draft = draft
        self._shares = shares
        self._lane = lane
        self._stops_below = False
        self._slots = counts[0]
        #: By kind: slots of it that its queue may have where others have what is guaranteed to them of the type.
        self._beside_guarantees: dict[int, float] = {}
        kind = kind_of(counts)
        self._typed = typed = kind if counts[kind] == counts[0] else 0
        #: Numbers of shared levels at which it may take: for its guarantee, for one of its GPU type, and for all that
        #: it is entitled to.
        self._guaranteed = shares.depths_within(lane, counts[0], guaranteed=True)
        self._of_type = frozenset[int]()
        if typed:
            self._of_type = shares.depths_within(lane, counts[typed], kind=typed, guaranteed=True)
        self._entitled = shares.depths_within(lane, counts[0])
        #: All of them: none where it may take nothing from other queues.
        self.depths = self._entitled | self._guaranteed | self._of_type
        self._losers_of: dict[tuple[Lane, int], list[_Loser]] = {}
        self._left = _Left(shares)
        self._at_first: tuple[Floats, Floats] | None = None
        #: Reservations of jobs of other queues that it takes over, the last in the queue first. None that this draft
        #: made: who leaves for them does so for that job alone.
        self.reservations: list[Taking] = list(self._take_over()) if self.depths else []

    def anew(self, *, stops_below: bool = False) -> "Claim":
        """This claim, with nothing taken from running jobs.

        `stops_below`: for a guarantee, it also stops jobs that leave their queue less than what this is entitled to.
        """
        claim = copy(self)
        claim._left, claim._stops_below = copy(self._left), stops_below
        return claim

    def _take_over(self) -> Iterator[Taking]:
        draft = self._draft
        for holder in draft.order.queue(self._find_holders())[::-1]:
            taking = of_reservation(draft, holder)
            if self._may_lose(draft.lane(holder), taking.freed):
                yield taking

    def _find_holders(self) -> Iterator[Job]:
        kinds = range(len(self._shares.tree.kinds))
        for lane in self._draft.reserving:
            if any(self._shares.beyond(lane.own, kind) >= 1.0 for kind in kinds) and self._part(lane):
                yield from self._draft.carried_in(lane)

    def victims(self, by_lane: LaneTable, useful: Bools, *, shrinkable: bool, most: int | None = None) -> VictimOrder:
        """Victims in other queues, those of the queue with most of its entitlement first.

        `useful` tells by record whether the job holds what helps. With `most`, only the first `most`.
        """
        draft, table = self._draft, self._draft.victim_table.table
        everybody = draft.victim_table.in_turn(draft.now, shrink=shrinkable)
        part, left = self._parts(by_lane)
        candidates = everybody[self._may_lose_any(by_lane, useful, part, left, shrinkable=shrinkable)[everybody]]
        held = part[by_lane.lane[candidates], by_lane.kind[candidates]]
        candidates = candidates[np.argsort(-held, kind="stable")]
        spare = self._spare(by_lane, candidates, surplus(table), most)
        candidates = candidates[: len(spare)]
        whole = np.zeros(len(candidates), np.bool_)
        if not shrinkable:
            rest = (table["workers"][candidates] - spare) * by_lane.slots[candidates]
            rest += by_lane.fixed_slots[candidates] * (table["fixed"][candidates] > 0)
            whole = self._stoppable(by_lane, candidates, rest)
        gives = (spare > 0) | whole
        equal = np.zeros(np.count_nonzero(gives), np.bool_)
        return VictimOrder(
            draft.victim_table, candidates[gives], equal, spare[gives], whole[gives], None, draft.ledger.own
        )

    def finds_any(self, by_lane: LaneTable, useful: Bools) -> bool:
        """Whether jobs of other queues have something that it may take; `useful`: see `victims`."""
        shrinkable = not self.stops_for_a_guarantee and self._draft.settings.fair_stop_seconds is None
        gives = self._may_lose_any(by_lane, useful, *self._parts(by_lane), shrinkable=shrinkable)
        return bool(gives.any()) or bool(self.reservations)

    def _may_lose_any(
        self, by_lane: LaneTable, useful: Bools, part: Floats, left: Floats, *, shrinkable: bool
    ) -> Bools:
        """By record: whether the job helps, and its lane may lose something of it; if shrinkable, a worker at least.

        `part`, `left`: see `_parts`.
        """
        table, cells = self._draft.victim_table.table, (by_lane.lane, by_lane.kind)
        may_lose = useful & by_lane.counted & (part[cells] > 0.0)
        if shrinkable:
            may_lose &= (surplus(table) > 0) & (left[cells] >= by_lane.slots)
        return may_lose

    def _spare(self, by_lane: LaneTable, candidates: Ints, surplus: Ints, most: int | None) -> Ints:
        """How many workers above its minimum each of these may lose, one after the other, until `most` lose any."""
        found: list[int] = []
        victims, nothing_left = 0, set[tuple[int, int]]()
        columns = (by_lane.lane, by_lane.kind, by_lane.slots, surplus)
        for lane, kind, slots, spare in zip(*(column[candidates].tolist() for column in columns), strict=True):
            if not spare or (lane, kind) in nothing_left:
                found.append(0)
                continue
            left = self._least_left(by_lane.lanes[lane], kind)
            if not left:
                nothing_left.add((lane, kind))
            found.append(min(spare, left // max(slots, 1)))
            if found[-1]:
                self._lose(by_lane.lanes[lane], kind, found[-1] * slots)
                victims += 1
            if victims == most:
                break
        return np.array(found, np.int64)

    def _parts(self, by_lane: LaneTable) -> tuple[Floats, Floats]:
        """By lane and kind: the part of its entitlement that is held, and the slots that it may lose.

        Both are 0 where it may lose no slots of that kind. Nothing is taken from running jobs yet.
        """
        if self._at_first is None:
            self._at_first = self._find_parts(by_lane)
        return self._at_first

    def _find_parts(self, by_lane: LaneTable) -> tuple[Floats, Floats]:
        found = np.zeros((2, len(by_lane.lanes), len(self._shares.tree.kinds)), np.float64)
        which = by_lane.beyond_any()
        depth = by_lane.shared_levels(self._lane, which)
        may_lose = np.isin(depth, list(self.depths)) & ~by_lane.is_in(self._lane.own)[which]
        least = by_lane.least_beyond(depth, which, self._left)
        left = np.minimum(least, least[:, :1])
        if self._typed:  # what is guaranteed of this type is taken back from whoever holds it
            of_type = np.isin(depth, list(self._of_type))
            left[of_type, self._typed] = least[of_type, self._typed]
        parts = by_lane.parts(depth, which)
        found[:, which] = np.where(
            may_lose[:, None] & (left >= 1.0), (np.broadcast_to(parts[:, None], left.shape), left), 0.0
        )
        return found[0], found[1]

    def _stoppable(self, by_lane: LaneTable, candidates: Ints, rest: Ints) -> Bools:
        """Which of these it may stop, one after the other; `rest`: slots that each would lose besides spare workers."""
        found, stops = np.zeros(len(candidates), np.bool_), self._draft.victim_table.table["stops"]
        for n, (k, slots) in enumerate(zip(candidates.tolist(), rest.tolist(), strict=True)):
            lane, kind = by_lane.lanes[by_lane.lane[k]], int(by_lane.kind[k])
            left = self._least_left(lane, kind) if stops[k] else 0
            enough = slots <= left or (
                self._stops_below and self._is_guaranteed(lane) and self._leaves_types(lane, kind)
            )
            if left and enough and self._may_stop(self._draft.victim_table.victim(k).job):
                self._lose(lane, kind, slots)
                found[n] = True
        return found

    def _least_left(self, lane: Lane, kind: int) -> int:
        """Slots of nodes of this kind that the lane may still lose."""
        return max(math.floor(min(map(self._left.__getitem__, self._losers(lane, kind)))), 0)

    def _leaves_types(self, lane: Lane, kind: int) -> bool:
        """Whether others have their guarantees of this type beside the job, even if that of `lane` stops.

        What it got for a guarantee of any type they would take back. Guarantees of the type shrink beside each other.
        """
        if not kind or all(k for _, k in self._losers(lane, kind)):
            return True
        if kind not in self._beside_guarantees:
            self._beside_guarantees[kind] = self._shares.left_beside_guarantees(self._lane, kind)
        return self._slots <= self._beside_guarantees[kind]

    def _lose(self, lane: Lane, kind: int, slots: int) -> None:
        for loser in self._losers(lane, kind):
            self._left[loser] -= slots

    def _losers(self, lane: Lane, kind: int) -> list[_Loser]:
        """What counts the loss of slots of nodes of this kind."""
        losers = self._losers_of.get((lane, kind))
        if losers is None:
            depth = lane.shared_levels(self._lane)
            only_typed = kind > 0 and kind == self._typed and depth in self._of_type
            losers = [(a, k) for a in lane.path[depth:] for k in {0, kind} if k or not only_typed]
            self._losers_of[lane, kind] = losers
        return losers

    def _part(self, lane: Lane) -> float:
        """How much of its entitlement a lane from which the job may take holds; 0: it may not."""
        if not lane.path or lane.own == self._lane.own:
            return 0.0
        depth = lane.shared_levels(self._lane)
        if depth not in self.depths:
            return 0.0
        return self._shares.part(lane.path[depth])

    @property
    def stops_for_a_guarantee(self) -> bool:
        """Whether it may stop jobs to have what is guaranteed to its queue."""
        return bool(self._guaranteed or self._of_type)

    def _may_stop(self, victim: Job) -> bool:
        """Whether it may take all of the victim."""
        if self._is_guaranteed(self._draft.lane(victim)):
            return True
        after = self._draft.settings.fair_stop_seconds
        if after is None or victim.started_at is None:
            return False
        self._draft.look_at(victim.started_at + after)
        return self._draft.now >= victim.started_at + after

    def _is_guaranteed(self, lane: Lane) -> bool:
        """Whether what it takes from this lane is within a guarantee."""
        return lane.shared_levels(self._lane) in self._guaranteed | self._of_type

    def _may_lose(self, lane: Lane, held: Held) -> bool:
        """Whether accounts of the lane may lose these amounts, too; if so, they count as lost."""
        counts = self._shares.standing.counts(held)
        kind = kind_of(counts)
        if not counts[0] or counts[0] > self._least_left(lane, kind):
            return False
        self._lose(lane, kind, counts[0])
        return True


def of_reservation(draft: Draft, holder: Job) -> Taking:
    """The taking of all that is reserved for the waiting job."""
    return Taking(holder, (), False, together([tuple(draft.held_for(holder))]))
