"""How far each webhook has got in the history."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "webhooks",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("delivered", sa.BigInteger(), nullable=False),
        sa.Column("delivered_at", sa.Double(), nullable=True),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("failing_since", sa.Double(), nullable=True),
        sa.Column("next_try_at", sa.Double(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.CheckConstraint("position >= 0 AND delivered >= 0 AND attempts >= 0", name=op.f("ck_webhooks_counts")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_webhooks")),
    )


def downgrade() -> None:
    op.drop_table("webhooks")
