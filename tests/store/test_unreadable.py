"""Rows that cannot be read: whatever a column holds, everybody else is served and decided on."""

import json
import random
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler.engine.tick import TickReport
from scheduler.errors import UnreadableRow
from scheduler.model.ids import JobId
from scheduler.model.intent import IntentKind
from scheduler.model.job import JobSpec
from scheduler.model.job_state import JobState
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import WorkerState
from scheduler.store.sql.engine_tables import generations
from scheduler.store.sql.schema import metadata
from tests.cli.calls import Call
from tests.http.site import Site
from tests.http.test_live import Stream
from tests.store import garbage
from tests.store.populated import populate
from tests.world import World

#: Of each column in one run.
VALUES_PER_COLUMN = 1
#: Whoever is harmed for longer is not unharmed.
TICKS_MAX = 10
#: Of one run on PostgreSQL, which takes the same paths with fewer strange values.
POSTGRES_CASES = 40


def tick(world: World) -> TickReport:
    """Without the checks of invariants, which read the same rows."""
    world.clock.advance(1.0)
    world.cluster.advance()
    return world.engine.tick()


def decided_on(world: World, *others: JobId) -> None:
    """A new job runs beside the others, which still do."""
    beside = WorkerShape(node_selector=(("zone", "z"),))
    new = world.store.submit([JobSpec("new", ("true",), shape=beside)], world.clock.now())[0].id
    world.engine.forget()
    reports = []
    for _ in range(TICKS_MAX):
        reports.append(tick(world))
        now = world.engine.world
        if now is not None and (job := now.job(new)) is not None and job.state is JobState.RUNNING:
            break
    else:
        raise AssertionError(f"job {new} does not run: {[report.error for report in reports]}")
    assert all(now.active[each].state is JobState.RUNNING for each in others)


class Sqlite:
    """The SQLite database of a site, and how it was before it was corrupted."""

    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"
        self._path = path
        self._ids_used = 0
        self._whole = sqlite3.connect(":memory:")

    def keep(self) -> None:
        garbage.without_not_null(str(self._path))
        with sqlite3.connect(self._path) as session:
            session.backup(self._whole)
        session.close()

    def restore(self) -> None:
        with sqlite3.connect(self._path) as session:
            self._whole.backup(session)
            # The cluster remembers the workers of jobs that the database has forgotten.
            self._ids_used += 1
            session.execute("UPDATE counters SET jobs = jobs + ?", (self._ids_used,))
        session.close()


class Postgres:
    """The PostgreSQL database of a site, and how it was before it was corrupted."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._ids_used = 0
        self._names = [table.name for table in metadata.sorted_tables]

    def keep(self) -> None:
        with garbage.connected(self.url) as session:
            garbage.free_of_constraints(session)
            session.execute("CREATE SCHEMA kept")
            for name in self._names:
                session.execute(f'CREATE TABLE kept."{name}" AS TABLE public."{name}"')

    def restore(self) -> None:
        self._ids_used += 1
        with garbage.connected(self.url) as session, session.transaction():
            for name in self._names:
                session.execute(f'DELETE FROM public."{name}"')
                session.execute(f'INSERT INTO public."{name}" SELECT * FROM kept."{name}"')
            session.execute("UPDATE counters SET jobs = jobs + %s", (self._ids_used,))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    with capture_logs(), site.served():
        yield site
    site.close()


def served(site: Site, other: JobId) -> None:
    """Every list, and all about the other job."""
    listed(site)
    for path in ("", "/workers", "/discover_hosts", "/explain"):
        answer = site.client.get(f"/v1/jobs/{other}{path}")
        assert answer.status_code == 200, f"{path}: {answer.text}"


def listed(site: Site) -> None:
    """Every list, the live picture and the metrics."""
    for path in (
        "/v1/jobs?limit=1000",
        "/v1/jobs?order=desc",
        "/v1/jobs/1/workers",
        "/v1/nodes",
        "/v1/cluster",
        "/v1/events",
        "/v1/events?after=-1",
        "/v1/bookings",
        "/v1/queues",
        "/v1/recurring",
        "/v1/webhooks",
        "/v1/report?since=0",
        "/metrics",
    ):
        answer = site.client.get(path)
        found = answer.status_code == 200 or (path == "/v1/jobs/1/workers" and answer.status_code in (404, 503))
        assert found, f"{path}: {answer.text}"
    for path in ("/v1/jobs/1", "/v1/jobs/1/discover_hosts", "/v1/jobs/1/explain"):
        assert site.client.get(path).status_code in (200, 404, 410, 503), path
    with site.client.stream("GET", "/v1/live") as answer:
        assert Stream(answer).message()[0] == "picture"
    with suppress(UnreadableRow):
        site.store.begin_webhook("hook")


def cases(randomness: random.Random, *, sqlite: bool) -> Iterator[tuple[Any, Any, Any]]:
    for table in garbage.CORRUPTED:
        for column in table.columns:
            drawn = garbage.values(column, randomness, sqlite=sqlite)
            for value in randomness.sample(drawn, min(VALUES_PER_COLUMN, len(drawn))):
                yield table, column, value


@pytest.mark.slow
def test_garbage_in_any_column_harms_nobody_else(site: Site, tmp_path: Path) -> None:
    seed = secrets.randbits(32)
    harms_nobody_else(site, Sqlite(tmp_path / "world.db"), seed, list(cases(random.Random(seed), sqlite=True)))


#: Right one by one, and wrong beside what else the row holds, or below what counts from one.
DISAGREEING = [
    *(("intents", "kind", kind.value) for kind in IntentKind),
    *(("jobs", "state", state.value) for state in JobState),
    *(("jobs", column, 0) for column in ("min_workers", "max_workers", "slots_per_worker", "next_ordinal", "active")),
    *(("jobs", "user_name", f"a{end}b") for end in "\x85\u2028\u2029"),
    *(("workers", "state", state.value) for state in WorkerState),
    ("workers", "desired", "STOP"),
    ("workers", "live", None),
    ("workers", "ended_at", 1.0),
    ("workers", "ordinal", 0),
]


#: What PostgreSQL could not divide, and what was more than NumPy's largest number once counted in billionths.
ONCE_HARMFUL = [("events", "at", 5e-324), ("workers", "ended_at", 5e-324), ("workers", "cpus", 1e11)]


def named(cases: list[tuple[str, str, Any]]) -> list[tuple[Any, Any, Any]]:
    """With tables and columns for their names."""
    tables = {(table.name, column.name): (table, column) for table in garbage.CORRUPTED for column in table.columns}
    return [(*tables[table, column], value) for table, column, value in cases]


def test_columns_that_do_not_go_together_harm_nobody_else(site: Site, tmp_path: Path) -> None:
    harms_nobody_else(site, Sqlite(tmp_path / "world.db"), 0, named(DISAGREEING))


def test_a_job_gets_its_next_host_list_whatever_marked_the_last_one_as_current(site: Site, tmp_path: Path) -> None:
    seed = secrets.randbits(32)
    site.node("a", slots=1)
    job = site.job("restarted", workers=1, max_retries=1000)
    site.advance(20)
    path, refused = tmp_path / "world.db", []
    garbage.without_not_null(str(path))
    for value in garbage.values(generations.c.current, random.Random(seed), sqlite=True):
        with garbage.connected(f"sqlite:///{path}") as session:
            session.execute("UPDATE generations SET current = ? WHERE current", (value,))
        site.cluster.crash((before := site.get(job)).workers[0].id)
        for _ in range(TICKS_MAX):
            site.clock.advance(300.0)  # longer than any pause between restarts
            site.cluster.advance()
            if (error := site.engine.tick().error) is not None:
                refused.append(f"{value!r:.100}: {error}")
        assert site.get(job).generation > before.generation
    assert not refused, f"seed {seed}: {refused}"


def test_garbage_in_columns_of_postgresql_harms_nobody_else(tmp_path: Path, database: str) -> None:
    seed = secrets.randbits(32)
    randomness = random.Random(seed)
    drawn = named(ONCE_HARMFUL) + randomness.sample(list(cases(randomness, sqlite=False)), POSTGRES_CASES)
    site = Site(tmp_path, database)
    with capture_logs(), site.served():
        harms_nobody_else(site, Postgres(database), seed, drawn)
    site.close()


def harms_nobody_else(site: Site, database: "Sqlite | Postgres", seed: int, drawn: list[tuple[Any, Any, Any]]) -> None:
    """One value after another in a database that is otherwise whole."""
    other = populate(site)
    database.keep()
    corrupted, harmed = 0, []
    for table, column, value in drawn:
        with garbage.connected(database.url) as session:
            if not garbage.corrupt(session, table, column, value):
                continue
        corrupted += 1
        try:
            decided_on(site, other)
            served(site, other)
        except Exception as error:
            harmed.append(f"{table.name}.{column.name} = {value!r:.100}: {type(error).__name__}: {error!s:.300}")
        database.restore()
    assert corrupted > min(len(metadata.sorted_tables), len(drawn) // 2)
    assert not harmed, f"seed {seed}: {len(harmed)} of {corrupted}:\n" + "\n".join(harmed[:50])


def test_text_that_is_not_utf8_in_any_column_harms_nobody_else(site: Site, tmp_path: Path) -> None:
    other = populate(site)
    database = Sqlite(tmp_path / "world.db")
    database.keep()
    harmed = []
    for table in garbage.CORRUPTED:
        for column in table.columns:
            with garbage.connected(database.url) as session:
                stored = garbage.put_undecodable(session, table, column)
            if not stored:
                continue
            try:
                alone = () if table.name in ("jobs", "workers", "generations", "nodes") else (other,)
                if (table.name, column.name) != ("nodes", "intent"):  # no node takes workers then
                    decided_on(site, *alone)
                listed(site)
            except Exception as error:
                harmed.append(f"{table.name}.{column.name}: {type(error).__name__}: {error!s:.300}")
            database.restore()
    assert not harmed, "\n".join(harmed)


def test_workers_of_a_job_that_cannot_be_read_go_on_on_their_slots_until_it_is_repaired(
    site: Site, tmp_path: Path
) -> None:
    site.node("a", slots=2)
    job = site.submit(workers=2)
    site.advance(10)
    worker = site.board.posting(job)
    assert worker is not None
    url, name, token = f"/v1/jobs/{job}", sorted(worker.live)[0], site.worker_header(job)
    with garbage.connected(f"sqlite:///{tmp_path / 'world.db'}") as session:
        (labels,) = session.execute("SELECT labels FROM jobs").fetchone()
        session.execute("UPDATE jobs SET labels = '[['")
    site.engine.forget()
    wanting = site.submit()
    for _ in range(5):
        assert tick(site).error is None
    assert len(site.cluster.observe().workers) == 2
    assert all(seen.alive for seen in site.cluster.observe().workers.values())
    assert site.client.get(f"/v1/jobs/{wanting}").json()["state"] == "QUEUED"
    page = site.client.get("/v1/jobs").json()
    assert [each["id"] for each in page["jobs"]] == [wanting]
    assert [(each["table"], each["key"], each["job"]) for each in page["unreadable"]] == [("jobs", str(job), job)]
    assert page["unreadable"][0]["reason"].startswith("labels: not valid JSON")
    for answer in (
        site.client.get(url),
        site.client.get(f"{url}/discover_hosts"),
        site.client.post(f"{url}/cancel"),
        site.client.post(f"{url}/workers/{name}", json={"generation": 1}, headers=token),
    ):
        assert answer.status_code == 503, answer.text
    assert site.client.get("/v1/cluster").json()["unreadable_count"] == 1
    with garbage.connected(f"sqlite:///{tmp_path / 'world.db'}") as session:
        session.execute("UPDATE jobs SET labels = ? WHERE id = ?", (labels, job))
    for _ in range(40):
        tick(site)
    assert site.client.get(url).json()["state"] == "RUNNING"
    assert site.client.get("/v1/cluster").json()["unreadable_count"] == 0
    assert all(seen.alive for seen in site.cluster.observe().workers.values())


def test_a_node_whose_row_cannot_be_read_comes_back_by_what_the_cluster_tells(site: Site, tmp_path: Path) -> None:
    site.node("a", slots=2)
    site.node("b", slots=2)
    site.advance(2)
    with garbage.connected(f"sqlite:///{tmp_path / 'world.db'}") as session:
        session.execute("UPDATE nodes SET labels = '{', intent = 'DRAINING' WHERE name = 'a'")
        session.execute("UPDATE nodes SET intent = 'NONSENSE' WHERE name = 'b'")
    site.engine.forget()
    assert tick(site).error is None
    nodes = site.client.get("/v1/nodes").json()["nodes"]
    seen = {node["name"]: (node["slots"], node["health"], node["intent"]) for node in nodes}
    assert seen == {"a": (2, "UP", "DRAINING"), "b": (2, "UP", "CORDONED")}
    with garbage.connected(f"sqlite:///{tmp_path / 'world.db'}") as session:
        kept = session.execute("SELECT row_key, content FROM replaced_rows ORDER BY row_key").fetchall()
    assert [key for key, _ in kept] == ["a", "b"]
    assert '"NONSENSE"' in kept[1][1]
    site.engine.forget()
    assert tick(site).error is None


@pytest.mark.parametrize("levels", [33, 300, 100_000])
def test_a_deep_template_of_before_is_set_aside_alone(site: Site, tmp_path: Path, levels: int) -> None:
    site.node("a", slots=2)
    deep, other = site.submit(), site.submit()
    site.advance(10)
    template = '{"a":' * levels + "1" + "}" * levels
    with garbage.connected(f"sqlite:///{tmp_path / 'world.db'}") as session:
        (launch,) = session.execute("SELECT launch FROM jobs WHERE id = ?", (deep,)).fetchone()
        stored = json.dumps({**json.loads(launch), "pod_template": template})
        session.execute("UPDATE jobs SET launch = ? WHERE id = ?", (stored, deep))
    site.engine.forget()
    assert tick(site).error is None
    page = site.client.get("/v1/jobs").json()
    assert [each["id"] for each in page["jobs"]] == [other]
    (row,) = page["unreadable"]
    assert (row["table"], row["key"], row["job"]) == ("jobs", str(deep), deep)
    assert row["reason"].startswith("launch: ")
    assert "nested" in row["reason"]


def test_what_cannot_be_read_is_named_by_health_and_exported_by_a_command(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'world.db'}"
    command = ("db", "unreadable", "--database-url", url)
    site.node("a", slots=2)
    job = site.submit()
    site.advance(5)
    assert Call.run(command, capsys).ok().out == "all rows can be read\n"
    assert "cannot be read" not in Call.run(("health", "--url", site.url), capsys).ok().out
    with garbage.connected(url) as session:
        session.execute("UPDATE jobs SET labels = '[['")
        session.execute("UPDATE nodes SET slots = -3, labels = x'ff00'")
    site.engine.forget()
    tick(site)
    health = " ".join(Call.run(("health", "--url", site.url), capsys).ok().out.split())
    assert f"see sched db unreadable: jobs {job} (labels: not valid JSON" in health
    listed = Call.run(command, capsys).ok().out.splitlines()
    assert listed[0].startswith(f"jobs {job}: labels: not valid JSON")
    assert listed[-1].endswith("rows cannot be read")
    exported = Call.run((*command, "-o", "json"), capsys).ok().document["unreadable"]
    (row,) = (each for each in exported if each["table"] == "jobs")
    assert (row["key"], row["columns"]["labels"], row["columns"]["id"]) == (str(job), "[[", job)
