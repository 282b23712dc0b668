"""An engine that takes the lead keeps it however long the world takes to load."""

from collections.abc import Callable

from scheduler.clock import VirtualClock
from scheduler.engine.ports import StoredWorld
from scheduler.engine.tick import TICK_SECONDS_MAX, Engine
from scheduler.model.job import JobSpec
from scheduler.store.engine_side.load import ROWS_AT_ONCE
from scheduler.store.sqlstore import SqlStore
from tests.engine.replica import Replica
from tests.world import World

#: So often the engine hears of a load at least.
PARTS = 3
PART_SECONDS = 25.0


class SlowStore(SqlStore):
    """Each part of a load takes long, and a thread of the daemon keeps the lease meanwhile."""

    engine: Engine

    def __init__(self, url: str, clock: VirtualClock) -> None:
        super().__init__(url, durable=False)
        self._clock = clock
        self.parts = 0

    def load_world(self, went_on: Callable[[], None] = lambda: None) -> StoredWorld:
        def slowly() -> None:
            self._clock.advance(PART_SECONDS)
            self.engine.keep_lease()
            self.parts += 1
            went_on()

        return super().load_world(slowly)


def test_a_world_that_takes_minutes_to_load_costs_no_lead(w: World) -> None:
    w.store.submit([JobSpec("j", ("true",))] * (PARTS * ROWS_AT_ONCE), w.clock.now())
    while w.engine.tick().events:
        pass
    w.engine.release()
    store = SlowStore(f"sqlite:///{w.directory / 'world.db'}", w.clock)
    replica = Replica(w, store=store)
    store.engine = replica.engine
    report = replica.engine.tick()
    assert (report.leading, report.error) == (True, None)
    assert store.parts * PART_SECONDS > TICK_SECONDS_MAX + w.settings.engine.lease_seconds
    store.close()
