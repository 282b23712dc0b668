"""Jobs that may lose workers, by the queue that they belong to, side by side in arrays."""

from collections import defaultdict
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from scheduler.model.ids import JobId
from scheduler.policy.queues.shares import Shares, kind_of
from scheduler.policy.queues.tree import Lane
from scheduler.policy.snapshot.usage_index import UsageIndex
from scheduler.policy.snapshot.victim_table import Bools, Ints, VictimTable

Floats = npt.NDArray[np.float64]
#: What stands in place of an account where there is none: behind the end of a path, and where nobody may lose slots.
_NO_ACCOUNT, _UNKNOWN = -1, -2
_NONE: Ints = np.zeros(0, np.int64)


class LaneTable:
    """Lanes and slots of jobs, by record of the victim table; and what accounts of these lanes hold, by account."""

    def __init__(self, victim_table: VictimTable, usages: UsageIndex, shares: Shares) -> None:
        jobs = [usages[JobId(job_id)] for job_id in victim_table.table["job"].tolist()]
        each = [shares.tree.lane_of(usage.job) for usage in jobs]
        #: Every lane once, and by record the index of its lane.
        self.lanes: list[Lane] = list(dict.fromkeys(each))
        index = {lane: k for k, lane in enumerate(self.lanes)}
        self.lane: Ints = np.array([index[lane] for lane in each], np.int64)
        #: Slots of each worker, of the fixed group, and the kind of its GPU type.
        self.slots: Ints = np.array([usage.job.shape.slots for usage in jobs], np.int64)
        counts = [shares.standing.counts(usage.held) for usage in jobs]
        fixed = [shares.standing.counts(chain.from_iterable(usage.fixed_each))[0] for usage in jobs]
        self.fixed_slots: Ints = np.array(fixed, np.int64)
        self.kind: Ints = np.array(list(map(kind_of, counts)), np.int64)
        #: Whether it holds slots that count.
        self.counted: Bools = np.array([count[0] > 0 for count in counts], np.bool_)
        self._shares = shares
        names = list(dict.fromkeys(account for lane in self.lanes for account in lane.path))
        self._account = {name: k for k, name in enumerate(names)}
        #: By lane: its accounts from the first level down; and the last of these.
        self._path: Ints = np.full(
            (len(self.lanes), max((len(lane.path) for lane in self.lanes), default=0)), _NO_ACCOUNT
        )
        for k, lane in enumerate(self.lanes):
            self._path[k, : len(lane.path)] = [self._account[account] for account in lane.path]
        self._own: Ints = np.array([self._account.get(lane.own, _NO_ACCOUNT) for lane in self.lanes], np.int64)
        kinds = len(shares.tree.kinds)
        #: By account and kind: slots that it holds beyond what it is entitled to; and the part of that which it holds.
        self._beyond: Floats = np.array([[shares.beyond(name, k) for k in range(kinds)] for name in names], np.float64)
        self._beyond = self._beyond.reshape(len(names), kinds)
        self._parts: Floats = np.array([shares.part(name) for name in names], np.float64)
        self._levels: Ints = (self._path != _NO_ACCOUNT).sum(axis=1)
        self._rich = self._find_rich()
        self._changes = shares.changes()

    def is_in(self, own: str) -> Bools:
        """By lane: whether it is in the queue with this account."""
        mine: Bools = self._own == self._account.get(own, _UNKNOWN)
        return mine

    def records_in(self, own: str) -> Ints:
        """Records of jobs in the queue with this account."""
        return self._records.get(own, _NONE)

    @cached_property
    def _records(self) -> dict[str, Ints]:
        found: defaultdict[str, list[int]] = defaultdict(list)
        for record, lane in enumerate(self.lane.tolist()):
            found[self.lanes[lane].own].append(record)
        return {own: np.array(records, np.int64) for own, records in found.items()}

    def in_queue(self, own: str) -> Bools:
        """By record: whether the job is in the queue with this account."""
        mine: Bools = self.is_in(own)[self.lane]
        return mine

    def beyond_any(self) -> Ints:
        """Lanes whose own account holds a slot or more, of any kind, beyond what it is entitled to."""
        self._follow()
        return self._rich

    def shared_levels(self, lane: Lane, which: Ints) -> Ints:
        """By lane of these: the number of accounts that its path and that of the given lane begin with."""
        path = [self._account.get(account, _UNKNOWN) for account in lane.path[: self._path.shape[1]]]
        shared: Ints = np.logical_and.accumulate(self._path[which, : len(path)] == path, axis=1).sum(axis=1)
        return shared

    def parts(self, depth: Ints, which: Ints) -> Floats:
        """By lane of these: the part of its entitlement that its account at this depth holds; 0 behind its last one."""
        self._follow()
        inside = self._levels[which] > depth
        found = np.zeros(len(which), np.float64)
        found[inside] = self._parts[self._path[which[inside], depth[inside]]]
        return found

    def least_beyond(self, depth: Ints, which: Ints, lost: dict[tuple[str, int], float]) -> Floats:
        """By lane of these and kind: the least that its accounts from this depth on hold beyond their entitlements.

        Infinite behind the last account. `lost`: what some accounts hold beyond theirs after losses.
        """
        self._follow()
        path, beyond = self._path[which], self._beyond
        if lost:
            beyond = beyond.copy()
            for (name, kind), left in lost.items():
                if name in self._account:
                    beyond[self._account[name], kind] = left
        beyond = beyond[path]
        below = (np.arange(path.shape[1]) >= depth[:, None]) & (path != _NO_ACCOUNT)
        least: Floats = np.where(below[:, :, None], beyond, np.inf).min(axis=1, initial=np.inf)
        return least

    def _follow(self) -> None:
        """Bring accounts up to date whose slots changed."""
        shares, news = self._shares, self._changes.news()
        for name in news:
            account = self._account.get(name)
            if account is not None:
                self._beyond[account] = [shares.beyond(name, kind) for kind in range(self._beyond.shape[1])]
                self._parts[account] = shares.part(name)
        if news:
            self._rich = self._find_rich()

    def _find_rich(self) -> Ints:
        counted = np.flatnonzero(self._own != _NO_ACCOUNT)
        rich: Ints = counted[(self._beyond[self._own[counted]] >= 1.0).any(axis=1)]
        return rich
