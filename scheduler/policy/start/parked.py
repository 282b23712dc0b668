"""Job classes that cannot start whatever is tried, until something changes that may help them."""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from scheduler.policy.capacity.ledger import View
from scheduler.policy.capacity.placement import FeasibleNodes
from scheduler.policy.draft import Draft
from scheduler.policy.queues.shares import Counts
from scheduler.policy.queues.tree import Lane
from scheduler.policy.snapshot.victim_table import Ints
from scheduler.policy.snapshot.waiting_jobs import JobClass


class Parked:
    """Parked job classes, with the index of the first job of each that has not had its turn.

    A class has hope again where nodes that suit it have more room, or where accounts of its queue hold less: then its
    limits and what it is entitled to leave it more. Without queues, every opening gives hope to all.
    """

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._by_lane: defaultdict[Lane, list[tuple[JobClass, int]]] = defaultdict(list)
        #: By account: lanes of which classes are, or were, parked.
        self._lanes: defaultdict[str, dict[Lane, None]] = defaultdict(dict)
        #: Amounts that were free soon when the last job was looked at, and how much was read of what changes them.
        self._soon = draft.ledger.soon() if draft.shares is not None else None
        self._read = len(draft.ledger.log)
        #: What accounts held then, of those that changed.
        self._held: dict[str, Counts] = {}
        self._changes = draft.shares.changes() if draft.shares is not None else None

    def add(self, job_class: JobClass, k: int) -> None:
        """Park the class; `k` is the index of its first job that has not had its turn."""
        lane = job_class.lane
        if lane not in self._by_lane:
            for account in lane.accounts:
                self._lanes[account][lane] = None
        self._by_lane[lane].append((job_class, k))

    def look(self) -> None:
        """Note how things stand before the next job is looked at."""
        self._changed()

    def with_hope(self) -> Iterator[tuple[JobClass, int]]:
        """Classes that are parked no more, as something opened for them since the last look."""
        positions, accounts = self._changed()
        opened = (
            self._by_lane if self._soon is None else [lane for each in accounts for lane in self._lanes.get(each, ())]
        )
        for lane in list(opened):
            yield from self._by_lane.pop(lane, ())
        if len(positions):
            suited: dict[FeasibleNodes, bool] = {}
            for parked in self._by_lane.values():
                yield from self._suited(parked, positions, suited)

    def _suited(
        self, parked: list[tuple[JobClass, int]], positions: Ints, suited: dict[FeasibleNodes, bool]
    ) -> Iterator[tuple[JobClass, int]]:
        """Those of a lane to which nodes at these positions are of use; the others stay."""
        kept = []
        for each in parked:
            feasible = self._draft.places.feasible(each[0].shape)
            if feasible not in suited:
                suited[feasible] = bool(feasible.mask[positions].any())
            if suited[feasible]:
                yield each
            else:
                kept.append(each)
        parked[:] = kept

    def _changed(self) -> tuple[Ints, set[str]]:
        """Positions with more room, and accounts that hold less than at the last look."""
        shares, ledger = self._draft.shares, self._draft.ledger
        more, less = np.zeros(0, np.int64), set[str]()
        if shares is None or self._soon is None or self._changes is None:
            return more, less
        if self._read < len(ledger.log):
            changed = np.unique(np.array(ledger.log[self._read :], np.int64))
            self._read = len(ledger.log)
            now = ledger.rows_at(changed, View.SOON)
            more = changed[(now > self._soon[changed]).any(axis=1)]
            self._soon[changed] = now
        for account in self._changes.news():
            held = shares.held(account)
            before = self._held.get(account, shares.standing.held.get(account, held))
            if any(slots < then for slots, then in zip(held, before, strict=True)):
                less.add(account)
            self._held[account] = held
        return more, less
