"""The audit over HTTP: which requests are recorded, with what, and what never is."""

from typing import Any

import pytest
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
    guarded.client.post("/v1/jobs/99/cancel", headers=ann)
    guarded.client.post("/v1/nodes/a/cordon", headers=ADMIN)
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


def test_refusals_are_recorded_once_for_all_that_are_alike(guarded: Site) -> None:
    ann = guarded.user_header("ann", seconds=60)
    for _ in range(3):
        assert guarded.client.get("/v1/nodes").status_code == 401
    guarded.client.post("/v1/nodes/a/drain", headers=ann)
    guarded.clock.advance(61)
    guarded.client.get("/v1/nodes", headers=ann)
    records = recorded(guarded)
    assert [(*told(record), record["known_by"], record["times"]) for record in records] == [
        (None, "GET", "/v1/nodes", "", 401, "nobody", 3),
        ("ann", "POST", "/v1/nodes/{name}/drain", "node a", 403, "token", 1),
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
    refused = ("POST", "/v1/jobs/{job_id}/workers/{worker_id}", f"job {job_id}, worker {job_id}-1", 401)
    assert [told(record)[1:] for record in recorded(guarded)][1:] == [refused]


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


def test_what_waits_is_limited_and_refusals_take_no_place_from_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "REFUSALS_MAX", 2)
    monkeypatch.setattr(audit, "CHANGES_MAX", 3)
    written: list[AuditRecord] = []
    trail = AuditTrail(written.extend, lambda: 1.0)
    for n in range(5):
        trail.add(AuditRecord(1.0, None, "nobody", f"10.0.0.{n}", "GET", "", "", 401))
        trail.add(CHANGE)
    with capture_logs() as logs:
        trail.write()
    assert written.count(CHANGE) == 3
    assert len(written) == 5
    assert [line["left_out"] for line in logs] == [5]
    trail.add(REFUSAL)
    trail.write()
    assert written[-1] == REFUSAL
