"""The schema's history: up, down, beside each other, and the same as the tables that the code describes."""

import os
import shutil
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text

from scheduler.engine.ports import Inbox
from scheduler.errors import LeaseLost, SchemaMismatch, StoreError
from scheduler.model.booking import Booking
from scheduler.model.export import Export
from scheduler.model.intent import IntentKind
from scheduler.model.job_state import StopReason
from scheduler.model.shape import WorkerShape
from scheduler.model.world import Changes
from scheduler.store import SqlStore
from scheduler.store.sql import migrate
from scheduler.store.sql.database import Database
from scheduler.store.sql.schema import metadata
from tests.store.conftest import OpenStore
from tests.store.desk import NOW, SPEC, admitted, lead, started

ROOT = Path(__file__).parents[2]
NEXT_REVISION = """
from alembic import op
import sqlalchemy as sa
revision, down_revision, branch_labels, depends_on = "9999", "{head}", None, None
def upgrade() -> None:
    with op.batch_alter_table("nodes") as nodes:
        nodes.add_column(sa.Column("comment", sa.Text()))
def downgrade() -> None:
    with op.batch_alter_table("nodes") as nodes:
        nodes.drop_column("comment")
"""


#: Name and definition of everything that a PostgreSQL schema holds.
CATALOGUE = (
    "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = 'public'::regnamespace",
    "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    """SELECT table_name || '.' || column_name, is_nullable || data_type FROM information_schema.columns
    WHERE table_schema = 'public'""",
)


def described(url: str) -> dict[str, Any]:
    """Everything that the database says about its tables."""
    engine = create_engine(Database(url).url)
    try:
        with engine.connect() as connection:
            if engine.dialect.name == "sqlite":
                rows = connection.execute(text("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
                # Tables list their constraints in the order in which they were declared.
                return {name: sorted(declared(sql)) for name, sql in rows}
            return {name: shape for query in CATALOGUE for name, shape in connection.execute(text(query))}
    finally:
        engine.dispose()


def declared(sql: str) -> list[str]:
    """Columns and constraints of one statement, however laid out: added columns stand last, rebuilt tables quoted."""
    parts, depth = [""], 0
    for letter in " ".join(sql.split()):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 1:
            parts.append("")
        else:
            parts[-1] += letter
    head, _, first = parts[0].partition("(")
    parts[-1] = parts[-1].rstrip().removesuffix(")")
    return [part.strip() for part in (head.replace('"', ""), first, *parts[1:])]


def without_version(description: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in description.items() if not name.startswith("alembic_version")}


def test_migrations_build_exactly_the_described_tables(empty_url: str, database_url: str) -> None:
    engine = create_engine(Database(empty_url).url)
    metadata.create_all(engine)
    engine.dispose()
    assert without_version(described(database_url)) == described(empty_url)


def test_the_newest_file_is_the_head_of_the_revisions() -> None:
    assert migrate.newest_revision() == ScriptDirectory.from_config(migrate.alembic_config()).get_current_head()


def test_alembic_finds_no_difference(database_url: str) -> None:
    with migrate.locked(Database(database_url)) as connection:
        command.check(migrate.alembic_config(connection))


def test_an_upgraded_database_is_accepted_and_an_upgrade_of_it_changes_nothing(
    empty_url: str, open_store: OpenStore
) -> None:
    store = open_store(empty_url)
    with pytest.raises(SchemaMismatch, match=r"no tables yet: .*: run `sched db upgrade`"):
        store.check_schema()
    store.upgrade()
    store.check_schema()
    jobs = admitted(store, lead(store))
    store.upgrade()
    assert list(store.load_world().jobs) == jobs


def test_down_to_nothing_and_up_again_with_data(database_url: str, open_store: OpenStore) -> None:
    store = open_store(database_url)
    lease = lead(store)
    job = started(admitted(store, lease)[0])
    store.commit(Changes(jobs=(job,), workers=job.workers), lease, NOW)
    store.secret("workers")
    store.add_recurring("* * * * *", "UTC", SPEC, NOW)
    migrate.downgrade(Database(database_url), "base")
    engine = create_engine(Database(database_url).url)
    assert set(inspect(engine).get_table_names()) <= {"alembic_version"}
    engine.dispose()
    with pytest.raises(SchemaMismatch, match="sched db upgrade"):
        store.check_schema()
    store.upgrade()
    store.check_schema()
    assert store.load_world().highest_job_id == 0
    assert store.submit([SPEC], NOW)[0].id == 1


def without_nonces(inbox: Inbox) -> Inbox:
    """As a migration from before jobs had one leaves it."""
    return replace(inbox, jobs=type(inbox.jobs)(replace(job, nonce="") for job in inbox.jobs))


def test_requests_that_wait_outlive_the_migration_to_bookings(database_url: str, open_store: OpenStore) -> None:
    store = open_store(database_url)
    [submitted] = store.submit([SPEC], NOW)
    store.add_intent(IntentKind.SCALE, NOW, job_id=submitted.id, max_workers=9)
    before = store.take_inbox(10)
    store.add_booking(Booking("b", NOW, NOW + 1, 1, WorkerShape(), NOW))
    migrate.downgrade(Database(database_url), "0003")
    store.upgrade()
    assert store.take_inbox(10) == without_nonces(before)
    assert store.list_bookings() == []


def test_waits_and_first_starts_are_told_apart_by_the_migration(database_url: str, open_store: OpenStore) -> None:
    store = open_store(database_url)
    lease = lead(store)
    requeued, resumed, begun = admitted(store, lease, SPEC, SPEC, SPEC)
    begun = replace(started(begun), first_started_at=NOW)
    changed = (
        replace(requeued, queued_at=NOW + 500, waited_seconds=300.0, stop_reason=StopReason.PREEMPTED),
        replace(resumed, queued_at=NOW + 600),
        begun,
    )
    store.commit(Changes(jobs=changed, workers=begun.workers), lease, NOW)
    before = store.load_world().jobs
    migrate.downgrade(Database(database_url), "0012")
    engine = create_engine(Database(database_url).url)
    with engine.begin() as connection:
        assert connection.execute(text("SELECT queued_at FROM jobs ORDER BY id")).scalars().all() == [
            NOW + 200,
            NOW + 600,
            begun.queued_at,
        ]
        connection.execute(text("UPDATE jobs SET waited_seconds = 40 WHERE state = 'QUEUED' AND stop_reason IS NULL"))
    engine.dispose()
    store.upgrade()
    assert store.load_world().jobs == tuple(replace(job, nonce="") for job in before)


def test_jobs_of_before_take_nothing_of_an_environment(database_url: str, open_store: OpenStore) -> None:
    store = open_store(database_url)
    lease = lead(store)
    export = Export((("PATH", "/venv/bin"),), "/home/ann", "here")
    waiting = admitted(store, lease, SPEC, replace(SPEC, name="exported", export=export))
    running = started(admitted(store, lease)[0])
    store.commit(Changes(jobs=(running,), workers=running.workers), lease, NOW)
    store.submit([SPEC], NOW)
    store.add_recurring("* * * * *", "UTC", SPEC, NOW)
    before, inbox, recurring = store.load_world(), store.take_inbox(10), store.list_recurring()
    assert [job.spec.export for job in before.jobs[:2]] == [None, export]
    migrate.downgrade(Database(database_url), "0014")
    store.upgrade()
    without = tuple(replace(job, nonce="", spec=replace(job.spec, export=None)) for job in before.jobs)
    assert store.load_world() == replace(before, jobs=without)
    assert (store.take_inbox(10), store.list_recurring()) == (without_nonces(inbox), recurring)
    later = replace(waiting[0].spec, export=export)
    assert [job.spec for job in admitted(store, lead(store), later)][-1] == later


def test_jobs_of_before_have_no_nonce_and_keep_their_directories(database_url: str, open_store: OpenStore) -> None:
    store = open_store(database_url)
    lease = lead(store)
    (before,) = admitted(store, lease)
    assert before.nonce
    assert before.key == f"{before.id}-{before.nonce}"
    migrate.downgrade(Database(database_url), "0015")
    store.upgrade()
    (kept,) = store.load_world().jobs
    assert (kept.nonce, kept.key) == ("", str(before.id))
    running = started(kept)
    store.commit(Changes(jobs=(running,), workers=running.workers), lead(store), NOW)
    assert store.get_job(kept.id) == replace(running, version=running.version + 1)
    assert admitted(store, lead(store))[-1].nonce


def test_upgrades_at_the_same_moment_wait_for_each_other(empty_url: str, open_store: OpenStore) -> None:
    start = Barrier(3)

    def upgrade(_: int) -> None:
        store = open_store(empty_url)
        start.wait(30)
        store.upgrade()
        store.check_schema()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(upgrade, range(3)))


def test_upgrades_of_two_processes_wait_for_each_other(empty_url: str, open_store: OpenStore) -> None:
    code = "import sys; from scheduler.store import SqlStore; s = SqlStore(sys.argv[1]); s.upgrade(); s.check_schema()"
    children = [subprocess.Popen([sys.executable, "-c", code, empty_url], cwd=ROOT) for _ in range(2)]
    assert [child.wait(240) for child in children] == [0, 0]
    open_store(empty_url).check_schema()


@pytest.fixture
def later(tmp_path: Path) -> Path:
    """The migrations of a later version."""
    path = tmp_path / "later"
    shutil.copytree(ROOT / "migrations", path, ignore=shutil.ignore_patterns("__pycache__"))
    head = max(file.name[:4] for file in (path / "versions").glob("*.py"))
    (path / "versions" / "9999_later.py").write_text(NEXT_REVISION.format(head=head))
    return path


def test_older_and_newer_databases_are_told_apart(
    database_url: str, open_store: OpenStore, later: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(database_url)
    lease = lead(store)
    job = started(admitted(store, lease)[0])
    store.commit(Changes(jobs=(job,), workers=job.workers), lease, NOW)
    before = store.load_world()
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "migrations_path", lambda: later)
        with pytest.raises(SchemaMismatch, match=r"has an older version: .*: run `sched db upgrade`"):
            store.check_schema()
        store.upgrade()
        store.check_schema()
    for refused in (store.check_schema, store.upgrade):
        with pytest.raises(SchemaMismatch, match="the database has a newer version than this scheduler"):
            refused()
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "migrations_path", lambda: later)
        migrate.downgrade(Database(database_url), "-1")
    store.check_schema()
    assert store.load_world() == before


def test_a_leader_of_an_older_version_is_deposed_by_the_migration(
    database_url: str, open_store: OpenStore, later: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(database_url)
    lease = lead(store)
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "migrations_path", lambda: later)
        open_store(database_url).upgrade()
    with pytest.raises(LeaseLost):
        store.commit(Changes(), lease, NOW)
    with pytest.raises(SchemaMismatch, match="the database has a newer version than this scheduler"):
        store.acquire_lease("engine", NOW, 10.0)
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "migrations_path", lambda: later)
        assert store.acquire_lease("engine", NOW, 10.0) is not None


def test_a_failed_migration_changes_nothing(
    database_url: str, open_store: OpenStore, later: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    revision = later / "versions" / "9999_later.py"
    revision.write_text(
        revision.read_text().replace("def downgrade", '    op.execute("SELECT * FROM nowhere")\ndef downgrade')
    )
    store = open_store(database_url)
    before = described(database_url)
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "migrations_path", lambda: later)
        with pytest.raises(StoreError):
            store.upgrade()
    assert described(database_url) == before
    store.check_schema()


def alembic(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command_line = [sys.executable, "-m", "alembic", "-c", "migrations/alembic.ini", *arguments]
    return subprocess.run(command_line, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_alembic_command_works_on_a_url(empty_url: str, open_store: OpenStore) -> None:
    upgraded = alembic("-x", f"url={empty_url}", "upgrade", "head")
    assert upgraded.returncode == 0, upgraded.stderr
    open_store(empty_url).check_schema()
    checked = alembic("-x", f"url={empty_url}", "check")
    assert (checked.returncode, checked.stdout.strip()) == (0, "No new upgrade operations detected.")


def test_an_installed_package_brings_its_migrations(tmp_path: Path) -> None:
    """As a wheel lays it out: the migrations inside the package, none beside it."""
    site = tmp_path / "site"
    shutil.copytree(ROOT / "scheduler", site / "scheduler", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "migrations", site / "scheduler" / "_migrations")
    code = (
        "from scheduler.store import SqlStore; from scheduler.store.sql import migrate;"
        "s = SqlStore('sqlite:///x.db'); s.upgrade(); s.check_schema(); print(migrate.migrations_path())"
    )
    run = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stdout.strip()) == (0, str(site / "scheduler" / "_migrations")), run.stderr


def test_only_its_owner_may_read_a_new_database_file(tmp_path: Path) -> None:
    for prepare in (SqlStore.upgrade, SqlStore.check_schema):
        path = tmp_path / f"{prepare.__name__}.db"
        store = SqlStore(f"sqlite:///{path}")
        try:
            prepare(store)
        except SchemaMismatch:
            assert prepare is SqlStore.check_schema
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        store.close()
