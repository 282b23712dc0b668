"""Data sets that workers take in shards: what is to do, who holds what, and what failed too often."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    # Nullable, so that no table has to be copied: jobs of before declare no data.
    op.add_column("jobs", sa.Column("data", sa.Text(), nullable=True))
    op.create_table(
        "data_queues",
        sa.Column("job_id", KEY, nullable=False),
        sa.Column("cursor", sa.BigInteger(), nullable=False),
        sa.Column("done", sa.BigInteger(), nullable=False),
        sa.Column("set_aside", sa.BigInteger(), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.Column("returned", sa.Text(), nullable=False),
        sa.Column("tried", sa.Text(), nullable=False),
        sa.Column("failures", sa.Text(), nullable=False),
        sa.Column("mark", sa.Text(), nullable=False),
        sa.CheckConstraint("cursor <= total AND done + set_aside <= cursor", name=op.f("ck_data_queues_counts")),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_data_queues_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_data_queues")),
    )
    op.create_table(
        "shard_readers",
        sa.Column("job_id", KEY, nullable=False),
        sa.Column("ordinal", KEY, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("held", sa.Text(), nullable=False),
        sa.Column("alone", sa.Boolean(), nullable=False),
        sa.Column("deadline", sa.Double(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("refused", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["data_queues.job_id"], name=op.f("fk_shard_readers_job_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "ordinal", "name", name=op.f("pk_shard_readers")),
    )
    op.create_table(
        "shards_set_aside",
        sa.Column("job_id", KEY, nullable=False),
        sa.Column("position", KEY, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["data_queues.job_id"], name=op.f("fk_shards_set_aside_job_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "position", name=op.f("pk_shards_set_aside")),
    )


def downgrade() -> None:
    for table in ("shards_set_aside", "shard_readers", "data_queues"):
        op.drop_table(table)
    op.drop_column("jobs", "data")
