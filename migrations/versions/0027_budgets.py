"""Budgets of queues, and of which it was told that they are nearly spent."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("queues", sa.Column("budget", sa.BigInteger(), nullable=True))
    op.create_table(
        "budgets_told",
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("month", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("queue", name=op.f("pk_budgets_told")),
    )


def downgrade() -> None:
    op.drop_table("budgets_told")
    op.drop_column("queues", "budget")
