"""What replicas that do not lead follow by: numbered commits, and where the leader is reached."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

FOLLOWED = ("jobs", "nodes")


def upgrade() -> None:
    for table in FOLLOWED:
        op.add_column(table, sa.Column("revision", sa.BigInteger(), nullable=True))
    op.create_index("ix_jobs_revision", "jobs", ["revision"])
    _rebuild_lease(
        sa.Column("ttl_seconds", sa.Double(), nullable=False),
        sa.Column("url", sa.Text(), nullable=True),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        ttl_seconds=0.0,
        revision=0,
    )


def downgrade() -> None:
    _rebuild_lease()
    op.drop_index("ix_jobs_revision", "jobs")
    for table in FOLLOWED:
        op.drop_column(table, "revision")


def _rebuild_lease(*more: sa.Column[object], **values: object) -> None:
    """Nobody leads afterwards: who did so far works on another schema. Its term goes on."""
    term = op.get_bind().execute(sa.text("SELECT term FROM lease")).scalar_one()
    op.drop_table("lease")
    lease = op.create_table(
        "lease",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("holder", sa.Text(), nullable=True),
        sa.Column("term", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        *more,
        sa.CheckConstraint("id = 1", name=op.f("ck_lease_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lease")),
    )
    op.bulk_insert(lease, [{"id": 1, "term": term, "expires_at": 0.0, **values}])
