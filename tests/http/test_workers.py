"""What workers report, and which of them are sent away."""

from typing import Any

import httpx
import pytest

from scheduler.model.ids import JobId, WorkerId
from scheduler.model.observation import Agreed, Missed
from tests.http.site import Site


def report(site: Site, job_id: JobId, worker: str, **body: Any) -> httpx.Response:
    return site.client.post(f"/v1/jobs/{job_id}/workers/{worker}", json=body, headers=site.worker_header(job_id))


def test_a_report_reaches_the_engine_and_tells_what_is_published(site: Site) -> None:
    job_id = site.submit(workers=1)
    site.tick()
    site.woken.clear()
    answer = report(site, job_id, f"{job_id}-1", ready=True, endpoint="127.0.0.1:4000", step=3, metrics={"loss": 0.5})
    assert (answer.status_code, answer.json()) == (200, {"generation": 0, "leave": False, "job_state": "STARTING"})
    assert site.woken.is_set()
    kept = site.reports.latest(WorkerId(f"{job_id}-1"))
    assert kept is not None
    assert (kept.ready, kept.endpoint, kept.step, kept.metrics) == (True, "127.0.0.1:4000", 3, (("loss", 0.5),))
    site.woken.clear()
    report(site, job_id, f"{job_id}-1", ready=True, endpoint="127.0.0.1:4000", step=4)
    assert not site.woken.is_set(), "progress alone can wait for the next tick"


def test_what_workers_agreed_on_by_themselves_reaches_the_engine_at_once(site: Site) -> None:
    job_id = site.submit(min_workers=1, max_workers=3)
    site.advance(1)
    report(site, job_id, f"{job_id}-1", generation=1, ready=True)
    site.woken.clear()
    agreed = {"generation": 1, "sub": 2, "lost": [f"{job_id}-3"]}
    assert report(site, job_id, f"{job_id}-1", generation=1, ready=True, agreed=agreed).status_code == 200
    assert site.woken.is_set()
    kept = site.reports.latest(WorkerId(f"{job_id}-1"))
    assert kept is not None
    assert kept.agreed == Agreed(1, 2, (WorkerId(f"{job_id}-3"),))
    for wrong in ({**agreed, "lost": []}, {**agreed, "sub": 0}, {**agreed, "lost": ["x"]}, {"generation": 1}):
        assert report(site, job_id, f"{job_id}-1", agreed=wrong).status_code == 422


def test_whom_a_worker_waits_for_in_vain_reaches_the_engine_at_once(site: Site) -> None:
    job_id = site.submit(min_workers=1, max_workers=3)
    site.advance(1)
    report(site, job_id, f"{job_id}-1", generation=1, ready=True)
    site.woken.clear()
    missed = {"generation": 1, "workers": [f"{job_id}-2"], "seconds": 60.0}
    assert report(site, job_id, f"{job_id}-1", generation=1, ready=True, missed=missed).status_code == 200
    assert site.woken.is_set()
    kept = site.reports.latest(WorkerId(f"{job_id}-1"))
    assert kept is not None
    assert kept.missed == Missed(1, (WorkerId(f"{job_id}-2"),), 60.0)
    for wrong in ({**missed, "workers": []}, {**missed, "generation": 0}, {**missed, "seconds": -1}):
        assert report(site, job_id, f"{job_id}-1", missed=wrong).status_code == 422


def test_workers_learn_where_each_answers_the_others(site: Site) -> None:
    job_id = site.submit(workers=2)
    site.tick()
    for ordinal in (1, 2):
        report(site, job_id, f"{job_id}-{ordinal}", ready=True, endpoint=f"h:{ordinal}", peer=f"h:{ordinal}0")
    site.tick()
    answer = site.client.get(f"/v1/jobs/{job_id}/discover_hosts", headers={"accept": "application/json"}).json()
    assert [(worker["endpoint"], worker["peer"]) for worker in answer["workers"]] == [("h:1", "h:10"), ("h:2", "h:20")]


def test_a_worker_that_was_asked_to_leave_is_told_so(site: Site) -> None:
    job_id = site.submit(min_workers=1, max_workers=4)
    site.advance(1)
    site.client.patch(f"/v1/jobs/{job_id}", json={"max_workers": 3})
    site.tick()
    told = [report(site, job_id, f"{job_id}-{n}", generation=1, ready=True).json() for n in (1, 2, 3, 4)]
    assert sorted(answer["leave"] for answer in told) == [False, False, False, True]
    assert {answer["generation"] for answer in told} == {2}


def test_a_worker_that_is_not_of_the_job_now_is_fenced(site: Site) -> None:
    job_id = site.submit(grace_seconds=0)
    site.advance(1)
    assert report(site, job_id, f"{job_id}-7").status_code == 409
    assert report(site, job_id, f"{job_id + 1}-1").json()["error"]["field"] == "worker_id"
    site.client.post(f"/v1/jobs/{job_id}/cancel")
    site.settle()
    assert report(site, job_id, f"{job_id}-1").status_code == 409
    assert report(site, JobId(999), "999-1").status_code == 404
    site.board.clear()
    assert report(site, job_id, f"{job_id}-1").status_code == 503


def test_a_token_opens_the_calls_of_one_job_only(site: Site) -> None:
    first, second = site.submit(), site.submit()
    site.advance(1)
    path = f"/v1/jobs/{second}/workers/{second}-1"
    for headers in ({}, site.worker_header(first), {"authorization": "Bearer x"}, {"authorization": "Basic eA=="}):
        answer = site.client.post(path, json={}, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized")
        assert answer.headers["www-authenticate"] == "Bearer"
    assert site.client.post(path, json={}, headers=site.worker_header(second)).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {"generation": -1},
        {"generation": True},
        {"ready": "yes"},
        {"endpoint": "no port"},
        {"endpoint": "h:99999"},
        {"endpoint": "h:0"},
        {"peer": "h:65536"},
        {"step": 1.5},
        {"metrics": {f"m{i}": 0.0 for i in range(17)}},
        {"metrics": {"a": "b"}},
        {"surprise": 1},
    ],
)
def test_a_report_is_checked_like_any_other_input(still_site: Site, body: dict[str, Any]) -> None:
    assert report(still_site, JobId(1), "1-1", **body).status_code == 422
