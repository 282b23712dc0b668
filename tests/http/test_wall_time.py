"""Moments in answers are those of people's clocks; inside, they are those of a clock that nobody can set."""

import json
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from typing_extensions import is_typeddict

from scheduler.engine.timing.wall_watch import CONFIRM_SECONDS
from scheduler.http import app
from scheduler.http.runtime.wall_time import is_moment
from tests.http.site import Site

HOUR = 3600.0
AHEAD = 2 * HOUR


@pytest.fixture
def jumped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A site whose machine's clock was set."""
    site = Site(tmp_path)
    site.node("a", slots=2)
    with site.served():
        site.submit(name="j")
        site.tick()
        monkeypatch.setattr(site.clock, "wall", lambda: site.clock.now() + AHEAD)
        site.tick()
        yield site
    site.close()


PATHS = ("/v1/jobs", "/v1/jobs/1", "/v1/cluster", "/v1/events", "/v1/history", "/v1/jobs/1/explain", "/v1/live?wait=0")


def moments(content: Any, name: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(content, dict):
        for key, value in content.items():
            yield from moments(value, key)
    elif isinstance(content, list):
        for value in content:
            yield from moments(value, name)
    elif isinstance(content, float) and is_moment(name):
        yield name, content


@pytest.mark.parametrize("path", PATHS)
def test_every_moment_that_is_shown_is_one_of_peoples_clocks(jumped: Site, path: str) -> None:
    text = jumped.client.get(path).text
    if path.startswith("/v1/live"):
        text = next(line for line in text.splitlines() if line.startswith("data: ")).removeprefix("data: ")
    found = list(moments(json.loads(text)))
    assert found
    wall = jumped.clock.wall()
    for name, at in found:
        assert abs(at - wall) < HOUR * 1.5, name


def test_moments_that_are_asked_for_are_of_peoples_clocks(jumped: Site) -> None:
    wall = jumped.clock.wall()
    answer = jumped.client.get("/v1/report", params={"since": wall - 60, "until": wall})
    assert answer.status_code == 200, answer.text
    assert answer.json()["until"] == pytest.approx(wall)
    refused = jumped.client.get("/v1/report", params={"since": wall + 60})
    assert refused.status_code == 422


def test_bookings_stand_by_the_clock_that_was_confirmed(jumped: Site) -> None:
    def book(name: str, start_at: float) -> float:
        body = {"name": name, "slots": 1, "start_at": start_at, "duration_seconds": 3 * HOUR}
        answer = jumped.client.post("/v1/bookings", json=body)
        assert answer.status_code == 202, answer.text
        jumped.tick()
        return float(jumped.client.get(f"/v1/bookings/{name}").json()["start_at"])

    believed = jumped.clock.now() + HOUR
    assert book("before", believed) == believed
    jumped.clock.advance(CONFIRM_SECONDS + 1)
    jumped.tick()
    assert jumped.client.get("/v1/bookings/before").json()["start_at"] == believed
    meant = jumped.clock.wall() + 5 * HOUR
    assert book("after", meant) == pytest.approx(meant)


def test_what_a_worker_says_of_its_clock_is_taken_for_what_it_was_here(jumped: Site) -> None:
    wall = jumped.clock.wall()
    jumped.settle()
    report = {"generation": 1, "ready": True, "step": 1, "last_commit_at": wall - 5}
    answer = jumped.client.post(
        "/v1/jobs/1/workers/1-1", json=report, headers=jumped.worker_header(jumped.submitted[0])
    )
    assert answer.status_code == 200, answer.text
    latest = jumped.reports.latest(jumped.get(jumped.submitted[0]).workers[0].id)
    assert latest is not None
    assert latest.last_commit_at == pytest.approx(wall - AHEAD - 5)


def test_when_a_checkpoint_was_written_does_not_depend_on_the_clock_that_was_set(jumped: Site) -> None:
    jumped.settle()
    job_id = jumped.submitted[0]
    report = {"generation": 1, "ready": True, "checkpoint_seconds_ago": 5}
    answer = jumped.client.post("/v1/jobs/1/workers/1-1", json=report, headers=jumped.worker_header(job_id))
    assert answer.status_code == 200, answer.text
    latest = jumped.reports.latest(jumped.get(job_id).workers[0].id)
    assert latest is not None
    assert latest.last_checkpoint_at == jumped.clock.now() - 5
    shown = jumped.client.get(f"/v1/jobs/{job_id}").json()["progress"]
    assert shown["last_checkpoint_at"] == pytest.approx(jumped.clock.wall() - 5)


def test_every_number_of_a_view_is_a_moment_or_has_a_unit() -> None:
    """A new field of a view is moved if its name says that it is a moment."""
    known = set()
    for module in vars(app).values():
        if isinstance(module, types.ModuleType):
            for view in vars(module).values():
                if is_typeddict(view):
                    known |= {name for name, kind in get_type_hints(view).items() if _is_time_like(name, kind)}
    assert known
    assert {name for name in known if not is_moment(name)} == set()


def _is_time_like(name: str, kind: Any) -> bool:
    """Whether it holds a float and its name has none of our units."""
    if kind not in (float, float | None):
        return False
    units = ("seconds", "_mib", "_rate", "_ratio", "per_second", "amount", "utilization", "efficiency", "fraction")
    others = ("oversell", "cpus", "cpus_per_worker", "share", "speed", "exponent", "weight", "cost")
    counts = name.startswith(("seconds_", "slots_"))
    return not any(unit in name for unit in units) and not counts and name not in others
