"""Decayed usage of queues, and of the users in them."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "queue_usage",
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("slot_seconds", sa.Double(), nullable=False),
        sa.Column("held_slots", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("account", name=op.f("pk_queue_usage")),
    )
    op.create_index(op.f("ix_queue_usage_revision"), "queue_usage", ["revision"])


def downgrade() -> None:
    op.drop_index(op.f("ix_queue_usage_revision"), table_name="queue_usage")
    op.drop_table("queue_usage")
