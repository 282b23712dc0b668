"""Who created a recurring job, and why its jobs are not submitted now."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("recurring", sa.Column("submitter", sa.Text(), nullable=True))
    op.add_column("recurring", sa.Column("refusal", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("recurring", "refusal")
    op.drop_column("recurring", "submitter")
