"""How fast the job goes, as reported to the scheduler. Standard library only."""

from collections import deque

_WINDOW_SECONDS = 10.0
#: What was measured for less says little: the scheduler would remember it as the speed at this size.
_MEASURED_SECONDS_MIN = 2.0


class Pace:
    """Samples per second of the whole job over the last seconds at the current size.

    The first step at a size is not counted: models are wrapped and compiled, and caches filled, in it.
    """

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int]] = deque()
        self._samples = 0

    def reset(self) -> None:
        """Starts anew, at a resize."""
        self._marks.clear()

    def add(self, samples: int, now: float) -> None:
        """Record the end of a step with `samples` samples on all ranks together."""
        self._samples += samples
        self._marks.append((now, self._samples))
        while len(self._marks) > 2 and now - self._marks[1][0] >= _WINDOW_SECONDS:
            self._marks.popleft()

    def samples_per_second(self) -> float | None:
        """None before enough was measured."""
        if not self._marks:
            return None
        (start, before), (end, after) = self._marks[0], self._marks[-1]
        return (after - before) / (end - start) if end - start >= _MEASURED_SECONDS_MIN else None
