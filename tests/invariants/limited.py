"""I13 over time: no queue, and no user of one, comes to hold more than a limit; what it had before may stay."""

from collections import Counter

from scheduler.config import PolicySettings
from scheduler.model.world import World as Snapshot
from scheduler.policy.checks.queue_accounts import Accounts, Key, Slots
from tests.invariants.broken import hold


class LimitsHold:
    """Remembers what queues held.

    Not judged: worlds with bookings, whose jobs are above all queues while open, and with held jobs, which come
    back with what they have.
    """

    def __init__(self) -> None:
        self._before: Slots = Counter()
        self._limits: frozenset[Key] = frozenset()
        self._policy: PolicySettings | None = None

    def after_tick(self, snapshot: Snapshot, settings: PolicySettings, at: float) -> None:
        """Raise `Broken` with the queue that holds more than its limit, and more than before; `at` in unix seconds."""
        before, judged = self._before, self._limits if settings == self._policy else frozenset()
        self._limits, self._policy = frozenset(), settings
        if settings.name != "elastic" or snapshot.bookings or snapshot.held or snapshot.withheld:
            return
        accounts, held = Accounts(snapshot, at, settings), Counter[Key]()
        limits: dict[Key, int] = {}
        for job in snapshot.active.values():
            limits |= dict(accounts.limits(job))
            held += accounts.of_slots(job, ((w.node, len(w.slot_ids)) for w in job.all_workers if not w.shared))
        self._before, self._limits = held, frozenset(limits)
        for key in judged & limits.keys():
            hold(
                held[key] <= max(limits[key], before[key]), "I13", f"{key[0]} holds {held[key]} slots of {limits[key]}"
            )
