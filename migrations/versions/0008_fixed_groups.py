"""Fixed groups: which workers are of one, where they are reached, and what is held for them."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

# Nullable, so that no table has to be copied: rows written before have no fixed group.
COLUMNS = (
    ("workers", "fixed_index", sa.BigInteger()),
    ("jobs", "fixed_reservation", sa.Text()),
    ("jobs", "fixed_hosts", sa.Text()),
)


def upgrade() -> None:
    for table, name, kind in COLUMNS:
        op.add_column(table, sa.Column(name, kind, nullable=True))


def downgrade() -> None:
    for table, name, _ in reversed(COLUMNS):
        op.drop_column(table, name)
