"""The store: each method is one transaction. What a method does inside it stands in the module it calls."""

import secrets as random_source
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from sqlalchemy import Connection

from scheduler.engine.ports import Anchor, Inbox, Lease, Place, SeenLease, StoredNews, StoredWorld
from scheduler.model.booking import Booking
from scheduler.model.data import ShardSetAside
from scheduler.model.data_queue import DataQueue
from scheduler.model.event import Event, EventKind
from scheduler.model.hosts import HostList
from scheduler.model.ids import JobId, NodeName
from scheduler.model.intent import Intent, IntentKind
from scheduler.model.job import Job, JobSpec
from scheduler.model.job_state import JobState
from scheduler.model.node import Node
from scheduler.model.report import Report, Usage, Window
from scheduler.model.unreadable import Unreadable
from scheduler.model.worker import Worker
from scheduler.model.world import Changes
from scheduler.store.codec.reading import SetAside
from scheduler.store.engine_side import commit, leadership, load
from scheduler.store.queries import browse, report, slot_usage, unreadable_rows
from scheduler.store.queries.unreadable_rows import Met
from scheduler.store.records import (
    Delivery,
    Exchanged,
    JobFilter,
    JobPage,
    Purged,
    Recurring,
    ShardsAsked,
    StoredRow,
    Submitted,
    WorkerPage,
)
from scheduler.store.requests import bookings, recurring, retention, secret, shards, submit, webhooks
from scheduler.store.sql import migrate
from scheduler.store.sql.bulk_statements import Statements
from scheduler.store.sql.database import Database
from scheduler.store.sql.notify import Listener, Word, announce

EVERY_JOB = JobFilter()


class _Rehearsed(Exception):
    """All of it could be written; the transaction is rolled back by this."""


class SqlStore:
    """Jobs, nodes, intents and history in SQLite or PostgreSQL; safe to share between threads.

    Implements `scheduler.engine.ports.Store` for the engine, and what users need beside it. Every method may
    raise `StoreUnavailable` (locked, full, out of reach: try again), `SchemaMismatch`, or `InvalidInput` for
    a value that the database cannot hold.
    """

    def __init__(
        self,
        url: str,
        *,
        busy_timeout_seconds: float = 5.0,
        durable: bool = True,
        random_bytes: Callable[[int], bytes] = random_source.token_bytes,
    ) -> None:
        """Opens nothing yet. Raises `ConfigError` for a URL that is neither a SQLite file nor PostgreSQL.

        `durable=False`: a commit may be lost by a power failure, for simulations only.
        """
        self._database = Database(url, busy_timeout_seconds=busy_timeout_seconds, durable=durable)
        self._statements = Statements(self._database.writer.dialect)
        self._random_bytes = random_bytes
        #: Tells what this process announces from what others do.
        self._name = random_bytes(8).hex()
        self._met = Met()
        self._queues = shards.DataQueues(self._statements, self._name)

    @property
    def where(self) -> str:
        """The database for people: a path, or a URL without its password."""
        return self._database.where

    @property
    def file(self) -> Path | None:
        """The database's file; None: it has none."""
        return Path(self._database.url.database or "").absolute() if self._database.sqlite else None

    def measure(self, measured: Callable[[str], AbstractContextManager[None]]) -> None:
        """Have every transaction from now on surrounded by this, which is told its kind: read, write or urgent."""
        self._database.measured = measured

    def close(self) -> None:
        """Close its connections."""
        self._database.close()

    # Rows that cannot be read

    @property
    def unreadable(self) -> tuple[Unreadable, ...]:
        """Those that this process has met, by table and key."""
        return self._met.rows

    def look_again(self) -> tuple[Unreadable, ...]:
        """Those of them that can be read by now, or are gone."""
        with self._database.read() as connection:
            return self._met.look_again(connection)

    def scan_unreadable(self, take: Callable[[StoredRow], None]) -> None:
        """Read every row of every table, and hand on those that cannot be read."""
        with self._database.read() as connection:
            for row in unreadable_rows.scan(connection):
                take(row)

    @contextmanager
    def _reading(self) -> Iterator[tuple[Connection, SetAside]]:
        """A snapshot, and where to put what cannot be read of it."""
        aside = SetAside()
        try:
            with self._database.read() as connection:
                yield connection, aside
        finally:
            self._met.add(aside.found)

    # The schema

    def upgrade(self) -> None:
        """Create or migrate the tables. Safe if several processes do it at once."""
        migrate.upgrade(self._database)

    def check_schema(self) -> None:
        """Raise `SchemaMismatch` unless the tables are those of this version."""
        migrate.check(self._database)

    # The engine's side

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

    def load_world(self) -> StoredWorld:
        """Jobs that have not ended, with live workers, and bookings, both without those in the inbox; nodes."""
        with self._reading() as (connection, aside):
            return load.load_world(connection, aside)

    def load_news(self, since: int) -> StoredNews:
        """What commits after that revision changed: jobs, also ended ones, and nodes; bookings are all of them."""
        with self._reading() as (connection, aside):
            return load.load_news(connection, since, aside)

    def take_inbox(self, limit: int) -> Inbox:
        """The oldest intents, the jobs and the bookings that they ask for; they stay until a commit names them done."""
        with self._reading() as (connection, aside):
            return load.take_inbox(connection, limit, aside)

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

    # Users' requests

    def submit(self, specs: Sequence[JobSpec], now: float) -> list[Submitted]:
        """Store the jobs, all or none; a client key that is known gives its first job."""
        if not specs:
            return []
        with self._database.write() as connection:
            submitted = submit.submit(connection, self._statements, specs, now, self._random_bytes)
            announce(connection, Word.ASKED, self._name)
            return submitted

    def add_intent(
        self,
        kind: IntentKind,
        now: float,
        *,
        job_id: JobId | None = None,
        node: NodeName | None = None,
        priority: int | None = None,
        min_workers: int | None = None,
        max_workers: int | None = None,
        booking: str | None = None,
    ) -> int:
        """Store a request for the next tick; its id. Raises `InvalidInput` if the parts do not go together."""
        return self.add_intents([Intent(0, kind, now, job_id, node, priority, min_workers, max_workers, booking)])[0]

    def add_intents(self, intents: Sequence[Intent]) -> list[int]:
        """Store requests for the next tick, all or none, and give them ids. Raises `InvalidInput` as `add_intent`."""
        with self._database.write() as connection:
            ids = submit.add_intents(connection, self._statements, intents)
            announce(connection, Word.ASKED, self._name)
            return ids

    def add_booking(self, booking: Booking) -> int:
        """Store a booking for the next tick; its intent's id. Raises `Conflict` if its name is taken."""
        with self._database.write() as connection:
            intent_id = bookings.add(connection, self._statements, booking)
            announce(connection, Word.ASKED, self._name)
            return intent_id

    # Data sets

    def exchange_shards(self, asked: Sequence[ShardsAsked], now: float, heard_since: float) -> Exchanged:
        """Make the calls of readers together, in their order.

        `heard_since`: when this process began to listen to readers; silence before proves nothing.
        """
        with self._database.write() as connection:
            return self._queues.exchange(connection, asked, now, heard_since)

    def read_queues(self, job_ids: Sequence[JobId]) -> Mapping[JobId, DataQueue]:
        """The data of these jobs as it stands, to be read only; jobs that have declared none are not in it."""
        with self._reading() as (connection, aside):
            return shards.read(connection, job_ids, aside)

    def data_shares_done(self) -> Mapping[JobId, float]:
        """The share of its data that each active job is done with."""
        with self._database.read() as connection:
            return shards.shares_done(connection)

    def list_set_aside(self, job_id: JobId, limit: int = 100) -> list[ShardSetAside]:
        """Shards of its data that failed too often."""
        with self._reading() as (connection, aside):
            return shards.list_set_aside(connection, job_id, limit, aside)

    # What users read

    def get_job(self, job_id: JobId) -> Job | None:
        """The job with its live workers. Raises `UnreadableRow`."""
        with self._reading() as (connection, aside):
            return browse.get_job(connection, job_id, aside)

    def find_job(self, client_key: str) -> JobId | None:
        """The job that was submitted under this key."""
        with self._database.read() as connection:
            return browse.find_job(connection, client_key)

    def list_jobs(
        self, wanted: JobFilter = EVERY_JOB, after: int | None = None, limit: int = 100, *, descending: bool = False
    ) -> list[Job]:
        """Jobs by id, those beyond `after` in the chosen direction, as far as they can be read."""
        return list(self.page_of_jobs(wanted, after, limit, descending=descending).jobs)

    def page_of_jobs(
        self, wanted: JobFilter = EVERY_JOB, after: int | None = None, limit: int = 100, *, descending: bool = False
    ) -> JobPage:
        """A page of jobs by id: those that can be read, those that cannot, and where the next page begins."""
        with self._reading() as (connection, aside):
            return browse.list_jobs(connection, wanted, after, limit, aside, descending=descending)

    def count_jobs(self) -> dict[JobState, int]:
        """How many jobs are stored in each state."""
        with self._database.read() as connection:
            return browse.count_jobs(connection)

    def list_workers(self, job_id: JobId, after: int = 0, limit: int = 100) -> list[Worker]:
        """Workers of all attempts, ended ones too, oldest first; those with an ordinal above `after`."""
        return list(self.page_of_workers(job_id, after, limit).workers)

    def page_of_workers(self, job_id: JobId, after: int = 0, limit: int = 100) -> WorkerPage:
        """A page of the job's workers: those that can be read, those that cannot, and where the next page begins."""
        with self._reading() as (connection, aside):
            return browse.list_workers(connection, job_id, after, limit, aside)

    def list_events(
        self, after: int | None = None, job_id: JobId | None = None, limit: int = 100, *, descending: bool = False
    ) -> list[tuple[int, Event]]:
        """Events with their ids, those beyond `after` in the chosen direction. No smaller id appears later."""
        with self._reading() as (connection, aside):
            return browse.list_events(connection, after, job_id, limit, aside, descending=descending)

    def newest_of_job(self, job_id: JobId, kinds: Collection[EventKind], limit: int) -> list[tuple[int, Event]]:
        """The newest events of these kinds of the job, newest first."""
        with self._reading() as (connection, aside):
            return browse.newest_of_job(connection, job_id, kinds, limit, aside)

    def newest_for_job(
        self, job_id: JobId, kinds: Collection[EventKind], limit: int, events_max: int
    ) -> list[tuple[int, Event]]:
        """Events of these kinds done for the job, among the newest `events_max` events; newest first."""
        with self._reading() as (connection, aside):
            return browse.newest_for_job(connection, job_id, kinds, limit, events_max, aside)

    def ended_workers(self, since: float, events_max: int) -> tuple[float, list[Worker]]:
        """Workers that ended since then, among the newest `events_max` events; and since when these are all."""
        with self._reading() as (connection, aside):
            return browse.ended_workers(connection, since, events_max, aside)

    def list_nodes(self) -> list[Node]:
        """All nodes by name."""
        with self._reading() as (connection, aside):
            return browse.list_nodes(connection, aside)

    def get_booking(self, name: str) -> Booking | None:
        """The booking, also one that no tick has decided on yet."""
        with self._database.read() as connection:
            return bookings.get(connection, name)

    def list_bookings(self) -> list[Booking]:
        """All bookings by start, also those that no tick has decided on yet."""
        with self._reading() as (connection, aside):
            return bookings.present(connection, aside)

    def published_hosts(self, job_id: JobId) -> HostList | None:
        """The host list that was published last for the job."""
        with self._database.read() as connection:
            return browse.published_hosts(connection, job_id)

    def usage(self, window: Window, classes: Sequence[int]) -> Usage:
        """Slots over time by priority class; `classes` are their lower bounds, ascending."""
        with self._database.read() as connection:
            return slot_usage.usage(connection, window, classes)

    def report(self, window: Window, classes: Sequence[int], users: int) -> Report:
        """Results of the window, with the `users` users that held most."""
        with self._database.read() as connection:
            return report.report(connection, window, classes, users)

    # Recurring jobs

    def add_recurring(self, cron: str, timezone: str, spec: JobSpec, now: float) -> int:
        """Store a recurring job; its id. Neither expression nor timezone is checked here."""
        with self._database.write() as connection:
            return recurring.add(connection, cron, timezone, spec, now)

    def get_recurring(self, recurring_id: int) -> Recurring | None:
        with self._database.read() as connection:
            return recurring.get(connection, recurring_id)

    def list_recurring(self) -> list[Recurring]:
        with self._reading() as (connection, aside):
            return recurring.present(connection, aside)

    def delete_recurring(self, recurring_id: int, now: float) -> bool:
        """Whether there was one. Its jobs and its row stay as history."""
        with self._database.write() as connection:
            return recurring.delete(connection, recurring_id, now)

    def mark_recurring_run(self, recurring_id: int, fire_time: float) -> None:
        """Remember that jobs of all times up to this one have been submitted."""
        with self._database.write() as connection:
            recurring.mark_run(connection, recurring_id, fire_time)

    def resume_recurring(self, recurring_id: int, since: float) -> None:
        """Submit jobs of the times from this one on, also of those for which some were submitted."""
        with self._database.write() as connection:
            recurring.resume(connection, recurring_id, since)

    # Webhooks

    def begin_webhook(self, name: str) -> Delivery:
        """How far the webhook of that name has got; one that is new begins with the next event."""
        with self._database.write() as connection:
            return webhooks.begin(connection, name)

    def scan_events(self, position: int, kinds: Sequence[str], limit: int) -> webhooks.Scanned:
        """Events of these kinds (of all, if none is named) among the `limit` that follow the position."""
        with self._reading() as (connection, aside):
            return webhooks.scan(connection, position, kinds, limit, aside)

    def save_delivery(self, delivery: Delivery) -> None:
        """Remember it, unless another process has got further."""
        with self._database.write() as connection:
            webhooks.save(connection, delivery)

    def list_deliveries(self) -> list[Delivery]:
        """How far each webhook has got."""
        with self._reading() as (connection, aside):
            return webhooks.present(connection, aside)

    def count_events_after(self, position: int, kinds: Sequence[str], limit: int) -> int:
        """How many events of these kinds (of all, if none is named) follow the position, at most `limit`."""
        with self._database.read() as connection:
            return webhooks.count_after(connection, position, kinds, limit)

    # Upkeep

    def purge(self, before_jobs: float, before_events: float, limit: int = 1000) -> Purged:
        """Remove ended jobs and events that are older; call again while a count reaches `limit`."""
        with self._database.write() as connection:
            return retention.purge(connection, before_jobs, before_events, limit)

    def secret(self, name: str) -> bytes:
        """32 random bytes that stay the same for this database; made at the first call."""
        return secret.get_or_create(self._database, name, self._random_bytes)
