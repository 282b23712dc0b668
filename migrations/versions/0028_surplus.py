"""Jobs of which only what they hold beyond their minimum is preemptible."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("surplus_preemptible", sa.Boolean(), nullable=True))


def downgrade() -> None:
    op.drop_column("jobs", "surplus_preemptible")
