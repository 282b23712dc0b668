"""Oversell factors of nodes, and who shares slots beyond the physical ones."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

# Nullable, so that no table has to be copied: rows written before share nothing.
COLUMNS = (
    ("nodes", "oversell", sa.Double()),
    ("workers", "shared", sa.Boolean()),
    ("jobs", "reservation_shared", sa.Boolean()),
)


def upgrade() -> None:
    for table, name, kind in COLUMNS:
        op.add_column(table, sa.Column(name, kind, nullable=True))


def downgrade() -> None:
    for table, name, _ in reversed(COLUMNS):
        op.drop_column(table, name)
