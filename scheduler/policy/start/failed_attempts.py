"""Failed attempts, so that none that is at least as hard is made before something opens."""

import math

from scheduler.model.ids import NodeName
from scheduler.model.shape import WorkerShape
from scheduler.policy.capacity.barred_nodes import barred_of
from scheduler.policy.capacity.resources import Amount, needs

#: Selector, GPU type, overselling, barred nodes: a larger request never fits where a smaller one of this key failed.
_Where = tuple[tuple[tuple[str, str], ...], str | None, bool, frozenset[NodeName]]
#: What each worker needs, how many workers, the job's priority.
_Attempt = tuple[Amount, int, int]


class Failures:
    """The easiest attempts that failed since something opened last."""

    def __init__(self) -> None:
        self._openings = -1
        self._easiest: dict[_Where, list[_Attempt]] = {}

    def note(self, openings: int, shape: WorkerShape, count: int, priority: int) -> None:
        """Record that `count` workers of the shape found no room: more, larger or less important ones find none."""
        if openings != self._openings:
            self._easiest.clear()
            self._openings = openings
        attempt = (needs(shape), count, priority)
        others = self._easiest.get(_where(shape), [])
        self._easiest[_where(shape)] = [attempt, *(other for other in others if not _as_hard(other, attempt))]

    def up_to(self, openings: int, shape: WorkerShape, count: int) -> float:
        """The highest priority at which an attempt no harder failed, if nothing opened since; -inf: none did."""
        if openings != self._openings:
            return -math.inf
        need, others = needs(shape), self._easiest.get(_where(shape), ())
        return max((other[2] for other in others if _as_large(need, count, other)), default=-math.inf)


def _where(shape: WorkerShape) -> _Where:
    return (shape.node_selector, shape.gpu_type, shape.oversell, barred_of(shape))


def _as_hard(attempt: _Attempt, other: _Attempt) -> bool:
    need, count, priority = attempt
    return priority <= other[2] and _as_large(need, count, other)


def _as_large(needed: Amount, count: int, other: _Attempt) -> bool:
    need = other[0]
    return count >= other[1] and needed[0] >= need[0] and needed[1] >= need[1] and needed[2] >= need[2]
