"""Reservations of more than nodes have, as where a node lost slots."""

from scheduler.policy.capacity.ledger import View
from scheduler.policy.draft import Draft


def drop_overbooked(draft: Draft) -> None:
    """Where nodes hold more of something than they have, drop the last reservations of it until the others fit."""
    ledger = draft.ledger
    if not draft.holding or (ledger.soon() >= 0).all():
        return
    for job in draft.order.queue(map(draft.world.queued.__getitem__, draft.holding))[::-1]:
        amounts = ((ledger.available(i, View.SOON), held) for i, held in draft.held_for(job))
        if any(left < 0 < mine for each in amounts for left, mine in zip(*each, strict=True)):
            draft.unhold(job)
            draft.openings += 1
