"""What the engine asks of the store: the lease, the world, the inbox, and the commit."""

from collections.abc import Callable
from contextlib import suppress

from scheduler.engine.ports import Anchor, Inbox, Lease, Place, SeenLease, StoredNews, StoredWorld
from scheduler.model.budget import MonthSoFar
from scheduler.model.world import Changes
from scheduler.store.database_access import DatabaseAccess
from scheduler.store.engine_side import commit, leadership, load
from scheduler.store.sql import migrate
from scheduler.store.sql.notify import Listener, Word, announce


class _Rehearsed(Exception):
    """All of it could be written; the transaction is rolled back by this."""


class EngineMethods(DatabaseAccess):
    """Leads, loads and commits, as `scheduler.engine.ports.Store` says."""

    def read_lease(self) -> SeenLease:
        """Who leads, and the number of the newest commit."""
        with self._database.read() as connection:
            return leadership.read(connection)

    def acquire_lease(
        self,
        holder: str,
        now: float,
        ttl_seconds: float,
        *,
        url: str | None = None,
        outlived: SeenLease | None = None,
        anchor: Anchor | None = None,
        place: Place | None = None,
    ) -> Lease | None:
        """Take the lease if it is free, already ours, or still as `outlived`; None while another holds it.

        Raises `SchemaMismatch` where the tables are not (any more) those of this version, `WorkersElsewhere` while
        workers live at another place than this one.
        """
        with self._database.write(urgent=True) as connection:
            lease = leadership.acquire(connection, holder, url, now, ttl_seconds, outlived, anchor, place)
            if lease is not None:
                migrate.check_on(connection, self.where)
                announce(connection, Word.LED, self._name)
            return lease

    def renew_lease(self, lease: Lease, now: float, ttl_seconds: float, *, anchor: Anchor | None = None) -> Lease:
        """Extend it; raises `LeaseLost`."""
        with self._database.write(urgent=True) as connection:
            renewed = leadership.renew(connection, lease, now, ttl_seconds, anchor)
            announce(connection, Word.LED, self._name)
            return renewed

    def release_lease(self, lease: Lease, *, anchor: Anchor | None = None) -> None:
        """Give it up; no error if it is lost already."""
        with self._database.write(urgent=True) as connection:
            leadership.release(connection, lease, anchor)
            announce(connection, Word.LED, self._name)

    def check_place(self, place: Place) -> None:
        """Raise `WorkersElsewhere` while workers live at another place than this one."""
        with self._database.read() as connection:
            leadership.check_place(connection, leadership.read(connection), place)

    def leave_place(self) -> None:
        """Forget where workers run: that place is lost."""
        with self._database.write() as connection:
            leadership.leave_place(connection)

    def load_world(self, went_on: Callable[[], None] = lambda: None) -> StoredWorld:
        """Jobs that have not ended, with live workers, and bookings, both without those in the inbox; nodes.

        `went_on` is called after each part of the rows.
        """
        with self._reading() as (connection, aside):
            return load.load_world(connection, aside, went_on)

    def load_news(self, since: int) -> StoredNews:
        """What commits after that revision changed: jobs, also ended ones, and nodes; bookings are all of them."""
        with self._reading() as (connection, aside):
            return load.load_news(connection, since, aside)

    def take_inbox(self, limit: int) -> Inbox:
        """The oldest intents, the jobs and the bookings that they ask for; they stay until a commit names them done."""
        with self._reading() as (connection, aside):
            return load.take_inbox(connection, limit, aside)

    def month_so_far(self, first_hour: int) -> MonthSoFar:
        """What queues are charged since that hour, in which a month begins, and of which it was told."""
        with self._database.read() as connection:
            return load.month_so_far(connection, first_hour)

    def commit(self, changes: Changes, lease: Lease, now: float) -> None:
        """Write all of it or nothing. Raises `LeaseLost` or `StaleWrite`."""
        with self._database.write(urgent=True) as connection:
            commit.commit(connection, self._statements, self._queues, changes, lease, now)
            announce(connection, Word.LED, self._name)

    def rehearse(self, changes: Changes, lease: Lease, now: float) -> None:
        """Raise what `commit` would raise, and write nothing."""
        with suppress(_Rehearsed), self._database.write(urgent=True) as connection:
            commit.commit(connection, self._statements, self._queues, changes, lease, now)
            raise _Rehearsed

    def listen(self, on_asked: Callable[[], None], on_led: Callable[[], None]) -> Listener | None:
        """Call these, on a thread of its own, when another process has asked for something or has led; see `Listener`.

        None on SQLite, which tells nobody anything: what others did is found by looking.
        """
        return None if self._database.sqlite else Listener(self._database, self._name, on_asked, on_led)
