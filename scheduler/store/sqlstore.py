"""The store: each method is one transaction. What a method does inside it stands in the module it calls.

The methods of the engine are in `engine_methods`, those by which users read in `query_methods`, those about callers in
`identity_methods`, and those about queues in `queue_methods`.
"""

from collections.abc import Callable, Mapping, Sequence

from scheduler.model.booking import Booking
from scheduler.model.data import ShardSetAside
from scheduler.model.data_queue import DataQueue
from scheduler.model.identity import Identity
from scheduler.model.ids import JobId, NodeName
from scheduler.model.intent import Intent, IntentKind
from scheduler.model.job import JobSpec
from scheduler.store.engine_methods import EngineMethods
from scheduler.store.identity_methods import IdentityMethods
from scheduler.store.query_methods import QueryMethods
from scheduler.store.queue_methods import QueueMethods
from scheduler.store.records import Delivery, Exchanged, Purged, Recurring, ShardsAsked, Submitted
from scheduler.store.requests import bookings, queues, recurring, retention, secret, shards, submit, webhooks
from scheduler.store.sql.notify import Word, announce


class SqlStore(EngineMethods, QueryMethods, IdentityMethods, QueueMethods):
    """Jobs, nodes, intents and history in SQLite or PostgreSQL; safe to share between threads.

    Implements `scheduler.engine.ports.Store` for the engine, and what users need beside it. Every method may
    raise `StoreUnavailable` (locked, full, out of reach: try again), `SchemaMismatch`, or `InvalidInput` for
    a value that the database cannot hold.
    """

    # Users' requests

    def submit(self, specs: Sequence[JobSpec], now: float) -> list[Submitted]:
        """Store the jobs, all or none; a client key that is known gives its first job.

        Raises `InvalidInput` for a queue that does not exist, and `LimitReached` for one that takes no more jobs.
        """
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

    def exchange_shards(
        self, asked: Sequence[ShardsAsked], now: float, heard_since: float, goes_on: Callable[[], bool] = lambda: True
    ) -> Exchanged:
        """Make the calls of readers together, in their order: at least one, the others while it goes on.

        `heard_since`: when this process began to listen to readers; silence before proves nothing.
        """
        with self._database.write() as connection:
            return self._queues.exchange(connection, asked, now, heard_since, goes_on)

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

    # Recurring jobs

    def add_recurring(
        self, cron: str, timezone: str, spec: JobSpec, now: float, submitter: Identity | None = None
    ) -> int:
        """Store a recurring job; its id. Neither expression nor timezone is checked here.

        Raises `InvalidInput` for a queue that does not exist.
        """
        with self._database.write() as connection:
            queues.check_named(connection, spec.queue)
            return recurring.add(connection, cron, timezone, spec, now, submitter)

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

    def refuse_recurring(self, recurring_id: int, why: str, now: float) -> None:
        """Remember why its job is not submitted for the time that is due."""
        with self._database.write() as connection:
            recurring.refuse(connection, self._statements, recurring_id, why, now)

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
