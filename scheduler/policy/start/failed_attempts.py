"""Failed attempts, so that none that is at least as hard is made before something opens."""

import math

from scheduler.model.ids import NodeName
from scheduler.policy.capacity.barred_nodes import barred_of
from scheduler.policy.capacity.request import Part, Request
from scheduler.policy.capacity.resources import Amount

#: Selector, GPU type, overselling, barred nodes, fixed group: a larger request never fits where a smaller one of this
#: key failed.
_Where = tuple[tuple[tuple[str, str], ...], str | None, bool, frozenset[NodeName], Part | None]
#: What each worker needs, how many workers, the job's priority.
_Attempt = tuple[Amount, int, int]


class Failures:
    """The easiest attempts that failed since something opened last."""

    def __init__(self) -> None:
        self._openings = -1
        self._easiest: dict[_Where, list[_Attempt]] = {}

    def note(self, openings: int, request: Request, priority: int) -> None:
        """Record that a request found no room: one for more, larger or less important workers finds none."""
        if openings != self._openings:
            self._easiest.clear()
            self._openings = openings
        attempt = (request.workers.feasible.need, request.workers.number, priority)
        others = self._easiest.get(_where(request), [])
        self._easiest[_where(request)] = [attempt, *(other for other in others if not _as_hard(other, attempt))]

    def up_to(self, openings: int, request: Request) -> float:
        """The highest priority at which an attempt no harder failed, if nothing opened since; -inf: none did."""
        if openings != self._openings:
            return -math.inf
        (feasible, count), others = request.workers, self._easiest.get(_where(request), ())
        return max((other[2] for other in others if _as_large(feasible.need, count, other)), default=-math.inf)


def _where(request: Request) -> _Where:
    shape = request.workers.feasible.shape
    return (shape.node_selector, shape.gpu_type, shape.oversell, barred_of(shape), request.fixed)


def _as_hard(attempt: _Attempt, other: _Attempt) -> bool:
    need, count, priority = attempt
    return priority <= other[2] and _as_large(need, count, other)


def _as_large(needed: Amount, count: int, other: _Attempt) -> bool:
    need = other[0]
    return count >= other[1] and needed[0] >= need[0] and needed[1] >= need[1] and needed[2] >= need[2]
