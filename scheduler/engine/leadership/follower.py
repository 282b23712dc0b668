"""The world of an engine that does not lead: loaded once, then kept in step with the leader's commits.

It fills the board as a leader does, so that hosts are answered and jobs shown while another engine decides; an engine
that takes the lead has its world already.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from scheduler.engine.attribution.failure import Failure, failure_of
from scheduler.engine.board import Board, post
from scheduler.engine.leadership.repairs import Repairs
from scheduler.engine.ports import Store, StoredNews, StoredWorld
from scheduler.engine.timing import gc_pauses
from scheduler.model.booking import Booking, BookingState
from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.world import Changes, World


class Follower:
    """Used by the engine's thread."""

    def __init__(self, store: Store, board: Board, went_on: Callable[[], None]) -> None:
        """`went_on`: called again and again while all is loaded."""
        self._store = store
        self._went_on = went_on
        self._board = board
        self._repairs = Repairs(store)
        self._world: World | None = None
        #: Stored jobs with which no world can be built, and the failure of each.
        self.unloaded: tuple[tuple[Job, Failure], ...] = ()
        #: The newest commit that the world holds.
        self.revision = 0

    def follow(self, revision: int, now: float) -> Sequence[Job]:
        """Catch up to at least this commit, or load all where a row was mended; returns the jobs that changed."""
        if self._world is not None and self.repaired(now):
            self.forget()
        if self._world is not None and revision == self.revision:
            return ()
        return self._catch_up()[1]

    def take_over(self) -> World:
        """The world as the last leader left it; no other engine may commit any more."""
        world, _ = self._catch_up()
        self.forget()
        return world

    def repaired(self, now: float) -> bool:
        """Whether a row that could not be read can be read by now, so that the world has to be loaded again."""
        return self._repairs.found(now)

    def forget(self) -> None:
        """Load everything the next time."""
        self._world = None

    def _catch_up(self) -> tuple[World, Sequence[Job]]:
        if self._world is None:
            return self._load()
        news = self._store.load_news(self.revision)
        if not self._is_in_step(self._world, news):
            return self._load()
        world = self._world.evolve(_changes(self._world, news))
        world = world.with_queues({queue.path: queue for queue in news.queues})
        if len(world.nodes) != news.node_count:  # some were forgotten
            return self._load()
        self._board.update(world, news.jobs)
        self._board.expect(JobId(news.highest_job_id))
        self._world, self.revision = world, news.revision
        changed = {job.id for job in news.jobs}
        self.unloaded = tuple((job, failure) for job, failure in self.unloaded if job.id not in changed)
        return world, news.jobs

    @staticmethod
    def _is_in_step(world: World, news: StoredNews) -> bool:
        """Whether the news cannot be read where the world could not, and nowhere else."""
        return set(news.unreadable) <= set(world.unreadable) and not any(world.unread(job.id) for job in news.jobs)

    def _load(self) -> tuple[World, Sequence[Job]]:
        stored = self._store.load_world(self._went_on)
        world, self.unloaded = self._shown(stored)
        gc_pauses.keep(len(stored.jobs) + sum(len(job.workers) for job in stored.jobs))
        self._board.expect(JobId(stored.highest_job_id))
        self._world, self.revision = world, stored.revision
        return world, stored.jobs

    def _shown(self, stored: StoredWorld) -> tuple[World, tuple[tuple[Job, Failure], ...]]:
        """The world of all jobs with which one can be built, shown on the board."""
        try:
            return self._shown_with(stored, stored.jobs), ()
        except Exception:  # of one job or of several: find which
            unloaded = [(job, failure) for job in stored.jobs if (failure := _fails(job)) is not None]
            if not unloaded:
                raise
        without = {job.id for job, _ in unloaded}
        return self._shown_with(stored, [job for job in stored.jobs if job.id not in without]), tuple(unloaded)

    def _shown_with(self, stored: StoredWorld, jobs: Sequence[Job]) -> World:
        rows = (stored.nodes, stored.bookings, stored.unreadable, stored.ahead_seconds, stored.queues)
        world = World.of(jobs, *rows, stored.holdings, stored.queue_usage)
        self._board.load(world, stored.admitted_job_id)
        return world


def _fails(job: Job) -> Failure | None:
    """How a world of this job alone fails."""
    try:
        for active in World.of([job], ()).active.values():
            post(active)
    except Exception as error:
        return failure_of(error)
    return None


def _changes(world: World, news: StoredNews) -> Changes:
    bookings = tuple(_bookings(world, news.bookings))
    return Changes(
        jobs=tuple(news.jobs),
        nodes=tuple(news.nodes),
        bookings=bookings,
        ahead_seconds=news.ahead_seconds,
        holdings=tuple(news.holdings),
        queue_usage=tuple(news.queue_usage),
    )


def _bookings(world: World, present: Sequence[Booking]) -> list[Booking]:
    """Bookings that differ from the world's; those that are not stored any more are over."""
    changed = [booking for booking in present if world.bookings.get(booking.name) != booking]
    names = {booking.name for booking in present}
    gone = (booking for name, booking in world.bookings.items() if name not in names)
    return [*changed, *(replace(booking, state=BookingState.OVER) for booking in gone)]
