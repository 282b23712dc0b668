"""Budgets of queues as they are spent: told once a month when one nearly is, and kept from more once it is."""

from collections.abc import Callable, Iterable

from scheduler.engine.changeset import Changeset
from scheduler.model.account import HOUR_SECONDS, Charge
from scheduler.model.budget import NEAR, MonthSoFar, held_since, month_hours, share_spent, spent_paths
from scheduler.model.event import Cause, EventKind

#: Reads what is stored of the month that begins with an hour.
Read = Callable[[int], MonthSoFar]


class Budgets:
    """Follows the month's charges of one leadership; used on the engine's thread."""

    def __init__(self) -> None:
        #: The first hour of the month that is followed; None: none is.
        self._month: int | None = None
        self._held: dict[str, float] = {}
        self._told: set[str] = set()

    def begin(self) -> None:
        """What is stored may be anything: another engine led, or a commit failed."""
        self._month = None

    def look(self, changeset: Changeset, read: Read) -> None:
        """Put into the changeset which queues have spent their budget by now."""
        world, now = changeset.base, changeset.now
        budgeted = [queue for queue in world.queues.values() if queue.budget is not None]
        if not budgeted:
            self._month = None
            changeset.see_spent(frozenset())
            return
        month, _ = month_hours(now + world.ahead_seconds)
        if month != self._month:
            so_far = read(month)
            self._month, self._held, self._told = month, dict(so_far.held), set(so_far.told)
        since = month * HOUR_SECONDS - world.ahead_seconds
        held = held_since(self._held, world.holdings.values(), since, now)
        for queue in budgeted:
            share = share_spent(queue, held)
            if share >= NEAR and queue.path not in self._told:
                self._told.add(queue.path)
                hours = f"{held.get(queue.path, 0.0) / HOUR_SECONDS:,.1f} of {queue.budget:,} slot-hours"
                detail = f"{queue.path}: {hours} of this month are spent"
                changeset.event(EventKind.QUEUE_BUDGET_NEAR, cause=Cause.OBSERVED, detail=detail, amount=share)
                changeset.budgets_told.append((queue.path, month))
        changeset.see_spent(spent_paths(world.queues, held))

    def committed(self, charges: Iterable[Charge]) -> None:
        """Count what was stored just now."""
        for charge in charges:
            if self._month is not None and charge.hour >= self._month:
                queue = charge.key.queue
                self._held[queue] = self._held.get(queue, 0.0) + charge.held
