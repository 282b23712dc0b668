"""Alembic's entry: inside the daemon on its connection, or from the `alembic` command on a URL.

`alembic -c migrations/alembic.ini -x url=sqlite:///sched.db upgrade head`; without `-x url`, the settings'
database (`SCHED_DATABASE_URL`, `SCHED_STATE_DIR`).
"""

from alembic import context
from sqlalchemy import Connection

from scheduler.config import load_settings
from scheduler.store.sql.database import Database
from scheduler.store.sql.migrate import locked
from scheduler.store.sql.schema import metadata


def run(connection: Connection) -> None:
    """Run on a connection whose transaction is already open: all revisions or none."""
    context.configure(
        connection=connection,
        target_metadata=metadata,
        render_as_batch=True,
        transactional_ddl=True,
        compare_type=True,
    )
    with context.begin_transaction():
        context.run_migrations()


if context.is_offline_mode():
    raise SystemExit("migrations run on a database only: leave out --sql")

given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    url = context.get_x_argument(as_dictionary=True).get("url") or load_settings().store_url
    with locked(Database(url)) as opened:
        run(opened)
