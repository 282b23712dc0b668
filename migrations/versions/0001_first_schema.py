"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "counters",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("jobs", sa.BigInteger(), nullable=False),
        sa.Column("intents", sa.BigInteger(), nullable=False),
        sa.Column("events", sa.BigInteger(), nullable=False),
        sa.Column("recurring", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_counters_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_counters")),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=True),
        sa.Column("worker_id", sa.Text(), nullable=True),
        sa.Column("node", sa.Text(), nullable=True),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("for_job", sa.BigInteger(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("amount", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
    )
    op.create_index(op.f("ix_events_job_id_id"), "events", ["job_id", "id"], unique=False)
    op.create_table(
        "intents",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=True),
        sa.Column("node", sa.Text(), nullable=True),
        sa.Column("priority", sa.BigInteger(), nullable=True),
        sa.Column("min_workers", sa.BigInteger(), nullable=True),
        sa.Column("max_workers", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "(min_workers IS NOT NULL OR max_workers IS NOT NULL) = (kind = 'SCALE')", name=op.f("ck_intents_scale")
        ),
        sa.CheckConstraint(
            "(node IS NOT NULL) = (kind IN ('CORDON', 'DRAIN', 'UNCORDON'))", name=op.f("ck_intents_node")
        ),
        sa.CheckConstraint("(priority IS NOT NULL) = (kind = 'PRIORITY')", name=op.f("ck_intents_priority")),
        sa.CheckConstraint(
            "kind IN ('CANCEL', 'CORDON', 'DRAIN', 'PRIORITY', 'RESUME', 'SCALE', 'SUBMIT', 'SUSPEND', 'UNCORDON')",
            name=op.f("ck_intents_kind"),
        ),
        sa.CheckConstraint("(job_id IS NULL) = (node IS NOT NULL)", name=op.f("ck_intents_target")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_intents")),
    )
    op.create_index(
        "uq_intents_submit",
        "intents",
        ["job_id"],
        unique=True,
        sqlite_where=sa.text("kind = 'SUBMIT'"),
        postgresql_where=sa.text("kind = 'SUBMIT'"),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("client_key", sa.Text(), nullable=True),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("runtime", sa.Text(), nullable=False),
        sa.Column("launch", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("spec_priority", sa.BigInteger(), nullable=False),
        sa.Column("spec_min_workers", sa.BigInteger(), nullable=False),
        sa.Column("spec_max_workers", sa.BigInteger(), nullable=False),
        sa.Column("slots_per_worker", sa.BigInteger(), nullable=False),
        sa.Column("cpus_per_worker", sa.Double(), nullable=False),
        sa.Column("memory_mib_per_worker", sa.BigInteger(), nullable=False),
        sa.Column("node_selector", sa.Text(), nullable=False),
        sa.Column("gpu_type", sa.Text(), nullable=True),
        sa.Column("time_limit_seconds", sa.Double(), nullable=True),
        sa.Column("max_retries", sa.BigInteger(), nullable=False),
        sa.Column("grace_seconds", sa.Double(), nullable=False),
        sa.Column("heartbeat_seconds", sa.Double(), nullable=True),
        sa.Column("preemptible", sa.Boolean(), nullable=False),
        sa.Column("submitted_at", sa.Double(), nullable=False),
        sa.Column("priority", sa.BigInteger(), nullable=False),
        sa.Column("min_workers", sa.BigInteger(), nullable=False),
        sa.Column("max_workers", sa.BigInteger(), nullable=False),
        sa.Column("queued_at", sa.Double(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("waited_seconds", sa.Double(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("retries_used", sa.BigInteger(), nullable=False),
        sa.Column("last_failure_at", sa.Double(), nullable=True),
        sa.Column("not_before", sa.Double(), nullable=False),
        sa.Column("next_ordinal", sa.BigInteger(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("published_size", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=True),
        sa.Column("running_at", sa.Double(), nullable=True),
        sa.Column("finished_at", sa.Double(), nullable=True),
        sa.Column("last_resize_at", sa.Double(), nullable=True),
        sa.Column("finishing", sa.Boolean(), nullable=False),
        sa.Column("master_port", sa.BigInteger(), nullable=False),
        sa.Column("wait_reason", sa.Text(), nullable=True),
        sa.Column("wait_for", sa.BigInteger(), nullable=True),
        sa.Column("stop_reason", sa.Text(), nullable=True),
        sa.Column("stop_for", sa.BigInteger(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("exit_code", sa.BigInteger(), nullable=True),
        sa.Column("reservation", sa.Text(), nullable=False),
        sa.Column("progress", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "(finished_at IS NOT NULL) = (state IN ('CANCELLED', 'FAILED', 'SUCCEEDED'))", name=op.f("ck_jobs_finished")
        ),
        sa.CheckConstraint(
            "active = (state IN ('RESIZING', 'RUNNING', 'STARTING', 'STOPPING'))", name=op.f("ck_jobs_active")
        ),
        sa.CheckConstraint("runtime IN ('command', 'elastic')", name=op.f("ck_jobs_runtime")),
        sa.CheckConstraint("state <> 'STOPPING' OR stop_reason IS NOT NULL", name=op.f("ck_jobs_stop_reason")),
        sa.CheckConstraint(
            "state IN ('CANCELLED', 'FAILED', 'QUEUED', 'RESIZING', 'RUNNING', 'STARTING', 'STOPPING', "
            "'SUCCEEDED', 'SUSPENDED')",
            name=op.f("ck_jobs_state"),
        ),
        sa.CheckConstraint(
            "attempt >= 0 AND retries_used >= 0 AND generation >= 0 AND next_ordinal >= 1", name=op.f("ck_jobs_counts")
        ),
        sa.CheckConstraint("published_size >= 0 AND (active OR published_size = 0)", name=op.f("ck_jobs_published")),
        sa.CheckConstraint("min_workers >= 1 AND min_workers <= max_workers", name=op.f("ck_jobs_bounds")),
        sa.CheckConstraint("slots_per_worker >= 1", name=op.f("ck_jobs_slots_per_worker")),
        sa.CheckConstraint(
            "spec_min_workers >= 1 AND spec_min_workers <= spec_max_workers", name=op.f("ck_jobs_spec_bounds")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        sa.UniqueConstraint("client_key", name=op.f("uq_jobs_client_key")),
        sa.UniqueConstraint("id", "active", name=op.f("uq_jobs_id_active")),
    )
    op.create_index(
        op.f("ix_jobs_finished_at"),
        "jobs",
        ["finished_at"],
        unique=False,
        sqlite_where=sa.text("finished_at IS NOT NULL"),
        postgresql_where=sa.text("finished_at IS NOT NULL"),
    )
    op.create_index(op.f("ix_jobs_state_id"), "jobs", ["state", "id"], unique=False)
    op.create_table(
        "lease",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("holder", sa.Text(), nullable=True),
        sa.Column("term", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_lease_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lease")),
    )
    op.create_table(
        "nodes",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("slots", sa.BigInteger(), nullable=False),
        sa.Column("cpus", sa.Double(), nullable=False),
        sa.Column("memory_mib", sa.BigInteger(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("gpu_type", sa.Text(), nullable=True),
        sa.Column("has_gpus", sa.Boolean(), nullable=False),
        sa.Column("health", sa.Text(), nullable=False),
        sa.Column("intent", sa.Text(), nullable=False),
        sa.Column("failures", sa.Text(), nullable=False),
        sa.Column("quarantines", sa.BigInteger(), nullable=False),
        sa.Column("quarantined_until", sa.Double(), nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("health IN ('DOWN', 'UP')", name=op.f("ck_nodes_health")),
        sa.CheckConstraint(
            "intent <> 'QUARANTINED' OR quarantined_until IS NOT NULL", name=op.f("ck_nodes_quarantined")
        ),
        sa.CheckConstraint("intent IN ('ACTIVE', 'CORDONED', 'DRAINING', 'QUARANTINED')", name=op.f("ck_nodes_intent")),
        sa.CheckConstraint("slots >= 0 AND cpus >= 0 AND memory_mib >= 0", name=op.f("ck_nodes_capacity")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_nodes")),
    )
    op.create_table(
        "recurring",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("cron", sa.Text(), nullable=False),
        sa.Column("timezone", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("last_run_at", sa.Double(), nullable=True),
        sa.Column("deleted_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_recurring")),
    )
    op.create_table(
        "secrets",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_secrets")),
    )
    op.create_table(
        "generations",
        sa.Column("job_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("generation", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("published_at", sa.Double(), nullable=False),
        sa.Column("members", sa.Text(), nullable=False),
        sa.Column("current", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_generations_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "generation", name=op.f("pk_generations")),
    )
    op.create_index(
        "uq_generations_current",
        "generations",
        ["job_id"],
        unique=True,
        sqlite_where=sa.text("current"),
        postgresql_where=sa.text("current"),
    )
    op.create_table(
        "workers",
        sa.Column("job_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("ordinal", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("slot_ids", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("cpus", sa.Double(), nullable=False),
        sa.Column("memory_mib", sa.BigInteger(), nullable=False),
        sa.Column("not_before", sa.Double(), nullable=False),
        sa.Column("desired", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("live", sa.Boolean(), nullable=True),
        sa.Column("rank", sa.BigInteger(), nullable=True),
        sa.Column("reported_generation", sa.BigInteger(), nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=True),
        sa.Column("started_at", sa.Double(), nullable=True),
        sa.Column("ready_at", sa.Double(), nullable=True),
        sa.Column("leave_reason", sa.Text(), nullable=True),
        sa.Column("leave_for", sa.BigInteger(), nullable=True),
        sa.Column("stop_deadline", sa.Double(), nullable=True),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.Column("exit_code", sa.BigInteger(), nullable=True),
        sa.Column("exit_reason", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "(live IS NOT NULL) = (state IN ('PENDING', 'READY', 'STARTING'))", name=op.f("ck_workers_live")
        ),
        sa.CheckConstraint("desired <> 'STOP' OR leave_reason IS NOT NULL", name=op.f("ck_workers_leave_reason")),
        sa.CheckConstraint("desired IN ('RUN', 'STOP')", name=op.f("ck_workers_desired")),
        sa.CheckConstraint(
            "state IN ('EXITED', 'LOST', 'PENDING', 'READY', 'STARTING')", name=op.f("ck_workers_state")
        ),
        sa.CheckConstraint("(ended_at IS NULL) = (live IS NOT NULL)", name=op.f("ck_workers_ended")),
        sa.CheckConstraint("live IS NULL OR live = true", name=op.f("ck_workers_live_or_null")),
        sa.CheckConstraint("ordinal >= 1 AND (rank IS NULL OR rank >= 0)", name=op.f("ck_workers_counts")),
        sa.ForeignKeyConstraint(
            ["job_id", "live"],
            ["jobs.id", "jobs.active"],
            name="fk_workers_live_job",
            initially="DEFERRED",
            deferrable=True,
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_workers_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "ordinal", name=op.f("pk_workers")),
    )
    op.create_index(
        "ix_workers_live",
        "workers",
        ["job_id"],
        unique=False,
        sqlite_where=sa.text("live IS NOT NULL"),
        postgresql_where=sa.text("live IS NOT NULL"),
    )
    op.execute("INSERT INTO counters (id, jobs, intents, events, recurring) VALUES (1, 0, 0, 0, 0)")
    op.execute("INSERT INTO lease (id, holder, term, expires_at) VALUES (1, NULL, 0, 0)")


def downgrade() -> None:
    for table in (
        "workers",
        "generations",
        "secrets",
        "recurring",
        "nodes",
        "lease",
        "jobs",
        "intents",
        "events",
        "counters",
    ):
        op.drop_table(table)
