"""Job classes that cannot start whatever is tried, until something changes that may help them."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np

from scheduler.policy.capacity.ledger import View
from scheduler.policy.draft import Draft
from scheduler.policy.queues.shares import Counts
from scheduler.policy.queues.tree import Lane
from scheduler.policy.snapshot.victim_table import Ints
from scheduler.policy.snapshot.waiting_jobs import JobClass, Judge, Minimum


class Parked:
    """Parked job classes, with the index of the first job of each that has not had its turn.

    A class may have hope again where nodes that suit it have more room, where accounts of its queue hold less: then its
    limits and what it is entitled to leave it more, or where others hold more beyond what they are entitled to: then it
    may take more from them. Without queues, every opening gives hope to all.
    """

    def __init__(self, draft: Draft, judge: Callable[[Lane], Judge], takes: Callable[[Lane], bool]) -> None:
        """`judge`: of each lane, what tells whether its classes have hope; `takes`: whether it may take from others."""
        self._draft = draft
        self._takes = takes
        self._judge = judge
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
        if self._soon is not None:
            self._changed()

    def with_hope(self) -> Iterator[tuple[JobClass, int]]:
        """Classes that are parked no more, as something opened for them since the last look."""
        if self._soon is None:
            for lane in list(self._by_lane):
                yield from self._by_lane.pop(lane)
            return
        positions, poorer, richer = self._changed()
        opened = dict.fromkeys(lane for each in poorer for lane in self._lanes.get(each, ()))
        if richer:
            opened |= dict.fromkeys(filter(self._takes, self._by_lane))
        for lane in opened:
            yield from self._hopeful(lane, self._judge(lane))
        if len(positions):
            feasible = self._draft.places.feasible
            suits = cache(lambda minimum: bool(feasible(minimum.shape).mask[positions].any()))
            for lane in self._by_lane:
                yield from self._hopeful(lane, _of_use(suits, self._judge(lane)))

    def _hopeful(self, lane: Lane, judge: Judge) -> Iterator[tuple[JobClass, int]]:
        """Those of a lane that have hope; the others stay."""
        kept, parked = [], self._by_lane.get(lane, [])
        for each in parked:
            job_class, k = each
            if judge(job_class.minimum, -job_class.ranks[k][0]):
                yield each
            else:
                kept.append(each)
        parked[:] = kept

    def _changed(self) -> tuple[Ints, set[str], set[str]]:
        """Positions with more room; accounts that hold less than at the last look; and more, beyond their part."""
        shares, ledger = self._draft.shares, self._draft.ledger
        more, poorer, richer = np.zeros(0, np.int64), set[str](), set[str]()
        if shares is None or self._soon is None or self._changes is None:
            return more, poorer, richer
        if self._read < len(ledger.log):
            changed = np.unique(np.array(ledger.log[self._read :], np.int64))
            self._read = len(ledger.log)
            now = ledger.rows_at(changed, View.SOON)
            more = changed[(now > self._soon[changed]).any(axis=1)]
            self._soon[changed] = now
        for account in self._changes.news():
            held = shares.held(account)
            before = self._held.get(account) or shares.standing.held.get(account, (0,) * len(held))
            if any(slots < then for slots, then in zip(held, before, strict=True)):
                poorer.add(account)
            if any(
                slots > then and shares.beyond(account, kind) >= 1.0
                for kind, (slots, then) in enumerate(zip(held, before, strict=True))
            ):
                richer.add(account)
            self._held[account] = held
        return more, poorer, richer


def _of_use(suits: Callable[[Minimum], bool], judge: Judge) -> Judge:
    """The judge of jobs to which some nodes are of use."""
    return lambda minimum, importance: suits(minimum) and judge(minimum, importance)
