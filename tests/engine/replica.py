"""A second engine beside the one of a world."""

from scheduler.clusters.simulated.cluster import SimulatedCluster
from scheduler.engine.apply.launch import LaunchContext
from scheduler.engine.board import Board
from scheduler.engine.ports import Anchor, EngineClock
from scheduler.engine.state.reports import ReportBox
from scheduler.engine.tick import Engine
from scheduler.store.sqlstore import SqlStore
from tests.world import World


class Skewed:
    """The world's clock as another machine reads it."""

    def __init__(self, clock: EngineClock, seconds: float) -> None:
        self._clock = clock
        self.seconds = seconds
        #: How much its monotonic clock is behind for having stood still.
        self.suspended_seconds = 0.0

    def now(self) -> float:
        return self._clock.now() + self.seconds

    def wall(self) -> float:
        return self.now()

    def anchor(self) -> None:
        return None

    def follow(self, anchor: Anchor | None) -> None:
        pass

    def monotonic(self) -> float:
        return self._clock.monotonic() - self.suspended_seconds


class Replica:
    """A second engine on the world's store and cluster."""

    def __init__(
        self,
        w: World,
        clock: EngineClock | None = None,
        store: SqlStore | None = None,
        cluster: SimulatedCluster | None = None,
    ) -> None:
        self.board = Board()
        launch = LaunchContext("http://127.0.0.1:2", lambda job: str(job.id), w.directory / "jobs")
        self.store = store or w.store
        self.engine = Engine(
            self.store,
            cluster or w.cluster,
            clock or w.clock,
            w.settings,
            launch,
            self.board,
            ReportBox(),
            "replica",
            "http://replica",
        )
