"""A database that is locked, full or out of reach: a clear refusal, nothing half-written, and work goes on after."""

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from scheduler.errors import ConfigError, SchemaMismatch, StoreError, StoreUnavailable
from scheduler.model.job import Job, JobSpec
from scheduler.model.world import Changes
from scheduler.store import SqlStore
from scheduler.store.engine_side.load import ROWS_AT_ONCE
from tests.eventually import becomes
from tests.full_disk import files_limited
from tests.postgres import PostgresServer
from tests.store.conftest import OpenStore
from tests.store.desk import NOW, SPEC, admitted, lead, started

LARGE = replace(SPEC, command=("x" * 20_000,))


def path_of(url: str) -> str:
    return url.removeprefix("sqlite:///")


@contextmanager
def locked_by_another(url: str, server: PostgresServer | None) -> Iterator[None]:
    """Another process's transaction that nobody can write beside."""
    if server is None:
        with sqlite3.connect(path_of(url), isolation_level=None) as other:
            other.execute("BEGIN EXCLUSIVE")
            yield
            other.execute("ROLLBACK")
        other.close()
        return
    with psycopg.connect(url) as session:
        session.execute("LOCK TABLE counters, lease IN ACCESS EXCLUSIVE MODE")
        yield


def test_a_locked_database_is_told_and_used_again(
    database_url: str, backend: str, request: pytest.FixtureRequest, open_store: OpenStore
) -> None:
    server = request.getfixturevalue("postgres_server") if backend == "postgres" else None
    store = open_store(database_url, busy_timeout_seconds=0.1)
    lease = lead(store)
    (job,) = admitted(store, lease)
    with locked_by_another(database_url, server):
        with pytest.raises(StoreUnavailable, match=r"database is locked: .*: another"):
            store.submit([SPEC], NOW)
        with pytest.raises(StoreUnavailable, match="database is locked"):
            store.commit(Changes(jobs=(replace(job, priority=3),)), lease, NOW)
        assert store.get_job(job.id) == job
    store.commit(Changes(jobs=(replace(job, priority=3),)), lease, NOW)
    assert store.submit([SPEC], NOW)[0].id == job.id + 1


@contextmanager
def tiny_disk(path: Path) -> Iterator[None]:
    """A file system of its own, of one MiB."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(path)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", str(path)], check=True)


def fill(store: SqlStore) -> tuple[list[int], str]:
    """Submit until the store refuses: the ids that it acknowledged, and what it said."""
    ids: list[int] = []
    for _ in range(1000):
        try:
            ids.append(store.submit([LARGE], NOW)[0].id)
        except StoreUnavailable as refusal:
            return ids, str(refusal)
    raise AssertionError("it was never full")


def assert_consistent(store: SqlStore, path: Path, ids: list[int]) -> None:
    """Exactly the acknowledged jobs are there, each with its intent and event."""
    inbox = store.take_inbox(10_000)
    assert [job.id for job in store.list_jobs(limit=10_000)] == ids
    assert [intent.job_id for intent in inbox.intents] == [job.id for job in inbox.jobs] == ids
    assert [event.job_id for _, event in store.list_events(limit=10_000)] == ids
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()


def test_a_full_disk_is_told_and_work_goes_on_when_there_is_space(tmp_path: Path) -> None:
    with tiny_disk(tmp_path):
        path, ballast = tmp_path / "sched.db", tmp_path / "ballast"
        ballast.write_bytes(b"x" * 400_000)
        store = SqlStore(f"sqlite:///{path}")
        try:
            store.upgrade()
            ids, said = fill(store)
            assert f"database or disk is full: {path}: free some space" in said
            assert_consistent(store, path, ids)
            ballast.unlink()
            ids.append(store.submit([LARGE], NOW)[0].id)
            assert_consistent(store, path, ids)
            commit_all(store)
        finally:
            store.close()


def commit_all(store: SqlStore) -> None:
    lease = lead(store)
    inbox = store.take_inbox(10_000)
    store.commit(Changes(intents_done=tuple(intent.id for intent in inbox.intents)), lease, NOW)
    job: Job = started(inbox.jobs[0])
    store.commit(Changes(jobs=(job,), workers=job.workers), lease, NOW)


def test_a_file_that_may_not_grow_is_told_and_work_goes_on_after(tmp_path: Path) -> None:
    """A quota: the kernel refuses to write beyond a size."""
    path = tmp_path / "sched.db"
    store = SqlStore(f"sqlite:///{path}")
    store.upgrade()
    with files_limited(600_000):
        ids, said = fill(store)
    assert str(path) in said
    assert_consistent(store, path, ids)
    ids.append(store.submit([LARGE], NOW)[0].id)
    assert_consistent(store, path, ids)
    commit_all(store)
    store.close()


SUBMIT_FOR_EVER = """
import sys
from scheduler.model.job import JobSpec
from scheduler.store import SqlStore
from scheduler.store.engine_side.load import ROWS_AT_ONCE
store = SqlStore(sys.argv[1])
while True:
    ids = [answer.id for answer in store.submit([JobSpec("j", ("true",))] * 20, 0.0)]
    print(ids[-1], flush=True)
"""


def sessions_on(url: str) -> int:
    """How many others the server of this database works for."""
    with psycopg.connect(url) as session:
        others = "datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        (count,) = session.execute(f"SELECT count(*) FROM pg_stat_activity WHERE {others}".encode()).fetchone() or (0,)
    return int(count)


def test_what_was_acknowledged_outlives_the_process(database_url: str, backend: str, open_store: OpenStore) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", SUBMIT_FOR_EVER, database_url],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert child.stdout is not None
    with child.stdout:
        for _ in range(20):
            acknowledged = int(child.stdout.readline())
        child.send_signal(signal.SIGKILL)
        child.wait()
        acknowledged = max([acknowledged, *map(int, child.stdout.read().split())])
    if backend == "postgres":
        # What the process asked for last may be done when it is gone.
        becomes(lambda: sessions_on(database_url), 0)
    store = open_store(database_url)
    inbox = store.take_inbox(1_000_000)
    stored = [job.id for job in inbox.jobs]
    assert stored == list(range(1, len(stored) + 1))
    assert len(stored) in (acknowledged, acknowledged + 20)  # whole batches; the last answer may have been lost
    assert len(store.list_events(limit=1_000_000)) == len(inbox.intents) == len(stored)


@pytest.mark.postgres
def test_a_lost_connection_is_told_and_made_again(postgres_server: PostgresServer, open_store: OpenStore) -> None:
    url = postgres_server.new_database()
    store = open_store(url)
    store.submit([SPEC], NOW)
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}".encode())
        with pytest.raises(StoreUnavailable, match="database cannot be reached: postgresql://"):
            store.submit([SPEC], NOW)
    assert store.submit([SPEC], NOW)[0].id == 2
    store.close()
    postgres_server.drop_database(url)


@pytest.mark.postgres
def test_a_server_that_is_not_there_is_told_without_the_password(tmp_path: Path) -> None:
    store = SqlStore(f"postgresql://me:hunter2@/jobs?host={tmp_path}")
    with pytest.raises(StoreUnavailable, match="database cannot be reached") as refusal:
        store.load_world()
    assert "hunter2" not in str(refusal.value) + store.where


def test_rows_of_a_newer_version_are_set_aside_until_they_are_understood(
    database_url: str, backend: str, store: SqlStore
) -> None:
    lease = lead(store)
    jobs = admitted(store, lease, *[SPEC] * (2 * ROWS_AT_ONCE))
    set_wait_reason(database_url, backend, "UNHEARD_OF")
    aside = store.load_world()
    assert (aside.jobs, len(aside.unreadable)) == ((), len(jobs))
    set_wait_reason(database_url, backend, "SUBMITTED")
    changed = replace(jobs[0], priority=5)
    store.commit(Changes(jobs=(changed,)), lease, NOW)
    for _ in range(3):
        assert store.load_world().jobs[0] == replace(changed, version=1)


def set_wait_reason(url: str, backend: str, reason: str) -> None:
    statement = f"UPDATE jobs SET wait_reason = '{reason}'"
    if backend == "postgres":
        with psycopg.connect(url) as session:
            session.execute(statement.encode())
        return
    with sqlite3.connect(path_of(url)) as connection:
        connection.execute(statement)
    connection.close()


def test_a_missing_directory_is_told(tmp_path: Path) -> None:
    store = SqlStore(f"sqlite:///{tmp_path / 'no' / 'sched.db'}")
    with pytest.raises(StoreUnavailable, match=r"database cannot be opened: .*/no/sched.db"):
        store.upgrade()


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "sched.db").write_text("hello " * 1000)
    store = SqlStore(f"sqlite:///{tmp_path / 'sched.db'}")
    with pytest.raises(StoreError, match="not a database"):
        store.load_world()


def test_a_database_without_tables_is_told(empty_url: str, open_store: OpenStore) -> None:
    store = open_store(empty_url)
    with pytest.raises(SchemaMismatch, match="sched db upgrade"):
        store.submit([JobSpec("j", ("true",))], NOW)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sqlite://", "SQLite needs a file"),
        ("sqlite:///:memory:", "SQLite needs a file"),
        ("mysql://root:hunter2@db/x", "mysql is not supported"),
        ("sched.db", "not a database URL"),
    ],
)
def test_an_unsuitable_url_is_refused_at_once(url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refusal:
        SqlStore(url)
    assert "hunter2" not in str(refusal.value)
