"""A random nonce per job, which tells it from jobs of the same id in other lives of the database."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Nullable, so that the table is not copied. Jobs of before have none: their tokens and directories stay.
    op.add_column("jobs", sa.Column("nonce", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("jobs", "nonce")
