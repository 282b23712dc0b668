"""Redrafts, so that a backfilled job does not lose its slots at once to a job that waits behind the blocked one.

Less important preemptible jobs may use promised slots, for they give them back. A job that waits behind the blocked one
may not use them, yet it may take what less important ones hold. So that no job starts or grows for a moment only, the
plan is made once more, and the job that would take may have what the backfilled jobs would get.
"""

from collections.abc import Callable, Mapping
from itertools import chain

from scheduler.model.job import Job
from scheduler.policy.capacity.resources import NOTHING, Amount, Rows, add, least, pour
from scheduler.policy.draft import Draft
from scheduler.policy.snapshot.snapshot import Snapshot

#: Number of drafts made until no backfilled job is preempted at once.
DRAFTS_MAX = 4
#: A plan that has taken longer is not drafted anew.
REDRAFT_SECONDS_MAX = 1.0
#: Amounts by priority and position of the backfilled jobs.
Gains = dict[tuple[int, int], Amount]


def decided(snapshot: Snapshot, decide: "Callable[[Draft, BackfillGains], Job | None]") -> Draft:
    """A draft with all decisions in it, after which the snapshot is to be rolled back.

    `decide` makes them, and returns the most important of the jobs that waited behind the blocked one of their queue.
    """
    offered: Gains = {}
    for _ in range(DRAFTS_MAX - 1):
        snapshot.begin()
        draft, backfill_gains = Draft(snapshot), BackfillGains(offered)
        gains = _gains(draft, decide(draft, backfill_gains))
        following = backfill_gains.used(gains)
        if not gains or following == offered or snapshot.seconds() >= REDRAFT_SECONDS_MAX:
            return draft
        snapshot.rollback()
        offered = following
    snapshot.begin()
    draft = Draft(snapshot)
    decide(draft, BackfillGains(offered))
    return draft


class BackfillGains:
    """Amounts that backfilled jobs would get unless a more important one has them instead."""

    def __init__(self, offered: Gains) -> None:
        self._offered = offered
        self._left = dict(offered)
        #: Grows with every use.
        self.uses = 0

    def __bool__(self) -> bool:
        return bool(self._offered)

    def added(self, rows: Rows, priority: int) -> Rows:
        """The rows plus the amounts that backfilled jobs below this priority would get."""
        if not self._offered:
            return rows
        rows = rows.copy()
        pour(rows, ((i, amount) for (below, i), amount in self._left.items() if below < priority))
        return rows

    def use(self, amounts: Mapping[int, Amount], priority: int) -> None:
        """Give these amounts, by position, to a job of this priority.

        Less is left to backfilled jobs below it, to the least important ones first.
        """
        self.uses += 1
        wanted = dict(amounts)
        for below, i in sorted(self._left):
            if below < priority and i in wanted:
                used = least(wanted[i], self._left[below, i])
                wanted[i] = add(wanted[i], used, -1)
                self._left[below, i] = add(self._left[below, i], used, -1)

    def used(self, besides: Gains) -> Gains:
        """The gains `besides` plus the amounts that other jobs have instead."""
        total = dict(besides)
        for key, amount in self._offered.items():
            if self._left[key] != amount:
                total[key] = add(total.get(key, NOTHING), add(amount, self._left[key], -1))
        return total


def _gains(draft: Draft, kept_back: Job | None) -> Gains:
    """Amounts that less important preemptible jobs of its queue get in the draft; None: no job would take them."""
    gains: Gains = {}
    if kept_back is None:
        return gains
    queue = draft.lane(kept_back).own
    starting = map(draft.world.queued.__getitem__, draft.starts)
    growing = map(draft.world.active.__getitem__, draft.grows)
    started = ((job, draft.given_to(job)) for job in starting if job.spec.preemptible)
    grown = ((job, draft.added_to(job)) for job in growing if job.spec.shrinkable)
    for job, given in chain(started, grown):
        if job.priority < kept_back.priority and draft.lane(job).own == queue:
            for k, amount in given:
                gains[job.priority, k] = add(gains.get((job.priority, k), NOTHING), amount)
    return gains
