"""One daemon's metrics: counters and histograms from each tick's report, levels read from the board at every scrape."""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import choose_encoder

from scheduler.engine.board import Board
from scheduler.engine.ports import Clock, Cluster
from scheduler.engine.tick import TickReport
from scheduler.metrics.calls import MeasuredCluster, Stopwatch
from scheduler.metrics.catalog import OWN_METRICS
from scheduler.metrics.classes import PriorityClasses
from scheduler.metrics.events import EventCounts
from scheduler.metrics.levels import Levels
from scheduler.metrics.recorder import Recorder
from scheduler.metrics.spent import SlotSeconds
from scheduler.metrics.ticks import take_tick
from scheduler.model.unreadable import Unreadable

#: How OpenMetrics ends.
EOF = b"# EOF\n"


class Metrics:
    """All that is measured, in a registry of its own. `observe` is called on the engine's thread, the rest on any."""

    def __init__(self, board: Board, priority_classes: Iterable[int], clock: Clock) -> None:
        """`priority_classes` are lower bounds; empty: powers of ten."""
        disable_created_metrics()  # type: ignore[no-untyped-call]  # when a counter began tells nobody anything
        self._board = board
        self._registry = CollectorRegistry()
        classes = PriorityClasses(tuple(priority_classes))
        self._recorder = Recorder(OWN_METRICS, classes, self._registry)
        self._events = EventCounts(self._recorder, classes)
        self._spent = SlotSeconds(self._recorder, classes)
        self._levels = Levels(board, classes, clock.now)
        #: Whether jobs may have changed of which no report told: a tick has not come to its end.
        self._unsure = False
        #: Rows whose jobs are not followed.
        self._unreadable: tuple[Unreadable, ...] = ()
        ProcessCollector(registry=self._registry)
        self.stopwatch = Stopwatch(self._recorder, clock)

    def render(self) -> bytes:
        """Prometheus' text format."""
        return self.answer("")[0]

    def answer(self, accept: str) -> tuple[bytes, str]:
        """A scrape: the format that its Accept header asks for, OpenMetrics with examples among them, and its type."""
        encode, content_type = choose_encoder(accept)
        openmetrics = content_type.startswith("application/openmetrics-text")
        counted = encode(self._registry)
        levels = self._levels.text(openmetrics=openmetrics).encode()
        return (counted.removesuffix(EOF) + levels + EOF if openmetrics else counted + levels), content_type

    def crashed(self) -> None:
        """A tick ended by a defect."""
        self._unsure = True
        self._recorder.count("sched_tick_crashes_total")

    def watch(self, name: str, level: Callable[[], float], *labels: str) -> None:
        """Read a number that somebody else keeps at every scrape."""
        self._levels.watch(name, level, *labels)

    def measured(self, cluster: Cluster) -> MeasuredCluster:
        """The cluster, with its calls measured."""
        return MeasuredCluster(cluster, self.stopwatch)

    def observe(self, report: TickReport) -> None:
        """Take in what a tick did."""
        self._levels.leading = report.leading
        self._levels.loads = report.loads if report.error is None else self._levels.loads
        take_tick(self._recorder, report)
        self._follow(report)
        self._events.take(report)

    def _follow(self, report: TickReport) -> None:
        world = self._board.world
        if not report.leading or world is None:
            self._spent.stop()
            return
        # What was committed may be unknown after an error, and no report tells of a job whose row was mended: then all
        # jobs are looked at once more.
        anew, self._unsure = self._unsure and report.error is None, report.error is not None
        anew, self._unreadable = anew or world.unreadable != self._unreadable, world.unreadable
        self._spent.move(report.changed, report.at)
        if anew or not self._spent.following:
            self._spent.begin(world, report.at)
            self._levels.jobs.begin(world)
        else:
            self._levels.jobs.put(report.changed)
