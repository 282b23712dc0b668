"""Where the workers of a job answer each other."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("workers", sa.Column("peer", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("workers", "peer")
