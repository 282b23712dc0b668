"""What a cluster says: whether a node is closed, why a worker does not run, and how it ended."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

# Nullable, so that no table has to be copied: rows written before say nothing.
COLUMNS = (
    ("nodes", "closed", sa.Text()),
    ("workers", "detail", sa.Text()),
)


def upgrade() -> None:
    for table, name, kind in COLUMNS:
        op.add_column(table, sa.Column(name, kind, nullable=True))


def downgrade() -> None:
    for table, name, _ in reversed(COLUMNS):
        op.drop_column(table, name)
