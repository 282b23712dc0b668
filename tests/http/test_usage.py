"""Accounts over HTTP: sums by what is asked for, in whole hours of people's clocks, with prices and by roles."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.config.settings import UsageSettings
from scheduler.engine.timing.wall_watch import CONFIRM_SECONDS
from scheduler.model.identity import Role
from tests.http.site import TOKEN, Site
from tests.world import START

HOUR = 3600.0
#: The hour in which sites begin.
BEGIN = START // HOUR * HOUR


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Site]:
    """A site where two users hold slots of two types for some hours."""
    site = Site(tmp_path)
    site.node("a", slots=4, gpu_type="H100")
    site.node("b", slots=4, gpu_type="L4")
    with site.served():
        site.client.post("/v1/queues", json={"path": "lab", "guarantee": {"*": 1}})
        site.submit(name="one", user="ann", queue="lab", min_workers=2, max_workers=2, gpu_type="H100")
        site.submit(name="two", user="bob", queue="lab", min_workers=1, max_workers=1, gpu_type="L4")
        site.advance(5)
        site.clock.set(BEGIN + 4 * HOUR)
        yield site
    site.close()


def usage(site: Site, **parameters: Any) -> dict[str, Any]:
    answer = site.client.get("/v1/usage", params={"since": BEGIN, **parameters})
    assert answer.status_code == 200, answer.text
    view: dict[str, Any] = answer.json()
    return view


def test_sums_are_by_what_is_asked_for(busy: Site) -> None:
    view = usage(busy, by="queue,user,gpu_type")
    assert (view["since"], view["until"], view["begins_at"]) == (BEGIN, BEGIN + 4 * HOUR, BEGIN)
    assert view["by"] == ["queue", "user", "gpu_type"]
    ann, bob = view["rows"]
    assert (ann["queue"], ann["user"], ann["gpu_type"], ann["job"]) == ("lab", "ann", "H100", None)
    assert (bob["user"], bob["gpu_type"], bob["cost"]) == ("bob", "L4", None)
    assert ann["held_slot_seconds"] == pytest.approx(2 * bob["held_slot_seconds"])
    assert ann["lent_slot_seconds"] == pytest.approx(ann["held_slot_seconds"] * 2 / 3)
    (whole,) = usage(busy, by="")["rows"]
    assert whole["queue"] is None
    assert whole["held_slot_seconds"] == pytest.approx(3 * bob["held_slot_seconds"])
    jobs = usage(busy, by="job")["rows"]
    assert [job["job"] for job in jobs] == [1, 2]
    assert jobs[0]["lent_slot_seconds"] == pytest.approx(ann["lent_slot_seconds"])


def test_hours_count_as_a_whole(busy: Site) -> None:
    view = usage(busy, since=BEGIN + 1.5 * HOUR, until=BEGIN + 3.5 * HOUR)
    assert (view["since"], view["until"]) == (BEGIN + HOUR, BEGIN + 3 * HOUR)
    assert view["rows"][0]["held_slot_seconds"] == pytest.approx(3 * 2 * HOUR)
    assert usage(busy, since=BEGIN + 3.5 * HOUR)["until"] == BEGIN + 4 * HOUR


@pytest.mark.parametrize("meet", [1.0, 1.5, 2.75])
def test_ranges_that_meet_add_up_to_the_whole(busy: Site, meet: float) -> None:
    ranges: list[dict[str, float]] = [{}, {"until": BEGIN + meet * HOUR}, {"since": BEGIN + meet * HOUR}]
    whole, first, second = (usage(busy, **each)["rows"][0]["held_slot_seconds"] for each in ranges)
    assert first + second == pytest.approx(whole)


def test_hours_are_those_of_peoples_clocks(busy: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy.clock, "wall", lambda: busy.clock.now() + 0.5 * HOUR)
    busy.advance(CONFIRM_SECONDS + 5)
    before = usage(busy)["rows"][0]["held_slot_seconds"]
    view = usage(busy, since=BEGIN + 4 * HOUR)
    assert (view["since"], view["until"]) == (BEGIN + 4 * HOUR, BEGIN + 5 * HOUR)
    busy.clock.advance(HOUR)
    assert usage(busy)["rows"][0]["held_slot_seconds"] == pytest.approx(before + 3 * HOUR)
    first, second = (usage(busy, since=BEGIN + k * HOUR, until=BEGIN + (k + 1) * HOUR) for k in (4, 5))
    assert first["rows"][0]["held_slot_seconds"] < 3 * HOUR
    assert second["rows"][0]["held_slot_seconds"] > 0.5 * HOUR


def test_prices_of_the_settings_give_costs(busy: Site) -> None:
    prices = UsageSettings(prices={"H100": 3.0, "*": 0.5})
    settings = busy.settings.model_copy(update={"usage": prices})
    object.__setattr__(busy.services, "settings", settings)
    ann, bob = usage(busy, by="user")["rows"]
    assert ann["cost"] == pytest.approx(ann["held_slot_seconds"] / HOUR * 3.0)
    assert bob["cost"] == pytest.approx(bob["held_slot_seconds"] / HOUR * 0.5)
    (lab,) = usage(busy, by="queue")["rows"]
    assert lab["cost"] == pytest.approx(ann["cost"] + bob["cost"])


@pytest.mark.parametrize(
    ("parameters", "field"),
    [({"by": "queue,colour"}, "by"), ({"until": BEGIN - HOUR}, "since"), ({"since": BEGIN * 2}, "since")],
)
def test_what_makes_no_sense_is_refused_in_one_line(busy: Site, parameters: dict[str, Any], field: str) -> None:
    answer = busy.client.get("/v1/usage", params={"since": BEGIN, **parameters})
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)


def test_viewers_may_read_and_strangers_may_not(tmp_path: Path) -> None:
    site = Site(tmp_path, token=TOKEN)
    with site.served():
        assert site.client.get("/v1/usage", params={"since": BEGIN}).status_code == 401
        header = site.user_header("vic", Role.VIEWER)
        view = site.client.get("/v1/usage", params={"since": BEGIN}, headers=header).json()
        assert (view["rows"], view["begins_at"]) == ([], None)
    site.close()
