"""What jobs take of their submitter's environment."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Nullable, so that the table is not copied. Jobs of before take nothing, as they always did.
    op.add_column("jobs", sa.Column("export", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("jobs", "export")
