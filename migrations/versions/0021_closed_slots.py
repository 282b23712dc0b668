"""Slots of nodes that take no new workers, and faults of slots that a user lets pass."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_COLUMNS = ("closed_slots", "accepted_faults")


def upgrade() -> None:
    # Nullable, so that rows stay as they are.
    for name in _COLUMNS:
        op.add_column("nodes", sa.Column(name, sa.Text(), nullable=True))


def downgrade() -> None:
    for name in reversed(_COLUMNS):
        op.drop_column("nodes", name)
