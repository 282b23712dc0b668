"""JSON in rows with one part that is not as it was stored: everybody else is served and decided on."""

import copy
import json
import random
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler.model.data import DataSet
from scheduler.model.export import Export
from scheduler.model.fixed import FixedGroup
from scheduler.model.ids import JobId
from scheduler.model.job import JobSpec
from scheduler.model.shape import WorkerShape
from tests.http.site import Site
from tests.store import garbage
from tests.store.populated import populate
from tests.store.test_unreadable import Sqlite, decided_on, listed, tick

CASES = 24
ODD = [None, True, 0, -1, 2, 1e-9, 1e15, 2**62, "", "x", "a/b", "1-999", "2-1", "RUNNING", [], {}, [["a", "b"]], [1, 2]]
SERVERS = FixedGroup(2, ("ps",), (("A", "b"),), WorkerShape(1, node_selector=(("zone", "m"),)))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    with capture_logs(), site.served():
        yield site
    site.close()


@pytest.fixture
def other(site: Site) -> JobId:
    """A job that runs on a node of its own, in a database with all kinds of JSON."""
    found = populate(site)
    site.node("m", slots=8, labels=(("zone", "m"),))
    exported = Export((("X", "y"),), "/tmp", "h")
    speeds = {"speedup": ((1, 1.0), (2, 1.9)), "expected_seconds": 1000.0, "preferred_workers": 2}
    site.job("servers", workers=(1, 3), selector={"zone": "m"}, fixed=SERVERS, export=exported, **speeds)
    site.job("waits", workers=4, selector={"zone": "m"}, priority=5, preemptible=False)
    for _ in range(20):
        tick(site)
    spec = JobSpec("second", ("true",), fixed=FixedGroup(1, ("ps",), (), WorkerShape(0)), data=DataSet(10))
    site.store.add_recurring("* * * * *", "UTC", spec, site.clock.now())
    return found


def harm(site: Site, *others: JobId) -> str:
    """What goes wrong now for anybody, and for these jobs, which run; nothing if it is empty."""
    try:
        decided_on(site, *others)
        listed(site)
        for job in range(1, 6):
            for path in ("", "/workers", "/explain", "/discover_hosts", "/logs"):
                answer = site.client.get(f"/v1/jobs/{job}{path}")
                assert answer.status_code in (200, 404, 409, 410, 503), f"{job}{path}: {answer.text}"
    except Exception as error:
        return f"{type(error).__name__}: {error!s:.300}"
    return ""


@pytest.mark.parametrize(
    "hosts",
    ['["x", "m:1"]', '["m", "m"]', '["m:1", "m:\\u0663"]', '["m:1", "m:-2"]', '["m:1"]', "[]", '["m:1", "m:2", "m:3"]'],
)
def test_hosts_of_a_fixed_group_that_are_none_harm_nobody_else(
    site: Site, other: JobId, tmp_path: Path, hosts: str
) -> None:
    with garbage.connected(f"sqlite:///{tmp_path / 'world.db'}") as session:
        (servers,) = session.execute("SELECT id FROM jobs WHERE name = 'servers'").fetchone()
        session.execute("UPDATE jobs SET fixed_hosts = ? WHERE id = ?", (hosts, servers))
    assert harm(site, other) == ""
    (row,) = site.client.get("/v1/jobs").json()["unreadable"]
    assert (row["job"], row["reason"].partition(":")[0]) == (servers, "fixed_hosts")


@pytest.mark.slow
def test_one_part_of_a_json_text_that_is_another_harms_nobody_else(site: Site, other: JobId, tmp_path: Path) -> None:
    database, seed = Sqlite(tmp_path / "world.db"), secrets.randbits(32)
    database.keep()
    randomness, harmed = random.Random(seed), []
    stored = dict(parts(database.url))
    for _ in range(CASES):
        table, column = randomness.choice(list(stored))
        row, value = randomness.choice(stored[table, column])
        text = json.dumps(changed(value, randomness))
        with garbage.connected(database.url) as session:
            session.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', (text, row))
        may_be_its = table in ("workers", "generations", "nodes") or (table, row) == ("jobs", other)
        if why := harm(site, *(() if may_be_its else (other,))):
            harmed.append(f"{table}.{column} of row {row} = {text:.300}: {why}")
        database.restore()
    assert not harmed, f"seed {seed}:\n" + "\n".join(harmed)


def parts(url: str) -> Iterator[tuple[tuple[str, str], list[tuple[int, Any]]]]:
    """Columns with JSON, and what their rows hold."""
    with garbage.connected(url) as session:
        for table in garbage.CORRUPTED:
            for column in table.columns:
                rows = session.execute(f'SELECT rowid, "{column.name}" FROM "{table.name}"').fetchall()
                found = [(row, json.loads(text)) for row, text in rows if isinstance(text, str) and _is_json(text)]
                if found:
                    yield (table.name, column.name), found


def _is_json(text: str) -> bool:
    return text[:1] in ("[", "{") and text[-1] in ("]", "}") and len(text) < 100_000


def changed(value: Any, randomness: random.Random) -> Any:
    """The value with one of its parts removed, repeated, another number, or something else altogether."""
    value = copy.deepcopy(value)
    *way, last = [None, *randomness.choice(list(_ways(value)))]
    if last is None:
        return randomness.choice(ODD)
    inside = value
    for step in way[1:]:
        inside = inside[step]
    part = inside[last]
    match randomness.randrange(4):
        case 0 if isinstance(inside, dict):
            del inside[last]
        case 1 if isinstance(inside, list):
            inside.append(copy.deepcopy(part))
        case 2 if type(part) in (int, float):
            inside[last] = randomness.choice([part + 1, part - 1, part * 2, part / 3, -part, part * 1e6])
        case _:
            inside[last] = randomness.choice(ODD)
    return value


def _ways(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """To each part of it, and to the whole."""
    yield way
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        yield from _ways(part, (*way, key))
