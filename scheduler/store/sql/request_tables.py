"""Tables that are written for users: what they ask of the engine, and their data, webhooks and recurring jobs."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    LargeBinary,
    Table,
    Text,
    text,
)

from scheduler.model.booking import BookingState
from scheduler.model.intent import IntentKind
from scheduler.store.sql.engine_tables import jobs
from scheduler.store.sql.metadata import Key, metadata, one_of

data_queues = Table(
    "data_queues",
    metadata,
    Column("job_id", Key, ForeignKey(jobs.c.id, ondelete="CASCADE"), primary_key=True),
    Column("cursor", BigInteger, nullable=False),
    Column("done", BigInteger, nullable=False),
    Column("set_aside", BigInteger, nullable=False),
    Column("total", BigInteger, nullable=False),
    Column("returned", Text, nullable=False),
    Column("tried", Text, nullable=False),
    Column("failures", Text, nullable=False),
    # Another one with each change: whoever knows it knows the queue and its readers.
    Column("mark", Text, nullable=False),
    Column("forgiven_at", BigInteger),
    CheckConstraint("cursor <= total AND done + set_aside <= cursor", name="counts"),
)

shard_readers = Table(
    "shard_readers",
    metadata,
    Column("job_id", Key, ForeignKey("data_queues.job_id", ondelete="CASCADE"), primary_key=True),
    Column("ordinal", Key, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("held", Text, nullable=False),
    Column("alone", Boolean, nullable=False),
    Column("deadline", Double, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("refused", Text, nullable=False),
    Column("failed", Text),
)

shards_set_aside = Table(
    "shards_set_aside",
    metadata,
    Column("job_id", Key, ForeignKey("data_queues.job_id", ondelete="CASCADE"), primary_key=True),
    Column("position", Key, primary_key=True),
    Column("at", Double, nullable=False),
    Column("detail", Text, nullable=False),
)

intents = Table(
    "intents",
    metadata,
    Column("id", Key, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("job_id", BigInteger),
    Column("node", Text),
    Column("priority", BigInteger),
    Column("min_workers", BigInteger),
    Column("max_workers", BigInteger),
    Column("booking", Text),
    Column("queue", Text),
    one_of("kind", IntentKind),
    CheckConstraint("(node IS NOT NULL) = (kind IN ('CORDON', 'DRAIN', 'UNCORDON'))", name="node"),
    CheckConstraint("(booking IS NOT NULL) = (kind IN ('BOOK', 'UNBOOK'))", name="booking"),
    CheckConstraint("(queue IS NOT NULL) = (kind = 'QUEUE')", name="queue"),
    CheckConstraint("(job_id IS NULL) = (node IS NOT NULL OR booking IS NOT NULL OR queue IS NOT NULL)", name="target"),
    CheckConstraint("(priority IS NOT NULL) = (kind = 'PRIORITY')", name="priority"),
    CheckConstraint("(min_workers IS NOT NULL OR max_workers IS NOT NULL) = (kind = 'SCALE')", name="scale"),
    # A job enters the queue once.
    Index(
        "uq_intents_submit",
        "job_id",
        unique=True,
        sqlite_where=text("kind = 'SUBMIT'"),
        postgresql_where=text("kind = 'SUBMIT'"),
    ),
)

bookings = Table(
    "bookings",
    metadata,
    Column("name", Text, primary_key=True),
    Column("start_at", Double, nullable=False),
    Column("end_at", Double, nullable=False),
    Column("workers", BigInteger, nullable=False),
    Column("slots_per_worker", BigInteger, nullable=False),
    Column("cpus_per_worker", Double, nullable=False),
    Column("memory_mib_per_worker", BigInteger, nullable=False),
    Column("node_selector", Text, nullable=False),
    Column("gpu_type", Text),
    Column("created_at", Double, nullable=False),
    Column("user_name", Text),
    Column("priority_min", BigInteger),
    Column("state", Text, nullable=False),
    # The row of one that is over is removed.
    one_of("state", set(BookingState) - {BookingState.OVER}),
    CheckConstraint("start_at < end_at", name="window"),
    CheckConstraint("workers >= 1 AND slots_per_worker >= 1", name="size"),
)

queues = Table(
    "queues",
    metadata,
    Column("path", Text, primary_key=True),
    Column("created_at", Double, nullable=False),
    Column("guarantee", Text, nullable=False),
    Column("limit", Text, nullable=False),
    Column("weight", Double, nullable=False),
    Column("share_users", Boolean, nullable=False),
    Column("user_limit", BigInteger),
    Column("priority_max", BigInteger),
    Column("max_jobs", BigInteger),
    Column("members", Text, nullable=False),
    Column("budget", BigInteger),
)

webhooks = Table(
    "webhooks",
    metadata,
    Column("name", Text, primary_key=True),
    # All events up to this id are delivered, as far as they are asked for.
    Column("position", BigInteger, nullable=False),
    Column("delivered", BigInteger, nullable=False),
    Column("delivered_at", Double),
    # Of the event that comes next; what failed of them, NULL: nothing.
    Column("attempts", BigInteger, nullable=False),
    Column("failing_since", Double),
    Column("next_try_at", Double),
    Column("error", Text),
    CheckConstraint("position >= 0 AND delivered >= 0 AND attempts >= 0", name="counts"),
)

recurring = Table(
    "recurring",
    metadata,
    Column("id", Key, primary_key=True, autoincrement=False),
    Column("cron", Text, nullable=False),
    Column("timezone", Text, nullable=False),
    Column("spec", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("last_run_at", Double),
    Column("deleted_at", Double),
    # Who created it; NULL: nobody knows, as it was created before that was stored.
    Column("submitter", Text),
    # Why no job was submitted for the time that is due; NULL: nothing is due, or it was not tried yet.
    Column("refusal", Text),
)

secrets = Table(
    "secrets",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", LargeBinary, nullable=False),
)
