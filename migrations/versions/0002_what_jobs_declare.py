"""What jobs declare of their size, speed and duration, whether they accept shared slots, and what they have had."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# Nullable, so that no table has to be copied: rows written before have nothing to say here.
COLUMNS = (
    ("preferred_workers", sa.BigInteger()),
    ("expected_seconds", sa.Double()),
    ("speedup", sa.Text()),
    ("oversell", sa.Boolean()),
    ("booking", sa.Text()),
    ("served_slot_seconds", sa.Double()),
)


def upgrade() -> None:
    for name, kind in COLUMNS:
        op.add_column("jobs", sa.Column(name, kind, nullable=True))


def downgrade() -> None:
    for name, _ in reversed(COLUMNS):
        op.drop_column("jobs", name)
