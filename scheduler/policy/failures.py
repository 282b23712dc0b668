"""Attempts that failed, so that none that is at least as hard is made before something opens."""

from scheduler.model.shape import WorkerShape
from scheduler.policy.amounts import Amount, needs

#: Selector, GPU type, overselling: where these are the same, who needs no less of a node fits on no other.
_Where = tuple[tuple[tuple[str, str], ...], str | None, bool]
#: What each worker needs, how many workers, the job's priority.
_Attempt = tuple[Amount, int, int]


class Failures:
    """The easiest attempts that failed since something opened last."""

    def __init__(self) -> None:
        self._openings = -1
        self._easiest: dict[_Where, list[_Attempt]] = {}

    def note(self, openings: int, shape: WorkerShape, count: int, priority: int) -> None:
        """So many workers of the shape found no room; nor will more of them, larger ones, or less important ones."""
        if openings != self._openings:
            self._easiest.clear()
            self._openings = openings
        attempt = (needs(shape), count, priority)
        others = self._easiest.get(_where(shape), [])
        self._easiest[_where(shape)] = [attempt, *(other for other in others if not _as_hard(other, attempt))]

    def cover(self, openings: int, shape: WorkerShape, count: int, priority: int) -> bool:
        """Whether one that was no harder failed, and nothing opened since."""
        if openings != self._openings:
            return False
        attempt = (needs(shape), count, priority)
        return any(_as_hard(attempt, other) for other in self._easiest.get(_where(shape), ()))


def _where(shape: WorkerShape) -> _Where:
    return (shape.node_selector, shape.gpu_type, shape.oversell)


def _as_hard(attempt: _Attempt, other: _Attempt) -> bool:
    (slots, cpus, memory), count, priority = attempt
    need = other[0]
    return count >= other[1] and priority <= other[2] and slots >= need[0] and cpus >= need[1] and memory >= need[2]
