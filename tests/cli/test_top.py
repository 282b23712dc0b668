"""`sched top` of clusters of many kinds, drawn of what the API answers."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from scheduler.cli.client.client import Client
from scheduler.cli.client.connection import find_daemon
from scheduler.cli.commands.top import ROWS_MIN, rows_for, watch
from tests.http.site import Site

#: What the view is of a site, in lines.
Drawn = Callable[[], list[str]]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    with capture_logs(), made.served():
        yield made
    made.close()


@pytest.fixture
def drawn(site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Drawn:
    monkeypatch.setenv("LINES", "30")

    def look() -> list[str]:
        with Client(find_daemon(site.url, None, None)) as client:
            watch(client, interval_seconds=0.0, go_on=iter([True, False]).__next__)
        return [line.rstrip() for line in capsys.readouterr().out.splitlines()]

    return look


def test_jobs_are_shown_however_many_nodes_there_are(site: Site, drawn: Drawn) -> None:
    for number in range(200):
        site.node(f"n{number:03d}", slots=2)
    site.tick()
    site.submit(name="drawn", workers=3)
    site.tick()
    lines = drawn()
    assert len(lines) <= 30
    assert any("drawn" in line for line in lines)
    assert any(line.startswith("and 179 more nodes with ") for line in lines)


def test_a_worker_without_slots_is_on_none(site: Site, drawn: Drawn) -> None:
    site.node("a", slots=4)
    site.tick()
    site.submit(runtime="horovod", workers=2, slots_per_worker=1)
    site.advance(5)
    assert any(line.endswith("■■··  2/4") for line in drawn())


def test_the_jobs_that_are_not_shown_are_counted(site: Site, drawn: Drawn) -> None:
    site.node("a", slots=40)
    site.tick()
    for number in range(40):
        site.submit(name=f"running{number}")
    site.tick()
    for number in range(90):
        site.submit(name=f"waiting{number}")
    site.tick()
    lines = drawn()
    running, waiting = (sum(f"  {name}" in line for line in lines) for name in ("running", "waiting"))
    assert len(lines) <= 30
    assert any(f"and {40 - running} more active" in line for line in lines)
    assert any(f"and {90 - waiting} more waiting" in line for line in lines)


@pytest.mark.parametrize(
    ("nodes", "jobs", "height", "rows"),
    [
        (4, 3, 24, (4, 12)),
        (200, 0, 30, (22, ROWS_MIN)),
        (200, 200, 30, (11, 11)),
        (200, 4, 30, (18, ROWS_MIN)),
        (200, 200, 3, (ROWS_MIN, ROWS_MIN)),
        (0, 200, 30, (0, 22)),
    ],
)
def test_nodes_and_jobs_share_the_lines(nodes: int, jobs: int, height: int, rows: tuple[int, int]) -> None:
    assert rows_for(nodes, jobs, height) == rows
