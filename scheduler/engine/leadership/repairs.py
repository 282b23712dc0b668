"""Looks again at unreadable rows now and then: somebody may have repaired them."""

import math

from scheduler.engine.ports import Store

#: Time between two looks.
LOOK_SECONDS = 30.0


class Repairs:
    """Costs nothing as long as every row can be read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._looked_at = -math.inf

    def found(self, now: float) -> bool:
        """Whether an unreadable row can be read by now, or is gone, so that the world is to be loaded again."""
        if 0 <= now - self._looked_at < LOOK_SECONDS or not self._store.unreadable:
            return False
        self._looked_at = now
        return bool(self._store.look_again())
