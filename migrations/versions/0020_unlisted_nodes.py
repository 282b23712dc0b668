"""Since when the cluster has not listed a node, so that nodes that are gone for good are forgotten."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Nullable: of a node that is gone already, the time counts from the first tick after the upgrade.
    op.add_column("nodes", sa.Column("unlisted_since", sa.Double(), nullable=True))


def downgrade() -> None:
    op.drop_column("nodes", "unlisted_since")
