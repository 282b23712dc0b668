"""The most that others could give up for a job, quick to compute: where that is too little, nobody looks for victims.

What running jobs of other queues could give is bounded by what each of the accounts around them holds beyond what it is
entitled to, as takings never go below that, and by workers above minimums, unless jobs of other queues may be stopped.
"""

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from scheduler.model.job import Job
from scheduler.policy.capacity.ledger import View
from scheduler.policy.capacity.pools import reserved, slots_to_start
from scheduler.policy.draft import Draft
from scheduler.policy.preempt.lanes import LaneTable
from scheduler.policy.queues.shares import Counts, Shares, kind_of
from scheduler.policy.queues.tree import Lane
from scheduler.policy.snapshot.victim_table import surplus

#: Stands for all queues: the account around those of the first level.
_ALL = ""


class _Reach(NamedTuple):
    """What a lane may take."""

    #: By kind, the most slots that it may have by stopping jobs for a guarantee; empty: none.
    guaranteed: list[float]
    #: The most slots that it may have at the cost of others that are inside one account, and what these could lose by
    #: kind. Its own accounts hold less there than they are entitled to, and so could lose none.
    others: list[tuple[float, list[int]]]


class _Running(NamedTuple):
    """Running jobs of one queue."""

    #: Lowest first.
    priorities: Sequence[int]
    #: Sums of their slots in this order, and of those that they have above their minimums, from none of them on.
    slots: Sequence[int]
    above: Sequence[int]

    def below(self, importance: float) -> int:
        """Slots of those that are less important, and slots of equals above their minimums."""
        less, equal = bisect_left(self.priorities, importance), bisect_right(self.priorities, importance)
        return self.slots[less] + self.above[equal] - self.above[less]


_NOBODY = _Running((), (0,), (0,))


class Bound(NamedTuple):
    """An upper bound on slots for jobs of one lane, which holds until the draft changes."""

    draft: Draft
    #: None: slots are shared, and there is no bound.
    reach: _Reach | None
    #: Running jobs of its queue, by kind.
    own: Sequence[_Running]
    #: Waiting jobs of its queue for which something is reserved.
    holders: Sequence[Job]
    #: Slots that are free or being freed, by kind.
    free: Sequence[int]

    def enough(self, counts: Counts, importance: float, workers: int) -> bool:
        """Whether there might be these slots, by kind, for a job of the lane, once all that may be taken is.

        `importance`: its effective priority; `workers`: how many of its workers lack slots on a node, each of which
        takes one slot at least. Always, where it may stop jobs for a guarantee, or slots are shared.
        """
        if self.reach is None:
            return True
        guaranteed, kind, needed = self.reach.guaranteed, kind_of(counts), counts[0]
        if guaranteed and any(slots and slots <= most for slots, most in zip(counts, guaranteed, strict=True)):
            return True
        lost = self.own[kind].slots[-1] if self.draft.order.ages else self.own[kind].below(importance)
        lost += sum(slots[kind] for most, slots in self.reach.others if needed <= most)
        lost += sum(map(slots_to_start, self.holders_below(importance)))
        return workers <= lost and needed <= self.free[kind] + lost

    def holders_below(self, importance: float) -> Sequence[Job]:
        """Of the waiting jobs with a reservation, those that a job of this priority might be more important than."""
        if not self.holders or self.draft.order.ages:
            return self.holders
        return [job for job in self.holders if job.priority < importance]


class Losses:
    """Upper bounds on slots that jobs of a draft could lose, by account and kind."""

    def __init__(self, draft: Draft, shares: Shares, by_lane: LaneTable) -> None:
        self._draft = draft
        self._shares = shares
        self._kinds = range(len(shares.tree.kinds))
        self._changes = shares.changes()
        #: By own account of a lane and kind.
        self._own: dict[tuple[str, int], _Running] = {}
        #: The account around each.
        self._above: dict[str, str] = {}
        #: Slots that those directly inside an account could lose, and what it could lose itself.
        self._inside: defaultdict[str, list[int]] = defaultdict(lambda: [0] * len(self._kinds))
        self._most: dict[str, list[int]] = {}
        #: What lanes may take, since slots changed last in the same queue of the first level.
        self._reaches = defaultdict[str, dict[Lane, _Reach]](dict)
        self._free: list[int] = []
        #: How much of the ledger's changes was read then.
        self._read = -1
        self._add_running(by_lane)
        self._add_reserved()
        self._bound_all(self._above)

    def bound(self, lane: Lane) -> "Bound":
        """What may be taken for jobs of this lane, as the draft stands."""
        draft = self._draft
        reach = None if draft.ledger.oversold else self._reach_of(lane)
        own = [self._own.get((lane.own, kind), _NOBODY) for kind in self._kinds]
        return Bound(draft, reach, own, tuple(draft.holders_in(lane.own)), self._free_soon())

    def least_important_in(self, own: str) -> float:
        """The effective priority below which a job takes nothing of its queue; infinite: it never does."""
        if self._draft.ledger.oversold or self._draft.order.ages:
            return -math.inf
        known = self._own.get((own, 0))
        return math.inf if known is None else known.priorities[0]

    def any_of_others(self, lane: Lane) -> bool:
        """Whether other queues might give up anything for a job of this lane."""
        reach = self._reach_of(lane)
        return bool(reach.guaranteed) or any(any(slots) for _, slots in reach.others)

    def _reach_of(self, lane: Lane) -> _Reach:
        """What the lane may take, as accounts are now."""
        if changed := self._changes.news():
            for account in changed:
                self._reaches.pop(account, None)
            self._bound_all(changed & self._above.keys())
        reaches = self._reaches[lane.path[0]]
        reach = reaches.get(lane)
        if reach is None:
            shares = self._shares
            guaranteed = [max(shares.most_within(lane, kind=kind, guaranteed=True)) for kind in self._kinds]
            around, inside = zip(shares.most_within(lane), (_ALL, *lane.path), strict=False), self._inside
            others = [(most, inside[account]) for most, account in around if most >= 1 and account in inside]
            reach = reaches[lane] = _Reach(guaranteed if max(guaranteed) >= 1 else [], others)
        return reach

    def _bound_all(self, accounts: Iterable[str]) -> None:
        """Bound each of these, those inside others first: their names begin with the names of those around them."""
        for account in sorted(accounts, reverse=True):
            self._bound(account)

    def _bound(self, account: str) -> None:
        """Bound what the account could lose by what it holds beyond its part; those inside it are known."""
        beyond = max(math.floor(self._shares.beyond(account, 0)), 0)
        before, most = self._most.get(account), [min(slots, beyond) for slots in self._inside[account]]
        if most != before:
            around = self._inside[self._above[account]]
            for kind in self._kinds:
                around[kind] += most[kind] - (before[kind] if before is not None else 0)
            self._most[account] = most

    def _free_soon(self) -> list[int]:
        """Free slots, and those that are being freed, by kind."""
        ledger = self._draft.ledger
        if self._read != len(ledger.log):
            self._read = len(ledger.log)
            slots = np.maximum(ledger.rows_at(slice(0, ledger.own), View.SOON)[:, 0], 0)
            by_kind = np.bincount(self._shares.standing.kinds, slots, len(self._kinds))
            self._free = [int(slots.sum()), *map(int, by_kind[1:])]
        return self._free

    def _add_running(self, by_lane: LaneTable) -> None:
        """Add what running jobs could lose."""
        table = self._draft.victim_table.table
        whole = table["workers"] * by_lane.slots + by_lane.fixed_slots
        stops = self._draft.settings.fair_stop_seconds is not None
        above = surplus(table) * by_lane.slots
        of_own = defaultdict[tuple[str, int], list[tuple[int, int, int]]](list)
        columns = (by_lane.lane, by_lane.kind, table["priority"], whole, above)
        for at, kind, priority, all_slots, slots in zip(*(column.tolist() for column in columns), strict=True):
            lane = by_lane.lanes[at]
            for each in {0, kind}:
                of_own[lane.own, each].append((priority, all_slots, slots))
                self._add(lane, each, all_slots if stops else slots)
        for key, jobs in of_own.items():
            priorities, *sums = zip(*sorted(jobs), strict=True)
            all_sums, above_sums = (list(accumulate(each, initial=0)) for each in sums)
            self._own[key] = _Running(list(priorities), all_sums, above_sums)

    def _add_reserved(self) -> None:
        """Add what waiting jobs could lose that had it before this draft."""
        draft = self._draft
        for job in map(draft.world.queued.__getitem__, draft.holding):
            if draft.holding[job.id] == reserved(job):
                for kind, slots in enumerate(self._shares.standing.counts(draft.held_for(job))):
                    self._add(draft.lane(job), kind, slots)

    def _add(self, lane: Lane, kind: int, slots: int) -> None:
        if lane.path:
            self._inside[lane.own][kind] += slots
            self._above |= zip(lane.path, (_ALL, *lane.path), strict=False)
