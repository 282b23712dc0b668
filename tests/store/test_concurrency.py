"""Many threads and several processes' worth of stores on one database."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Event

from scheduler.model.intent import IntentKind
from scheduler.model.world import Changes
from scheduler.store import SqlStore
from scheduler.store.sql.database import Database
from tests.store.conftest import OpenStore
from tests.store.desk import NOW, SPEC, lead

THREADS = 6


def test_one_key_submitted_by_many_at_once_makes_one_job(database_url: str, open_store: OpenStore) -> None:
    stores = [open_store(database_url) for _ in range(THREADS)]
    start = Barrier(THREADS)
    specs = [replace(SPEC, client_key=f"key {n}") for n in range(40)]

    def submit(number: int) -> list[tuple[int, bool]]:
        start.wait(30)
        mine = specs if number % 2 else list(reversed(specs))
        answers = store_of(number).submit(mine, NOW)
        return [(a.id, a.created) for a in (answers if number % 2 else reversed(answers))]

    def store_of(number: int) -> SqlStore:
        return stores[number // 2]  # some share a store, some do not

    with ThreadPoolExecutor(THREADS) as pool:
        answers = list(pool.map(submit, range(THREADS)))
    for of_key in zip(*answers, strict=True):
        assert len({job_id for job_id, _ in of_key}) == 1
        assert sum(created for _, created in of_key) == 1
    assert len(stores[0].list_jobs(limit=1000)) == len(specs)


def test_requests_made_while_the_engine_works_are_all_admitted_once(database_url: str, open_store: OpenStore) -> None:
    """The engine's reads and commits interleave with submits of other threads: no job is missed or seen twice."""
    engine, front = open_store(database_url), open_store(database_url)
    lease, done = lead(engine), Event()
    per_thread = 30

    def submit(_: int) -> list[int]:
        return [front.submit([SPEC], NOW)[0].id for _ in range(per_thread)]

    def take() -> list[int]:
        seen: list[int] = []
        while True:
            last = done.is_set()
            inbox = engine.take_inbox(7)
            assert [i.job_id for i in inbox.intents if i.kind is IntentKind.SUBMIT] == [j.id for j in inbox.jobs]
            engine.commit(Changes(jobs=tuple(inbox.jobs), intents_done=tuple(i.id for i in inbox.intents)), lease, NOW)
            seen += [job.id for job in inbox.jobs]
            if last and not inbox.intents:
                return seen

    with ThreadPoolExecutor(THREADS) as pool:
        taking = pool.submit(take)
        submitted = [job_id for ids in pool.map(submit, range(THREADS - 1)) for job_id in ids]
        done.set()
        seen = taking.result(60)
    assert seen == sorted(submitted)
    assert [job.id for job in engine.load_world().jobs] == seen


def test_who_reads_events_by_their_ids_misses_none(database_url: str, open_store: OpenStore) -> None:
    reader, writer, done = open_store(database_url), open_store(database_url), Event()

    def follow() -> list[int]:
        seen: list[int] = []
        while True:
            last = done.is_set()
            page = reader.list_events(after=seen[-1] if seen else None)
            seen += [event_id for event_id, _ in page]
            if last and not page:
                return seen

    with ThreadPoolExecutor(THREADS) as pool:
        following = pool.submit(follow)
        list(pool.map(lambda _: writer.submit([SPEC] * 2, NOW), range(60)))
        done.set()
        seen = following.result(60)
    assert seen == list(range(1, 121))


def test_a_secret_that_many_ask_for_first_is_one(database_url: str, open_store: OpenStore) -> None:
    stores = [open_store(database_url) for _ in range(THREADS)]
    start = Barrier(THREADS)

    def ask(store: SqlStore) -> bytes:
        start.wait(30)
        return store.secret("workers")

    with ThreadPoolExecutor(THREADS) as pool:
        assert len(set(pool.map(ask, stores))) == 1


def test_many_may_open_a_new_sqlite_file_at_once(tmp_path: Path) -> None:
    """SQLite waits for no lock when two of them begin to write the log ahead."""
    start = Barrier(THREADS)

    def mode(path: Path) -> str:
        database = Database(f"sqlite:///{path}", busy_timeout_seconds=60.0)
        start.wait(30)
        try:
            with database.read() as connection:
                return str(connection.exec_driver_sql("PRAGMA journal_mode").scalar_one())
        finally:
            database.close()

    with ThreadPoolExecutor(THREADS) as pool:
        for number in range(40):
            path = tmp_path / f"{number}.db"
            with closing(sqlite3.connect(path)) as new:
                new.execute("CREATE TABLE some (x)")
            assert set(pool.map(mode, [path] * THREADS)) == {"wal"}
