"""What a data queue knows of failures that cost its job no retry."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Nullable, so that no table has to be copied.
    op.add_column("data_queues", sa.Column("forgiven_at", sa.BigInteger(), nullable=True))
    op.add_column("shard_readers", sa.Column("failed", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("shard_readers", "failed")
    op.drop_column("data_queues", "forgiven_at")
