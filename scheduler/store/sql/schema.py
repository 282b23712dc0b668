"""Tables, indexes and constraints: the same on SQLite and PostgreSQL. `migrations/` builds what stands here.

Integers are 64 bits wide, floats are doubles, lists and mappings are JSON text that no query looks into but
for labels. States are text with a CHECK; reasons and kinds of events are vocabularies that grow with every
version and that no invariant hangs on, so they have none. Ids of jobs, intents, events and recurring jobs
come from the one row of `counters`: whoever writes locks it until its commit, so ids are never reused
and become visible in their order, which readers of events and intents rely on.
"""

from collections.abc import Iterable
from enum import StrEnum

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from scheduler.model.booking import BookingState
from scheduler.model.intent import IntentKind
from scheduler.model.job import Runtime
from scheduler.model.job_state import ACTIVE_STATES, TERMINAL_STATES, JobState
from scheduler.model.node import NodeHealth, NodeIntent
from scheduler.model.worker import LIVE_STATES, Desired, WorkerState

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

#: SQLite makes only a column of exactly this type the row's own address.
Key = BigInteger().with_variant(Integer(), "sqlite")


def _listed(members: Iterable[StrEnum]) -> str:
    return ", ".join(f"'{member.value}'" for member in sorted(members))


def _one_of(column: str, members: Iterable[StrEnum]) -> CheckConstraint:
    return CheckConstraint(f"{column} IN ({_listed(members)})", name=column)


lease = Table(
    "lease",
    metadata,
    Column("id", Key, primary_key=True, autoincrement=False),
    Column("holder", Text),
    Column("term", BigInteger, nullable=False),
    Column("expires_at", Double, nullable=False),
    Column("ttl_seconds", Double, nullable=False),
    Column("url", Text),
    # Number of the newest commit. Whoever commits locks the row, so that numbers become visible in their order.
    Column("revision", BigInteger, nullable=False),
    # One moment on all clocks of its newest holder; NULL: it has stored none.
    Column("anchor_now", Double),
    Column("anchor_wall", Double),
    Column("anchor_booted", Double),
    Column("anchor_boot", Text),
    # By how much the confirmed time of people's clocks is ahead of that; NULL is 0.
    Column("ahead_seconds", Double),
    # Where the workers run; NULL: it was not said.
    Column("place", Text),
    Column("place_name", Text),
    CheckConstraint("id = 1", name="one_row"),
)

counters = Table(
    "counters",
    metadata,
    Column("id", Key, primary_key=True, autoincrement=False),
    *(Column(name, BigInteger, nullable=False) for name in ("jobs", "intents", "events", "recurring")),
    CheckConstraint("id = 1", name="one_row"),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", Key, primary_key=True, autoincrement=False),
    # As submitted; never changes.
    Column("name", Text, nullable=False),
    Column("client_key", Text),
    Column("user_name", Text, nullable=False),
    Column("runtime", Text, nullable=False),
    Column("launch", Text, nullable=False),
    Column("labels", Text, nullable=False),
    Column("spec_priority", BigInteger, nullable=False),
    Column("spec_min_workers", BigInteger, nullable=False),
    Column("spec_max_workers", BigInteger, nullable=False),
    Column("slots_per_worker", BigInteger, nullable=False),
    Column("cpus_per_worker", Double, nullable=False),
    Column("memory_mib_per_worker", BigInteger, nullable=False),
    Column("node_selector", Text, nullable=False),
    Column("gpu_type", Text),
    Column("time_limit_seconds", Double),
    Column("max_retries", BigInteger, nullable=False),
    Column("grace_seconds", Double, nullable=False),
    Column("heartbeat_seconds", Double),
    Column("preemptible", Boolean, nullable=False),
    Column("preferred_workers", BigInteger),
    Column("expected_seconds", Double),
    Column("speedup", Text),
    # NULL is false, here and in the other columns that are younger than their table.
    Column("oversell", Boolean),
    Column("booking", Text),
    # NULL is none.
    Column("data", Text),
    Column("export", Text),
    Column("nonce", Text),
    Column("submitted_at", Double, nullable=False),
    # What has become of it.
    Column("priority", BigInteger, nullable=False),
    Column("min_workers", BigInteger, nullable=False),
    Column("max_workers", BigInteger, nullable=False),
    Column("queued_at", Double, nullable=False),
    Column("state", Text, nullable=False),
    Column("held_from", Text),
    Column("active", Boolean, nullable=False),
    Column("waited_seconds", Double, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("retries_used", BigInteger, nullable=False),
    Column("last_failure_at", Double),
    Column("not_before", Double, nullable=False),
    Column("next_ordinal", BigInteger, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("published_size", BigInteger, nullable=False),
    # NULL also: it was started again before the column was there.
    Column("first_started_at", Double),
    Column("started_at", Double),
    Column("running_at", Double),
    Column("finished_at", Double),
    Column("last_resize_at", Double),
    # NULL is none: the column is younger than the table.
    Column("served_slot_seconds", Double),
    Column("finishing", Boolean, nullable=False),
    Column("master_port", BigInteger, nullable=False),
    Column("wait_reason", Text),
    Column("wait_for", BigInteger),
    Column("stop_reason", Text),
    Column("stop_for", BigInteger),
    Column("detail", Text, nullable=False),
    Column("exit_code", BigInteger),
    Column("reservation", Text, nullable=False),
    Column("reservation_shared", Boolean),
    # NULL is none.
    Column("fixed_reservation", Text),
    Column("fixed_hosts", Text),
    Column("progress", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    # The commit that wrote the row last; NULL: none has since the column is there.
    Column("revision", BigInteger),
    _one_of("state", JobState),
    _one_of("runtime", Runtime),
    CheckConstraint("min_workers >= 1 AND min_workers <= max_workers", name="bounds"),
    CheckConstraint("spec_min_workers >= 1 AND spec_min_workers <= spec_max_workers", name="spec_bounds"),
    CheckConstraint("slots_per_worker >= 1", name="slots_per_worker"),
    CheckConstraint(f"active = (state IN ({_listed(ACTIVE_STATES)}))", name="active"),
    CheckConstraint(f"(finished_at IS NOT NULL) = (state IN ({_listed(TERMINAL_STATES)}))", name="finished"),
    CheckConstraint("state <> 'STOPPING' OR stop_reason IS NOT NULL", name="stop_reason"),
    CheckConstraint("(held_from IS NOT NULL) = (state = 'HELD')", name="held"),
    CheckConstraint("attempt >= 0 AND retries_used >= 0 AND generation >= 0 AND next_ordinal >= 1", name="counts"),
    CheckConstraint("published_size >= 0 AND (active OR published_size = 0)", name="published"),
    UniqueConstraint("client_key"),
    # What a live worker refers to.
    UniqueConstraint("id", "active"),
    Index(None, "state", "id"),
    Index(None, "revision"),
    Index(
        None,
        "finished_at",
        sqlite_where=text("finished_at IS NOT NULL"),
        postgresql_where=text("finished_at IS NOT NULL"),
    ),
)

workers = Table(
    "workers",
    metadata,
    Column("job_id", Key, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("ordinal", Key, primary_key=True),
    Column("node", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("slot_ids", Text, nullable=False),
    Column("shared", Boolean),
    Column("fixed_index", BigInteger),
    Column("created_at", Double, nullable=False),
    Column("cpus", Double, nullable=False),
    Column("memory_mib", BigInteger, nullable=False),
    Column("not_before", Double, nullable=False),
    Column("desired", Text, nullable=False),
    Column("state", Text, nullable=False),
    # True while the worker lives, NULL afterwards: its foreign key then holds nothing.
    Column("live", Boolean),
    Column("rank", BigInteger),
    Column("reported_generation", BigInteger, nullable=False),
    Column("endpoint", Text),
    Column("peer", Text),
    Column("started_at", Double),
    Column("ready_at", Double),
    Column("leave_reason", Text),
    Column("leave_for", BigInteger),
    Column("stop_deadline", Double),
    Column("ended_at", Double),
    Column("exit_code", BigInteger),
    Column("exit_reason", Text),
    # NULL is nothing.
    Column("detail", Text),
    _one_of("desired", Desired),
    _one_of("state", WorkerState),
    CheckConstraint("live IS NULL OR live = true", name="live_or_null"),
    CheckConstraint(f"(live IS NOT NULL) = (state IN ({_listed(LIVE_STATES)}))", name="live"),
    CheckConstraint("(ended_at IS NULL) = (live IS NOT NULL)", name="ended"),
    CheckConstraint("desired <> 'STOP' OR leave_reason IS NOT NULL", name="leave_reason"),
    CheckConstraint("ordinal >= 1 AND (rank IS NULL OR rank >= 0)", name="counts"),
    # A live worker belongs to an active job. Checked at the commit, where a job and its workers change together.
    ForeignKeyConstraint(
        ["job_id", "live"],
        ["jobs.id", "jobs.active"],
        deferrable=True,
        initially="DEFERRED",
        name="fk_workers_live_job",
    ),
    Index(
        "ix_workers_live", "job_id", sqlite_where=text("live IS NOT NULL"), postgresql_where=text("live IS NOT NULL")
    ),
)

data_queues = Table(
    "data_queues",
    metadata,
    Column("job_id", Key, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
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

generations = Table(
    "generations",
    metadata,
    Column("job_id", Key, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("generation", Key, primary_key=True),
    Column("published_at", Double, nullable=False),
    Column("members", Text, nullable=False),
    Column("current", Boolean, nullable=False),
    Index(
        "uq_generations_current",
        "job_id",
        unique=True,
        sqlite_where=text("current"),
        postgresql_where=text("current"),
    ),
)

nodes = Table(
    "nodes",
    metadata,
    Column("name", Text, primary_key=True),
    Column("host", Text, nullable=False),
    Column("slots", BigInteger, nullable=False),
    Column("cpus", Double, nullable=False),
    Column("memory_mib", BigInteger, nullable=False),
    Column("labels", Text, nullable=False),
    Column("gpu_type", Text),
    Column("has_gpus", Boolean, nullable=False),
    # NULL is 1.
    Column("oversell", Double),
    # NULL is open.
    Column("closed", Text),
    Column("health", Text, nullable=False),
    Column("intent", Text, nullable=False),
    Column("failures", Text, nullable=False),
    Column("quarantines", BigInteger, nullable=False),
    Column("quarantined_until", Double),
    # NULL is none.
    Column("closed_slots", Text),
    Column("accepted_faults", Text),
    Column("unlisted_since", Double),
    Column("version", BigInteger, nullable=False),
    # As of jobs.
    Column("revision", BigInteger),
    _one_of("health", NodeHealth),
    _one_of("intent", NodeIntent),
    CheckConstraint("slots >= 0 AND cpus >= 0 AND memory_mib >= 0", name="capacity"),
    CheckConstraint("intent <> 'QUARANTINED' OR quarantined_until IS NOT NULL", name="quarantined"),
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
    _one_of("kind", IntentKind),
    CheckConstraint("(node IS NOT NULL) = (kind IN ('CORDON', 'DRAIN', 'UNCORDON'))", name="node"),
    CheckConstraint("(booking IS NOT NULL) = (kind IN ('BOOK', 'UNBOOK'))", name="booking"),
    CheckConstraint("(job_id IS NULL) = (node IS NOT NULL OR booking IS NOT NULL)", name="target"),
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
    _one_of("state", set(BookingState) - {BookingState.OVER}),
    CheckConstraint("start_at < end_at", name="window"),
    CheckConstraint("workers >= 1 AND slots_per_worker >= 1", name="size"),
)

events = Table(
    "events",
    metadata,
    Column("id", Key, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("kind", Text, nullable=False),
    Column("job_id", BigInteger),
    Column("worker_id", Text),
    Column("node", Text),
    Column("cause", Text, nullable=False),
    Column("for_job", BigInteger),
    Column("detail", Text, nullable=False),
    Column("amount", Double),
    Index(None, "job_id", "id"),
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
)

secrets = Table(
    "secrets",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", LargeBinary, nullable=False),
)

#: Rows that could not be read and were replaced, as they were.
replaced_rows = Table(
    "replaced_rows",
    metadata,
    Column("table_name", Text, primary_key=True),
    Column("row_key", Text, primary_key=True),
    Column("at", Double, primary_key=True),
    Column("reason", Text, nullable=False),
    # JSON: the columns by name.
    Column("content", Text, nullable=False),
)
