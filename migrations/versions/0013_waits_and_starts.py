"""The beginning of a job's present wait, apart from what it waited before its last start; and its first start.

Until now a job that went back to the queue had been queued, as stored, earlier than it was, by all that it had waited.
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_JOBS = sa.table(
    "jobs",
    sa.column("state", sa.Text),
    sa.column("attempt", sa.BigInteger),
    sa.column("stop_reason", sa.Text),
    sa.column("queued_at", sa.Double),
    sa.column("waited_seconds", sa.Double),
    sa.column("first_started_at", sa.Double),
    sa.column("started_at", sa.Double),
)
_QUEUED = _JOBS.c.state == "QUEUED"


def upgrade() -> None:
    # A job without a reason was resumed, and what it had waited before is forgotten.
    resumed = sa.and_(_QUEUED, _JOBS.c.stop_reason.is_(None))
    op.execute(_JOBS.update().where(resumed).values(waited_seconds=0.0))
    op.execute(_JOBS.update().where(_QUEUED).values(queued_at=_JOBS.c.queued_at + _JOBS.c.waited_seconds))
    # As far as the rows tell: the start of the only attempt.
    op.add_column("jobs", sa.Column("first_started_at", sa.Double(), nullable=True))
    once = sa.and_(_JOBS.c.attempt == 1, _JOBS.c.started_at.is_not(None))
    op.execute(_JOBS.update().where(once).values(first_started_at=_JOBS.c.started_at))


def downgrade() -> None:
    op.drop_column("jobs", "first_started_at")
    op.execute(_JOBS.update().where(_QUEUED).values(queued_at=_JOBS.c.queued_at - _JOBS.c.waited_seconds))
