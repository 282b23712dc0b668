"""I13 over time: no queue, and no user of one, comes to hold more than a limit; what it had before may stay."""

from collections import Counter
from collections.abc import Iterable

from scheduler.config import PolicySettings
from scheduler.model.job import Job
from scheduler.model.world import World as Snapshot
from scheduler.policy.checks.queue_accounts import Accounts, Key, Slots
from tests.invariants.broken import hold


class LimitsHold:
    """Remembers which workers there were.

    Not judged: worlds with bookings, whose jobs are above all queues while open, and with held jobs, which come
    back with what they have; and what came of several commits of which nobody saw the first, as after it a limit may
    have been lowered.
    """

    def __init__(self) -> None:
        self._before: tuple[Job, ...] = ()
        self._limits: frozenset[Key] = frozenset()
        self._policy: PolicySettings | None = None
        self._commits = 0

    def after_tick(self, snapshot: Snapshot, settings: PolicySettings, at: float, commits: int) -> None:
        """Raise `Broken` with the queue that holds more than its limit, and more than before.

        `at`: in unix seconds; `commits`: how many there have been.
        """
        seen = settings == self._policy and commits <= self._commits + 1
        before, judged = self._before, self._limits if seen else frozenset()
        self._limits, self._policy, self._commits = frozenset(), settings, commits
        if settings.name != "elastic" or snapshot.bookings or snapshot.held or snapshot.withheld:
            return
        accounts, jobs = Accounts(snapshot, at, settings), tuple(snapshot.active.values())
        limits = {key: limit for job in jobs for key, limit in accounts.limits(job)}
        self._before, self._limits = jobs, frozenset(limits)
        # What was held before counts as it would now, too: a node may have come to be of another GPU type.
        held, may_stay = _held(jobs, accounts), _held(before, accounts)
        for key in judged & limits.keys():
            most = max(limits[key], may_stay[key])
            hold(held[key] <= most, "I13", f"{key[0]} holds {held[key]} slots of {limits[key]}")


def _held(jobs: Iterable[Job], accounts: Accounts) -> Slots:
    found: Slots = Counter()
    for job in jobs:
        found += accounts.of_slots(job, ((w.node, len(w.slot_ids)) for w in job.all_workers if not w.shared))
    return found
