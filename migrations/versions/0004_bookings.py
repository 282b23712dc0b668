"""Bookings, and the requests for them."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

KINDS_BEFORE = ("CANCEL", "CORDON", "DRAIN", "PRIORITY", "RESUME", "SCALE", "SUBMIT", "SUSPEND", "UNCORDON")
KINDS = (*KINDS_BEFORE, "BOOK", "UNBOOK")


def upgrade() -> None:
    op.create_table(
        "bookings",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("start_at", sa.Double(), nullable=False),
        sa.Column("end_at", sa.Double(), nullable=False),
        sa.Column("workers", sa.BigInteger(), nullable=False),
        sa.Column("slots_per_worker", sa.BigInteger(), nullable=False),
        sa.Column("cpus_per_worker", sa.Double(), nullable=False),
        sa.Column("memory_mib_per_worker", sa.BigInteger(), nullable=False),
        sa.Column("node_selector", sa.Text(), nullable=False),
        sa.Column("gpu_type", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("user_name", sa.Text(), nullable=True),
        sa.Column("priority_min", sa.BigInteger(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.CheckConstraint("state IN ('OPEN', 'PLANNED', 'REQUESTED')", name=op.f("ck_bookings_state")),
        sa.CheckConstraint("start_at < end_at", name=op.f("ck_bookings_window")),
        sa.CheckConstraint("workers >= 1 AND slots_per_worker >= 1", name=op.f("ck_bookings_size")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_bookings")),
    )
    target = "(job_id IS NULL) = (node IS NOT NULL OR booking IS NOT NULL)"
    booking = "(booking IS NOT NULL) = (kind IN ('BOOK', 'UNBOOK'))"
    _rebuild_intents(
        KINDS,
        target,
        sa.Column("booking", sa.Text(), nullable=True),
        sa.CheckConstraint(booking, name=op.f("ck_intents_booking")),
    )


def downgrade() -> None:
    op.execute("DELETE FROM intents WHERE booking IS NOT NULL")
    _rebuild_intents(KINDS_BEFORE, "(job_id IS NULL) = (node IS NOT NULL)")
    op.drop_table("bookings")


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
        *more,
        sa.CheckConstraint(
            "(min_workers IS NOT NULL OR max_workers IS NOT NULL) = (kind = 'SCALE')", name=op.f("ck_intents_scale")
        ),
        sa.CheckConstraint(
            "(node IS NOT NULL) = (kind IN ('CORDON', 'DRAIN', 'UNCORDON'))", name=op.f("ck_intents_node")
        ),
        sa.CheckConstraint("(priority IS NOT NULL) = (kind = 'PRIORITY')", name=op.f("ck_intents_priority")),
        sa.CheckConstraint(f"kind IN ({listed})", name=op.f("ck_intents_kind")),
        sa.CheckConstraint(target, name=op.f("ck_intents_target")),
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
