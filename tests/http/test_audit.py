"""The audit over HTTP: which requests are recorded, with what, and what never is."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from scheduler.errors import StoreUnavailable
from scheduler.http.runtime import audit
from scheduler.http.runtime.audit import AuditTrail
from scheduler.model.audit import AuditRecord
from scheduler.model.identity import Role
from scheduler.model.ids import JobId
from tests.http.site import TOKEN, Site
from tests.http.test_tokens import ADMIN, bearer, submitted

CHANGE = AuditRecord(1.0, "ann", "token", "::1", "POST", "/v1/jobs", "job 1", 201)
REFUSAL = AuditRecord(1.0, None, "nobody", "::1", "GET", "/v1/jobs", "", 401)


def recorded(site: Site, **query: Any) -> list[dict[str, Any]]:
    site.audit.write()
    answer = site.client.get("/v1/audit", params=query, headers=ADMIN)
    assert answer.status_code == 200, answer.text
    records: list[dict[str, Any]] = answer.json()["records"]
    return records


def told(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(record[name] for name in ("user", "method", "route", "object", "status"))


def test_changes_are_recorded_with_who_and_what_and_reads_are_not(guarded: Site) -> None:
    ann = guarded.user_header("ann")
    job_id = submitted(guarded, ann)
    guarded.client.get("/v1/jobs", headers=ann)
    guarded.client.post("/v1/whatif", json={"command": "true"}, headers=ann)
    guarded.client.post(f"/v1/jobs/{job_id}/cancel", headers=ann)
    guarded.clock.advance(1)
    guarded.client.post("/v1/jobs/99/cancel", headers=ann)
    guarded.clock.advance(1)
    guarded.client.post("/v1/nodes/a/cordon", headers=ADMIN)
    guarded.clock.advance(1)
    token_id = guarded.client.post("/v1/tokens", json={"user": "bob"}, headers=ADMIN).json()["id"]
    records = recorded(guarded)
    assert [told(record) for record in records] == [
        ("ann", "POST", "/v1/jobs", f"job {job_id}", 201),
        ("ann", "POST", "/v1/jobs/{job_id}/cancel", f"job {job_id}", 202),
        ("ann", "POST", "/v1/jobs/{job_id}/cancel", "job 99", 404),
        (None, "POST", "/v1/nodes/{name}/cordon", "node a", 404),
        (None, "POST", "/v1/tokens", f"token {token_id} of bob (user)", 201),
    ]
    assert [(record["known_by"], record["address"]) for record in records[2:4]] == [
        ("token", "127.0.0.1"),
        ("http.token", "127.0.0.1"),
    ]
    assert recorded(guarded, user="ann") == records[:3]
    assert recorded(guarded, since=guarded.clock.now() + 60) == []


def test_the_first_refusal_is_recorded_at_once_and_those_alike_after_a_minute(guarded: Site) -> None:
    ann = guarded.user_header("ann", seconds=60)
    for _ in range(3):
        assert guarded.client.get("/v1/nodes").status_code == 401
    guarded.client.post("/v1/nodes/a/drain", headers=ann)
    guarded.clock.advance(61)
    guarded.client.get("/v1/nodes", headers=ann)
    records = recorded(guarded)
    assert [(*told(record), record["known_by"], record["times"]) for record in records] == [
        (None, "GET", "/v1/nodes", "", 401, "nobody", 1),
        ("ann", "POST", "/v1/nodes/{name}/drain", "node a", 403, "token", 1),
        (None, "GET", "/v1/nodes", "", 401, "nobody", 2),
        ("ann", "GET", "/v1/nodes", "", 401, "nobody", 1),
    ]


def test_what_is_recorded_holds_no_secret_and_nothing_of_bodies(guarded: Site) -> None:
    secret = guarded.client.post("/v1/tokens", json={"user": "ann", "name": "purpose"}, headers=ADMIN).json()["token"]
    submitted(guarded, bearer(secret), env={"KEY": "hunter2"})
    guarded.client.get("/v1/jobs?user=hunter2", headers=bearer(f"{secret}x"))
    guarded.client.post("/v1/nodes/%0Aforged%1b/drain", headers=bearer(secret))
    text = str(recorded(guarded))
    assert all(word not in text for word in (secret, TOKEN, "hunter2", "purpose", "\\n", "\x1b"))


def test_calls_of_workers_are_recorded_only_where_they_are_refused(guarded: Site) -> None:
    job_id = JobId(submitted(guarded, guarded.user_header("ann")))
    guarded.advance(1)
    report = f"/v1/jobs/{job_id}/workers/{job_id}-1"
    assert guarded.client.post(report, json={}, headers=guarded.worker_header(job_id)).status_code == 200
    assert guarded.client.post(report, json={}, headers=guarded.worker_header(JobId(99))).status_code == 401
    refused = ("POST", "/v1/jobs/{job_id}/workers/{worker_id}", "", 401)
    assert [told(record)[1:] for record in recorded(guarded)][1:] == [refused], "nothing of what a stranger wrote"
    assert guarded.client.post(report, json={}, headers=guarded.user_header("olga", Role.OPERATOR)).status_code == 200
    assert told(recorded(guarded)[-1])[0] == "olga", "an operator in the place of a worker"


def test_only_administrators_read_it(guarded: Site) -> None:
    assert guarded.client.get("/v1/audit", headers=guarded.user_header("olga", Role.OPERATOR)).status_code == 403


def test_a_store_that_is_away_delays_records_and_no_request(guarded: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    ann = guarded.user_header("ann")

    def away(_: object) -> None:
        raise StoreUnavailable("away")

    written = guarded.audit._write
    monkeypatch.setattr(guarded.audit, "_write", away)
    job_id = submitted(guarded, ann)
    guarded.client.get("/v1/nodes")
    with pytest.raises(StoreUnavailable):
        guarded.audit.write()
    monkeypatch.setattr(guarded.audit, "_write", written)
    assert [record["object"] for record in recorded(guarded)] == [f"job {job_id}", ""]


def test_failures_have_a_limit_for_each_caller_and_take_no_place_from_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "STRANGERS_MAX", 2)
    monkeypatch.setattr(audit, "FAILURES_MAX", 3)
    monkeypatch.setattr(audit, "CHANGES_MAX", 12)
    written: list[AuditRecord] = []
    now = 1.0
    trail = AuditTrail(written.extend, lambda: 1.0, lambda: now)
    trail.write()
    for n in range(5):
        trail.add(AuditRecord(1.0, None, "nobody", f"10.0.0.{n}", "GET", "", "", 401))
        for user in ("ann", "bob"):
            trail.add(replace(REFUSAL, user=user, known_by="token", object=f"job {n}", status=404))
    trail.add(replace(CHANGE, at=2.0))
    trail.write()
    assert Counter(record.user for record in written) == {None: 2, "ann": 4, "bob": 3}
    trail.add(replace(REFUSAL, user="ann", known_by="token", object="job 0", status=404))
    trail.write()
    assert len(written) == 9, "one of before waits for the end of its minute"
    now += audit.ALIKE_SECONDS
    with capture_logs() as logs:
        trail.write()
    assert (written[-1].object, len(written)) == ("job 0", 10)
    assert logs == []
    for _ in range(15):
        trail.add(CHANGE)
    with capture_logs() as logs:
        trail.write()
    assert written.count(CHANGE) == 12
    assert [line["left_out"] for line in logs] == [3]


@pytest.mark.parametrize("seconds", [-86400.0, 86400.0])
def test_the_records_of_the_last_hour_are_found_after_the_clock_was_set(
    guarded: Site, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    guarded.tick()
    wall = guarded.clock.wall
    monkeypatch.setattr(guarded.clock, "wall", lambda: wall() + seconds)
    monkeypatch.setattr(guarded.audit, "_wall", guarded.clock.wall)
    guarded.tick()
    job_id = submitted(guarded, guarded.user_header("ann"))
    since = guarded.clock.wall() - 3600.0
    assert [record["object"] for record in recorded(guarded, since=since)] == [f"job {job_id}"]
    assert recorded(guarded, since=guarded.clock.wall() + 1.0) == []


@given(st.lists(st.tuples(st.sampled_from([200, 401, 404]), st.sampled_from("xyz"), st.booleans(), st.integers(0, 40))))
def test_no_request_is_lost_or_counted_twice_by_a_store_that_is_away_now_and_then(
    steps: list[tuple[int, str, bool, int]],
) -> None:
    now, away = 0.0, False
    written: list[AuditRecord] = []

    def write(records: Sequence[AuditRecord]) -> None:
        if away:
            raise StoreUnavailable("away")
        written.extend(records)

    trail = AuditTrail(write, lambda: now, lambda: now)
    for status, user, away, seconds in steps:  # noqa: B007 - `write` reads `away`
        trail.add(replace(CHANGE, at=now, user=user, status=status))
        now += seconds
        with suppress(StoreUnavailable):
            trail.write()
    away = False
    trail.write(last=True)
    assert sum(record.times for record in written) == len(steps)
