"""Queues, the queue of each job, requests about queues, and the default queue of a token."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

_KINDS_BEFORE = (
    *("BOOK", "CANCEL", "CORDON", "DRAIN", "PRIORITY", "RESUME"),
    *("SCALE", "SUBMIT", "SUSPEND", "UNBOOK", "UNCORDON"),
)
_KINDS = (*_KINDS_BEFORE, "QUEUE")
_OF_A_QUEUE = sa.text("finished_at IS NULL AND queue <> ''")


def upgrade() -> None:
    op.create_table(
        "queues",
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("guarantee", sa.Text(), nullable=False),
        sa.Column("limit", sa.Text(), nullable=False),
        sa.Column("weight", sa.Double(), nullable=False),
        sa.Column("share_users", sa.Boolean(), nullable=False),
        sa.Column("user_limit", sa.BigInteger(), nullable=True),
        sa.Column("priority_max", sa.BigInteger(), nullable=True),
        sa.Column("max_jobs", sa.BigInteger(), nullable=True),
        sa.Column("members", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("path", name=op.f("pk_queues")),
    )
    # With a constant default, so that no row is written.
    op.add_column("jobs", sa.Column("queue", sa.Text(), server_default=sa.text("''"), nullable=False))
    op.create_index(op.f("ix_jobs_queue"), "jobs", ["queue"], sqlite_where=_OF_A_QUEUE, postgresql_where=_OF_A_QUEUE)
    op.add_column("tokens", sa.Column("queue", sa.Text(), nullable=True))
    _rebuild_intents(
        _KINDS,
        "(job_id IS NULL) = (node IS NOT NULL OR booking IS NOT NULL OR queue IS NOT NULL)",
        sa.Column("queue", sa.Text(), nullable=True),
        sa.CheckConstraint("(queue IS NOT NULL) = (kind = 'QUEUE')", name=op.f("ck_intents_queue")),
    )


def downgrade() -> None:
    op.execute("DELETE FROM intents WHERE queue IS NOT NULL")
    _rebuild_intents(_KINDS_BEFORE, "(job_id IS NULL) = (node IS NOT NULL OR booking IS NOT NULL)")
    op.drop_column("tokens", "queue")
    op.drop_index(op.f("ix_jobs_queue"), table_name="jobs", sqlite_where=_OF_A_QUEUE, postgresql_where=_OF_A_QUEUE)
    op.drop_column("jobs", "queue")
    op.drop_table("queues")


def _rebuild_intents(kinds: tuple[str, ...], target: str, *more: Any) -> None:
    """SQLite changes no constraint of a table that stands. Requests that wait are few; they are put back."""
    waiting = [dict(row) for row in op.get_bind().execute(sa.text("SELECT * FROM intents ORDER BY id")).mappings()]
    op.drop_table("intents")
    listed = ", ".join(f"'{kind}'" for kind in sorted(kinds))
    intents = op.create_table(
        "intents",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=True),
        sa.Column("node", sa.Text(), nullable=True),
        sa.Column("priority", sa.BigInteger(), nullable=True),
        sa.Column("min_workers", sa.BigInteger(), nullable=True),
        sa.Column("max_workers", sa.BigInteger(), nullable=True),
        sa.Column("booking", sa.Text(), nullable=True),
        *more,
        sa.CheckConstraint(f"kind IN ({listed})", name=op.f("ck_intents_kind")),
        sa.CheckConstraint(
            "(node IS NOT NULL) = (kind IN ('CORDON', 'DRAIN', 'UNCORDON'))", name=op.f("ck_intents_node")
        ),
        sa.CheckConstraint("(booking IS NOT NULL) = (kind IN ('BOOK', 'UNBOOK'))", name=op.f("ck_intents_booking")),
        sa.CheckConstraint(target, name=op.f("ck_intents_target")),
        sa.CheckConstraint("(priority IS NOT NULL) = (kind = 'PRIORITY')", name=op.f("ck_intents_priority")),
        sa.CheckConstraint(
            "(min_workers IS NOT NULL OR max_workers IS NOT NULL) = (kind = 'SCALE')", name=op.f("ck_intents_scale")
        ),
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
    columns = {column.name for column in intents.columns}
    op.bulk_insert(intents, [{key: row[key] for key in row if key in columns} for row in waiting])
