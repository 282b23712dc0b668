"""What is now, read at every scrape."""

from collections.abc import Callable, Mapping

from scheduler import __version__
from scheduler.engine.board import Board
from scheduler.metrics.catalog import OWN_METRICS
from scheduler.metrics.classes import PriorityClasses
from scheduler.metrics.families import empty_families
from scheduler.metrics.held import add_held
from scheduler.metrics.jobs import JobTally
from scheduler.metrics.queues import add_queues
from scheduler.metrics.slots import add_loads, add_slots
from scheduler.model.ids import NodeName
from scheduler.model.observation import SlotLoad


class Levels:
    """Reads the board's world, and what others keep."""

    def __init__(self, board: Board, classes: PriorityClasses, now: Callable[[], float]) -> None:
        self._board = board
        self._now = now
        self._watched: list[tuple[str, tuple[str, ...], Callable[[], float]]] = []
        self.jobs = JobTally(classes)
        self.leading = False
        #: How busy slots were when the last tick looked.
        self.loads: Mapping[NodeName, tuple[SlotLoad, ...]] = {}

    def watch(self, name: str, level: Callable[[], float], *labels: str) -> None:
        """Ask for a number at every scrape."""
        self._watched.append((name, labels, level))

    def text(self, *, openmetrics: bool) -> str:
        """A standby or a daemon that has not loaded its world says only that it does not lead."""
        families = empty_families(OWN_METRICS)
        families["sched_leading"].add([], float(self.leading))
        families["sched_build_info"].add([__version__], 1)
        for name, labels, level in self._watched:
            families[name].add(labels, level())
        world = self._board.world
        if world is not None and self.leading:
            add_slots(families, world)
            add_held(families, world)
            add_queues(families, self._board.shares)
            add_loads(families, world, self.loads)
            self.jobs.add_to(families, world, self._now())
        return "".join(line for family in families.values() for line in family.text(openmetrics=openmetrics))
