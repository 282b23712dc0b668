"""Jobs of runtime horovod."""

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

BEFORE = ("command", "elastic", "torchrun")


def upgrade() -> None:
    _allow((*BEFORE, "horovod"))


def downgrade() -> None:
    op.execute("UPDATE jobs SET runtime = 'command' WHERE runtime = 'horovod'")
    _allow(BEFORE)


def _allow(runtimes: tuple[str, ...]) -> None:
    listed = ", ".join(f"'{runtime}'" for runtime in sorted(runtimes))
    with op.batch_alter_table("jobs") as jobs:
        jobs.drop_constraint(op.f("ck_jobs_runtime"), type_="check")
        jobs.create_check_constraint(op.f("ck_jobs_runtime"), f"runtime IN ({listed})")
