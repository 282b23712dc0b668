"""Priority classes: what bounds a label whose values could be any number."""

from bisect import bisect_right

#: Lower bounds where the operator named no ceilings: powers of ten, as people use priorities.
DEFAULT_CLASSES = (0, 10, 100, 1000)
LOWEST_CLASS = "below"


class PriorityClasses:
    """Classes by their ascending lower bounds; below the first there is one more."""

    def __init__(self, bounds: tuple[int, ...] = DEFAULT_CLASSES) -> None:
        self._bounds = tuple(sorted(bounds)) or DEFAULT_CLASSES
        self.names = (LOWEST_CLASS, *map(str, self._bounds))

    def of(self, priority: int) -> str:
        """The largest lower bound that the priority reaches."""
        return self.names[bisect_right(self._bounds, priority)]
