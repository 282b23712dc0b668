"""Jobs and nodes that ticks failed at."""

import sqlalchemy as sa
from alembic import op
from alembic.operations import BatchOperations

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

ACTIVE = ("RESIZING", "RUNNING", "STARTING", "STOPPING")
STATES = (*ACTIVE, "CANCELLED", "FAILED", "QUEUED", "SUCCEEDED", "SUSPENDED")
INTENTS = ("ACTIVE", "CORDONED", "DRAINING", "QUARANTINED")


def upgrade() -> None:
    with op.batch_alter_table("jobs") as jobs:
        jobs.add_column(sa.Column("held_from", sa.Text(), nullable=True))
        _allow(jobs, (*STATES, "HELD"), (*ACTIVE, "HELD"))
        jobs.create_check_constraint(op.f("ck_jobs_held"), "(held_from IS NOT NULL) = (state = 'HELD')")
    _allow_intents((*INTENTS, "HELD"))


def downgrade() -> None:
    op.execute(
        f"UPDATE jobs SET state = held_from, active = held_from IN ({_listed(ACTIVE)}), held_from = NULL "
        "WHERE state = 'HELD'"
    )
    op.execute("UPDATE nodes SET intent = 'CORDONED' WHERE intent = 'HELD'")
    with op.batch_alter_table("jobs") as jobs:
        jobs.drop_constraint(op.f("ck_jobs_held"), type_="check")
        _allow(jobs, STATES, ACTIVE)
        jobs.drop_column("held_from")
    _allow_intents(INTENTS)


def _allow(jobs: BatchOperations, states: tuple[str, ...], active: tuple[str, ...]) -> None:
    for name in ("state", "active"):
        jobs.drop_constraint(op.f(f"ck_jobs_{name}"), type_="check")
    jobs.create_check_constraint(op.f("ck_jobs_state"), f"state IN ({_listed(states)})")
    jobs.create_check_constraint(op.f("ck_jobs_active"), f"active = (state IN ({_listed(active)}))")


def _allow_intents(intents: tuple[str, ...]) -> None:
    with op.batch_alter_table("nodes") as nodes:
        nodes.drop_constraint(op.f("ck_nodes_intent"), type_="check")
        nodes.create_check_constraint(op.f("ck_nodes_intent"), f"intent IN ({_listed(intents)})")


def _listed(values: tuple[str, ...]) -> str:
    return ", ".join(f"'{value}'" for value in sorted(values))
