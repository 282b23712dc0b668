"""How many requests a tick takes: as many as it handles in about a second, as far as the ticks before it tell."""

#: Length of a tick that takes as many requests as it may.
SECONDS = 1.0
#: What the first tick takes, and bounds of what the others do.
FIRST, LEAST, MOST = 2_000, 500, 10_000


class Intake:
    """Used on the engine's thread. The rest waits for the next tick, which follows at once."""

    def __init__(self) -> None:
        #: Requests that a tick takes at most.
        self.most = FIRST
        self._taken = 0

    @property
    def all_taken(self) -> bool:
        """Whether this tick has taken all requests that there were."""
        return self._taken < self.most

    def took(self, count: int) -> None:
        """Record how many this tick took."""
        self._taken = count

    def ended(self, seconds: float) -> None:
        """Record how long this tick took; few requests do not tell how long many take."""
        if self._taken >= LEAST:
            self.most = max(LEAST, int(min(self._taken * SECONDS / seconds, MOST))) if seconds > 0 else MOST
        self._taken = 0
