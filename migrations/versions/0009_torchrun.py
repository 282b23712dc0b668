"""Jobs of runtime torchrun."""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

BEFORE = ("command", "elastic")


def upgrade() -> None:
    _allow((*BEFORE, "torchrun"))


def downgrade() -> None:
    op.execute("UPDATE jobs SET runtime = 'command' WHERE runtime = 'torchrun'")
    _allow(BEFORE)


def _allow(runtimes: tuple[str, ...]) -> None:
    listed = ", ".join(f"'{runtime}'" for runtime in runtimes)
    with op.batch_alter_table("jobs") as jobs:
        jobs.drop_constraint(op.f("ck_jobs_runtime"), type_="check")
        jobs.create_check_constraint(op.f("ck_jobs_runtime"), f"runtime IN ({listed})")
