"""The GPU types that nodes have had: accounts of jobs go by them, also once a node is forgotten or has others."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "node_types",
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("gpu_type", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("node", "since", name=op.f("pk_node_types")),
    )
    op.execute("INSERT INTO node_types (node, since, gpu_type) SELECT name, 0.0, COALESCE(gpu_type, '') FROM nodes")


def downgrade() -> None:
    op.drop_table("node_types")
