"""Tables that the engine writes: jobs, workers and nodes, what was published and told of them, and who leads."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from scheduler.model.job import Runtime
from scheduler.model.job_state import ACTIVE_STATES, TERMINAL_STATES, JobState
from scheduler.model.node import NodeHealth, NodeIntent
from scheduler.model.worker import LIVE_STATES, Desired, WorkerState
from scheduler.store.sql.metadata import Key, listed, metadata, one_of

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

#: Selects the unfinished jobs of queues, in the words of their index.
IS_OF_A_QUEUE = text("finished_at IS NULL AND queue <> ''")

#: A job as it was submitted: no UPDATE writes these columns.
SUBMITTED = (
    Column("name", Text, nullable=False),
    Column("client_key", Text),
    Column("launch", Text, nullable=False),
    Column("user_name", Text, nullable=False),
    Column("runtime", Text, nullable=False),
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
    # Whether what it holds beyond its minimum is preemptible although it is not; NULL is false.
    Column("surplus_preemptible", Boolean),
    Column("preferred_workers", BigInteger),
    Column("expected_seconds", Double),
    Column("speedup", Text),
    # NULL is false, here and in the other columns that are younger than their table.
    Column("oversell", Boolean),
    Column("booking", Text),
    # Empty is the root.
    Column("queue", Text, nullable=False, server_default=text("''")),
    # NULL is none.
    Column("data", Text),
    Column("export", Text),
    Column("nonce", Text),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", Key, primary_key=True, autoincrement=False),
    *SUBMITTED,
    # What has become of it. The engine admits no job by a clock that is far ahead of its own.
    Column("submitted_at", Double, nullable=False),
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
    one_of("state", JobState),
    one_of("runtime", Runtime),
    CheckConstraint("min_workers >= 1 AND min_workers <= max_workers", name="bounds"),
    CheckConstraint("spec_min_workers >= 1 AND spec_min_workers <= spec_max_workers", name="spec_bounds"),
    CheckConstraint("slots_per_worker >= 1", name="slots_per_worker"),
    CheckConstraint(f"active = (state IN ({listed(ACTIVE_STATES)}))", name="active"),
    CheckConstraint(f"(finished_at IS NOT NULL) = (state IN ({listed(TERMINAL_STATES)}))", name="finished"),
    CheckConstraint("state <> 'STOPPING' OR stop_reason IS NOT NULL", name="stop_reason"),
    CheckConstraint("(held_from IS NOT NULL) = (state = 'HELD')", name="held"),
    CheckConstraint("attempt >= 0 AND retries_used >= 0 AND generation >= 0 AND next_ordinal >= 1", name="counts"),
    CheckConstraint("published_size >= 0 AND (active OR published_size = 0)", name="published"),
    UniqueConstraint("client_key"),
    # What a live worker refers to.
    UniqueConstraint("id", "active"),
    Index(None, "state", "id"),
    Index(None, "revision"),
    Index(None, "queue", sqlite_where=IS_OF_A_QUEUE, postgresql_where=IS_OF_A_QUEUE),
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
    one_of("desired", Desired),
    one_of("state", WorkerState),
    CheckConstraint("live IS NULL OR live = true", name="live_or_null"),
    CheckConstraint(f"(live IS NOT NULL) = (state IN ({listed(LIVE_STATES)}))", name="live"),
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

#: Selects a job's current generation, in the words of the index. `current = 1` would miss a row in which SQLite holds
#: another true number, such as 2, although the unique index counts that row.
IS_CURRENT = text("current")

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
        sqlite_where=IS_CURRENT,
        postgresql_where=IS_CURRENT,
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
    one_of("health", NodeHealth),
    one_of("intent", NodeIntent),
    CheckConstraint("slots >= 0 AND cpus >= 0 AND memory_mib >= 0", name="capacity"),
    CheckConstraint("intent <> 'QUARANTINED' OR quarantined_until IS NOT NULL", name="quarantined"),
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

#: What accounts hold since a moment; see `scheduler.model.account`. One that holds nothing keeps its row.
holdings = Table(
    "holdings",
    metadata,
    Column("queue", Text, primary_key=True),
    Column("user_name", Text, primary_key=True),
    # Empty is none.
    Column("gpu_type", Text, primary_key=True),
    Column("at", Double, nullable=False),
    Column("held_slots", BigInteger, nullable=False),
    Column("lent_slots", Double, nullable=False),
    # The commit that wrote the row last.
    Column("revision", BigInteger, nullable=False),
    Index(None, "revision"),
)

#: What accounts came to in each hour, up to what is held now. Retention removes none of it.
usage = Table(
    "usage",
    metadata,
    # Of people's clocks, counted from the epoch on.
    Column("hour", Key, primary_key=True, autoincrement=False),
    Column("queue", Text, primary_key=True),
    Column("user_name", Text, primary_key=True),
    Column("gpu_type", Text, primary_key=True),
    Column("held_seconds", Double, nullable=False),
    Column("lent_seconds", Double, nullable=False),
    Column("lost_seconds", Double, nullable=False),
)

#: Decayed usage of accounts in the tree of queues at a moment, and what they hold since.
queue_usage = Table(
    "queue_usage",
    metadata,
    Column("account", Text, primary_key=True),
    Column("at", Double, nullable=False),
    Column("slot_seconds", Double, nullable=False),
    Column("held_slots", BigInteger, nullable=False),
    # The commit that wrote the row last.
    Column("revision", BigInteger, nullable=False),
    Index(None, "revision"),
)

#: The GPU type that a node has had since a moment of the engine's clock; it stays when the node is forgotten.
node_types = Table(
    "node_types",
    metadata,
    Column("node", Text, primary_key=True),
    Column("since", Double, primary_key=True),
    # Empty is none.
    Column("gpu_type", Text, nullable=False),
)

#: The last month in which it was told of a queue that its budget is nearly spent.
budgets_told = Table(
    "budgets_told",
    metadata,
    Column("queue", Text, primary_key=True),
    # The first hour of the month, as those of usage.
    Column("month", BigInteger, nullable=False),
)
