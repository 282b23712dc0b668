"""What accounts hold, and what they came to in each hour."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "holdings",
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("gpu_type", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("held_slots", sa.BigInteger(), nullable=False),
        sa.Column("lent_slots", sa.Double(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("queue", "user_name", "gpu_type", name=op.f("pk_holdings")),
    )
    op.create_index(op.f("ix_holdings_revision"), "holdings", ["revision"])
    op.create_table(
        "usage",
        sa.Column("hour", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("gpu_type", sa.Text(), nullable=False),
        sa.Column("held_seconds", sa.Double(), nullable=False),
        sa.Column("lent_seconds", sa.Double(), nullable=False),
        sa.Column("lost_seconds", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("hour", "queue", "user_name", "gpu_type", name=op.f("pk_usage")),
    )


def downgrade() -> None:
    op.drop_table("usage")
    op.drop_index(op.f("ix_holdings_revision"), table_name="holdings")
    op.drop_table("holdings")
