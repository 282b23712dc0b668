"""Recurring jobs: cron's own reading of expressions, and one run for all that were missed."""

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.daemon.cron import Cron
from scheduler.daemon.recurring import due_time, submit_due
from scheduler.errors import InvalidInput
from scheduler.model.identity import Role
from tests.http.site import Site
from tests.world import START

MINUTE = 60.0
DAY = 86400.0


def at(*moment: int) -> float:
    return datetime(*moment, tzinfo=UTC).timestamp()  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("* * * * *", (2026, 1, 1, 0, 1)),  # 1 January 2026 is a Thursday
        ("30 3 * * *", (2026, 1, 1, 3, 30)),
        ("0 0 * * 0", (2026, 1, 4)),
        ("0 0 * * 7", (2026, 1, 4)),
        ("0 0 * * 1", (2026, 1, 5)),
        ("0 0 * * sun", (2026, 1, 4)),
        ("0 0 * * 6-7", (2026, 1, 3)),
        ("0 0 * * 0-2", (2026, 1, 4)),
        ("0 0 * * 1-5/2", (2026, 1, 2)),
        ("0 0 * * sat-mon", (2026, 1, 3)),
        ("0 0 * * SAT-tue/2", (2026, 1, 3)),
        ("0 0 * * 7-2,3", (2026, 1, 4)),
        ("0 0 * 2 fri-wed/5", (2026, 2, 4)),
        ("0 0 2-3 jan-mar 6", (2026, 1, 2)),
        ("50/20 0 * * *", (2026, 1, 1, 0, 50)),
        ("0 0 13 * *", (2026, 1, 13)),
        ("0 0 13 * 1", (2026, 1, 5)),  # either day fits
        ("0 0 2 * 1", (2026, 1, 2)),
        ("0 0 2-31/2 * 1", (2026, 1, 2)),
        ("0 0 */2 * 1", (2026, 1, 5)),  # a field that begins with * restricts the other
        ("0 0 */4 * 2", (2026, 1, 13)),
        ("0 0 2 * */2", (2026, 4, 2)),  # the first second of a month that is a Sunday, Tuesday, Thursday or Saturday
        ("0 0 2 * *", (2026, 1, 2)),
        ("0 0 29 2 *", (2028, 2, 29)),
        ("0 0 L * *", (2026, 1, 31)),
        ("0 0 last 2 *", (2026, 2, 28)),
    ],
)
def test_expressions_mean_what_they_mean_to_cron(expression: str, expected: tuple[int, ...]) -> None:
    assert Cron(expression, "UTC").next_after(at(2026, 1, 1)) == at(*expected)


def test_times_are_those_of_the_timezone() -> None:
    assert Cron("0 3 * * *", "Europe/Berlin").next_after(at(2026, 7, 1)) == at(2026, 7, 1, 1)


@pytest.mark.parametrize(
    ("expression", "days"),
    [("30 2 * * *", [25, 26, 27]), ("0 3 * * *", [25, 26, 27]), ("*/30 2 * * *", [25] * 4 + [26])],
)
def test_a_time_that_the_clock_shows_twice_comes_twice_only_where_each_hour_has_one(
    expression: str, days: list[int]
) -> None:
    zone = ZoneInfo("Europe/Berlin")  # 25 October 2026 has 02:00 to 03:00 twice
    cron, moment, found = Cron(expression, "Europe/Berlin"), at(2026, 10, 24, 20), []
    for _ in days:
        later = cron.next_after(moment)
        assert later is not None
        assert later > moment
        found.append(datetime.fromtimestamp(later, zone).day)
        moment = later
    assert found == days


def test_a_time_that_the_clock_leaves_out_comes_when_it_goes_on() -> None:
    assert Cron("30 2 * * *", "Europe/Berlin").next_after(at(2026, 3, 28, 12)) == at(2026, 3, 29, 1)


@given(
    expression=st.sampled_from(["30 2 * * *", "*/20 1-3 * * *", "15 2,3 * * *", "0 0 * * sat-mon"]),
    moment=st.floats(at(2026, 1, 1), at(2027, 1, 1)),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
)
def test_the_next_time_is_later(expression: str, moment: float, zone: str) -> None:
    later = Cron(expression, zone).next_after(moment)
    assert later is not None
    assert moment < later < moment + 6 * DAY


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "* * * *",
        "* * * * * *",
        "61 * * * *",
        "a b c d e",
        "* * * * 8",
        "*/0 * * * *",
        "* * * * */0",
        "* * * * 8-2",
        "* * * * sat-mon/0",
        "* * * * sat-x",
        "* * * * sat-0_1",
        "0 0 31 2 *",
        "5-1 * * * *",
    ],
)
def test_what_is_no_expression_is_refused(expression: str) -> None:
    with pytest.raises(
        InvalidInput, match=r"five fields: minute \(0-59\), hour \(0-23\), day of month \(1-31\), month"
    ):
        Cron(expression, "UTC")


@pytest.mark.parametrize("zone", ["Mars/Olympus", "America", "../etc/passwd", "/etc/localtime", "x" * 300])
def test_what_is_no_timezone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidInput, match="timezone"):
        Cron("* * * * *", zone)


def test_each_time_is_submitted_once(site: Site) -> None:
    answer = site.client.post("/v1/recurring", json={"cron": "*/5 * * * *", "job": {"command": "true", "name": "r"}})
    assert answer.status_code == 201
    due = answer.json()["next_run_at"]
    [entry] = site.store.list_recurring()
    assert submit_due(site.store, entry, due - 1, site.clock.now()) is None
    assert submit_due(site.store, entry, due, site.clock.now()) == 1
    assert submit_due(site.store, entry, due, site.clock.now()) == 1, "lost before it was marked: the key is known"
    [entry] = site.store.list_recurring()
    assert due_time(entry, due + 299) is None
    assert submit_due(site.store, entry, due + 300, site.clock.now()) == 2


def test_timers_fire_at_each_time_once() -> None:
    zone = ZoneInfo("Europe/Berlin")
    cron, now = Cron("*/30 2 * * *", "Europe/Berlin"), datetime.fromtimestamp(at(2026, 10, 24, 20), zone)
    fired: list[datetime] = []
    for _ in range(5):
        due = cron.get_next_fire_time(fired[-1] if fired else None, now)
        assert due is not None
        fired.append(due)
    assert [due.timestamp() for due in fired] == [at(2026, 10, 25, 0) + n * 1800 for n in range(4)] + [
        at(2026, 10, 26, 1)
    ]


def test_nobody_takes_the_key_of_a_run_before_it_is_due(site: Site) -> None:
    body = {"cron": "*/5 * * * *", "job": {"command": "true", "name": "nightly"}}
    due = site.client.post("/v1/recurring", json=body).json()["next_run_at"]
    taken = {"command": "false", "client_key": f"recurring:1:{due:.0f}"}
    assert site.client.post("/v1/jobs", json=taken).status_code == 422
    site.clock.set(due)
    site.recurring.sweep()
    [job] = site.client.get("/v1/jobs").json()["jobs"]
    assert (job["name"], job["client_key"]) == ("nightly", taken["client_key"])


def test_missed_runs_are_made_up_for_by_one(site: Site) -> None:
    site.client.post("/v1/recurring", json={"cron": "* * * * *", "job": {"command": "true"}})
    site.clock.set(START + 3 * DAY)
    site.recurring.sweep()
    site.recurring.sweep()
    assert len(site.client.get("/v1/jobs").json()["jobs"]) == 1
    site.clock.advance(MINUTE)
    site.recurring.sweep()
    assert len(site.client.get("/v1/jobs").json()["jobs"]) == 2


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"min_workers": 9}, "min_workers: must be from 1 to max_workers"),
        ({"preferred_workers": 10**9}, "preferred_workers: must be from"),
        ({"user": "a\0b"}, "user_name: must not contain NUL"),
        ({"name": "x" * 10**6}, "name: has 1,000,000 characters"),
        ({"name": "\ud800"}, "name: is not UTF-8"),
        ({"shape": {"slots": 0}}, "slots_per_worker: must be from 1"),
    ],
    ids=["bounds", "too large", "NUL", "too long", "no UTF-8", "no slots"],
)
def test_a_recurring_job_of_which_no_job_can_be_made_is_set_aside_and_keeps_no_other_from_its_time(
    site: Site, tmp_path: Path, change: dict[str, Any], why: str
) -> None:
    for name in ("bad", "good"):
        site.client.post("/v1/recurring", json={"cron": "* * * * *", "job": {"command": "true", "name": name}})
    with closing(sqlite3.connect(tmp_path / "world.db")) as session, session:
        spec = json.loads(session.execute("SELECT spec FROM recurring WHERE id = 1").fetchone()[0])
        shape = {**spec["shape"], **change.get("shape", {})}
        session.execute("UPDATE recurring SET spec = ? WHERE id = 1", (json.dumps({**spec, **change, "shape": shape}),))
    site.clock.advance(MINUTE)
    site.recurring.sweep()
    page = site.client.get("/v1/jobs").json()
    assert ([job["name"] for job in page["jobs"]], page["unreadable"]) == (["good"], [])
    assert f"spec: {why}" in site.client.get("/v1/recurring/r1").json()["error"]["message"]


def test_a_recurring_job_that_the_database_refuses_says_so_and_keeps_no_other_from_its_time(
    site: Site, tmp_path: Path
) -> None:
    for name in ("bad", "good"):
        site.client.post("/v1/recurring", json={"cron": "* * * * *", "job": {"command": "true", "name": name}})
    refuse = "CREATE TRIGGER refuse BEFORE INSERT ON jobs WHEN NEW.name = 'bad' BEGIN SELECT RAISE(ABORT, 'no'); END"
    with closing(sqlite3.connect(tmp_path / "world.db")) as session, session:
        session.execute(refuse)
    site.clock.advance(MINUTE)
    site.recurring.sweep()
    assert [job["name"] for job in site.client.get("/v1/jobs").json()["jobs"]] == ["good"]
    assert site.client.get("/v1/recurring/r1").json()["refusal"].endswith("world.db: no")


def test_recurring_jobs_are_listed_shown_and_deleted(site: Site) -> None:
    body = {"cron": "0 3 * * *", "timezone": "Europe/Berlin", "job": {"command": "true", "name": "nightly"}}
    name = site.client.post("/v1/recurring", json=body).json()["id"]
    assert name == "r1"
    [listed] = site.client.get("/v1/recurring").json()["recurring"]
    assert (listed["id"], listed["cron"], listed["timezone"], listed["name"]) == (
        "r1",
        "0 3 * * *",
        "Europe/Berlin",
        "nightly",
    )
    assert site.client.get("/v1/recurring/r1").json() == listed
    assert site.client.delete("/v1/recurring/r1").json() == {"id": "r1"}
    for answer in (site.client.get("/v1/recurring/r1"), site.client.delete("/v1/recurring/r1")):
        assert (answer.status_code, answer.json()["error"]["message"]) == (404, "recurring job r1 not found")
    site.clock.set(START + DAY * 2)
    site.recurring.sweep()
    assert site.client.get("/v1/jobs").json()["jobs"] == []


@pytest.mark.parametrize("broken", ["timezone = 'Mars/Olympus'", "created_at = -5"])
def test_one_that_cannot_be_read_is_deleted_by_operators(guarded: Site, broken: str) -> None:
    ann, olga = guarded.user_header("ann"), guarded.user_header("olga", Role.OPERATOR)
    for _ in range(2):
        body = {"cron": "0 3 * * *", "job": {"command": "true"}}
        assert guarded.client.post("/v1/recurring", json=body, headers=ann).status_code == 201
    with closing(sqlite3.connect(guarded.directory / "world.db", isolation_level=None)) as database:
        database.execute(f"UPDATE recurring SET {broken} WHERE id = 1")
    assert guarded.client.delete("/v1/recurring/r1", headers=olga).status_code == 200
    assert guarded.client.delete("/v1/recurring/r2", headers=ann).status_code == 200


def test_a_recurring_job_that_is_sent_again_under_its_key_is_the_first_one(guarded: Site) -> None:
    ann, bob = guarded.user_header("ann"), guarded.user_header("bob")
    body = {"cron": "0 3 * * *", "job": {"command": "true"}, "client_key": "once"}
    answers = [guarded.client.post("/v1/recurring", json=body, headers=ann) for _ in range(2)]
    assert [answer.json()["id"] for answer in answers] == ["r1", "r1"]
    other = guarded.client.post("/v1/recurring", json={**body, "client_key": "twice"}, headers=ann)
    assert other.json()["id"] == "r2"
    refused = guarded.client.post("/v1/recurring", json=body, headers=bob)
    assert refused.status_code == 409
    assert "belongs to recurring job r1 of ann: use a new one" in refused.json()["error"]["message"]
    assert guarded.client.delete("/v1/recurring/r1", headers=ann).is_success
    again = guarded.client.post("/v1/recurring", json=body, headers=ann).json()["id"]
    assert again == "r3", "the deleted one has left its key"
    guarded.clock.advance(DAY)
    guarded.recurring.sweep()
    keys = [job.spec.client_key or "" for job in guarded.store.list_jobs()]
    assert [key.partition(":")[0] for key in keys] == ["recurring", "recurring"], "each run has a key of its own"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"cron": "every day"}, "cron"),
        ({"cron": "0 0 31 2 *"}, "cron"),
        ({"timezone": "Nowhere"}, "timezone"),
        ({"job": {"command": "x", "workers": 0}}, "job.workers"),
        ({"job": {"command": "x", "min_workers": 2, "max_workers": 1}}, "job.min_workers"),
        ({"job": {"command": "x", "client_key": "k"}}, "job.client_key"),
    ],
)
def test_a_broken_rule_of_a_recurring_job_names_its_field(
    still_site: Site, change: dict[str, object], field: str
) -> None:
    body = {"cron": "0 0 * * *", "job": {"command": "true"}, **change}
    answer = still_site.client.post("/v1/recurring", json=body)
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)
