"""The world of an engine that does not lead: loaded once, then kept in step with what the leader commits.

It fills the board as a leader does, so that hosts are answered and jobs shown while others decide; and whoever takes
the lead has its world already.
"""

from collections.abc import Sequence
from dataclasses import replace

from scheduler.engine import collector
from scheduler.engine.board import Board
from scheduler.engine.ports import Store, StoredNews
from scheduler.model.booking import Booking, BookingState
from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.world import Changes, World


class Follower:
    """Used by the engine's thread."""

    def __init__(self, store: Store, board: Board) -> None:
        self._store = store
        self._board = board
        self._world: World | None = None
        #: The newest commit that the world holds.
        self.revision = 0

    def follow(self, revision: int) -> Sequence[Job]:
        """Come up to at least this commit; the jobs that changed."""
        if self._world is not None and revision == self.revision:
            return ()
        return self._catch_up()[1]

    def take_over(self) -> World:
        """The world as the last leader left it; nobody else may commit any more."""
        world, _ = self._catch_up()
        self.forget()
        return world

    def forget(self) -> None:
        """Load everything at the next time."""
        self._world = None

    def _catch_up(self) -> tuple[World, Sequence[Job]]:
        if self._world is None:
            return self._load()
        news = self._store.load_news(self.revision)
        world = self._world.evolve(_changes(self._world, news))
        self._board.update(world, news.jobs)
        self._board.expect(JobId(news.highest_job_id))
        self._world, self.revision = world, news.revision
        return world, news.jobs

    def _load(self) -> tuple[World, Sequence[Job]]:
        stored = self._store.load_world()
        world = World.of(stored.jobs, stored.nodes, stored.bookings)
        collector.keep(len(stored.jobs) + sum(len(job.workers) for job in stored.jobs))
        self._board.load(world, stored.admitted_job_id)
        self._board.expect(JobId(stored.highest_job_id))
        self._world, self.revision = world, stored.revision
        return world, stored.jobs


def _changes(world: World, news: StoredNews) -> Changes:
    return Changes(jobs=tuple(news.jobs), nodes=tuple(news.nodes), bookings=tuple(_bookings(world, news.bookings)))


def _bookings(world: World, present: Sequence[Booking]) -> list[Booking]:
    """Those that differ from the world's; what is not stored any more is over."""
    changed = [booking for booking in present if world.bookings.get(booking.name) != booking]
    names = {booking.name for booking in present}
    gone = (booking for name, booking in world.bookings.items() if name not in names)
    return [*changed, *(replace(booking, state=BookingState.OVER) for booking in gone)]
