"""What will happen on the simulated cluster, in one heap: one in which little happens costs little."""

import heapq
import itertools
from collections.abc import Callable


class Timers:
    """What happens at which moment; of one moment, what was set first happens first."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def at(self, when: float, happen: Callable[[], None]) -> None:
        """Let this happen then."""
        heapq.heappush(self._heap, (when, next(self._numbers), happen))

    @property
    def next_at(self) -> float | None:
        """When something happens next; None if nothing will."""
        return self._heap[0][0] if self._heap else None

    def run(self, now: float) -> None:
        """Let everything happen that is due by now, also what becomes due by it."""
        while self._heap and self._heap[0][0] <= now:
            heapq.heappop(self._heap)[2]()
