"""Limits of queues in a trial of takings: what jobs inside the queues have to give up for one of them to fit."""

from collections.abc import Iterable

from scheduler.policy.queues.shares import Quota, Shares
from scheduler.policy.snapshot.taking import Taking


class Quotas:
    """Slots that accounts of a job lack below their limits."""

    def __init__(self, shares: Shares, lacking: Iterable[Quota]) -> None:
        self._shares = shares
        self._lacking = {(quota.account, quota.kind): quota.slots for quota in lacking}

    @property
    def lacking(self) -> bool:
        return any(slots > 0 for slots in self._lacking.values())

    def helps(self, taking: Taking) -> bool:
        """Whether the taking frees something that is lacking."""
        return any(self._lacking[key] > 0 for key, _ in self._given_up(taking))

    def put(self, taking: Taking, sign: int) -> None:
        """Count what the taking frees as given up, or with sign -1 as not."""
        for key, slots in self._given_up(taking):
            self._lacking[key] -= sign * slots

    def _given_up(self, taking: Taking) -> Iterable[tuple[tuple[str, int], int]]:
        counts = self._shares.standing.counts(taking.freed)
        for account in self._shares.tree.lane_of(taking.victim).accounts:
            for kind, slots in enumerate(counts):
                if slots and (account, kind) in self._lacking:
                    yield (account, kind), slots
