"""The clocks of who leads, so that durations go on by them after a restart; and where its workers run."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_COLUMNS = {
    "anchor_now": sa.Double,
    "anchor_wall": sa.Double,
    "anchor_booted": sa.Double,
    "anchor_boot": sa.Text,
    "ahead_seconds": sa.Double,
    "place": sa.Text,
    "place_name": sa.Text,
}


def upgrade() -> None:
    # Nullable, so that the row stays as it is.
    for name, kind in _COLUMNS.items():
        op.add_column("lease", sa.Column(name, kind(), nullable=True))


def downgrade() -> None:
    for name in reversed(_COLUMNS):
        op.drop_column("lease", name)
