"""A replica that does not lead: it reads, answers hosts, takes requests, and passes on what workers say."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler.http.runtime.relay import FORWARDED
from scheduler.model.ids import JobId, WorkerId
from scheduler.model.job_state import JobState
from tests.eventually import SECONDS_MAX
from tests.http.site import Site
from tests.http.test_hosts import until_listening
from tests.http.test_logs import write

REPORT = {"generation": 1, "ready": True, "step": 7}


class Pair:
    """A leader with one running job, and a standby, both served."""

    def __init__(self, leader: Site, standby: Site, job: JobId) -> None:
        self.leader, self.standby, self.job = leader, standby, job

    def say(self, site: Site, worker: str, **headers: str) -> Any:
        path = f"/v1/jobs/{self.job}/workers/{worker}"
        return site.client.post(path, json=REPORT, headers={**site.worker_header(self.job), **headers})


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    leader, standby = Site(tmp_path), Site(tmp_path)
    leader.node("a", slots=2)
    with capture_logs(), leader.served(), standby.served():
        leader.engine = leader._new_engine("leader", leader.url)
        standby.engine = standby._new_engine("standby", standby.url)
        leader.tick()
        job = leader.submit()
        leader.advance(2)
        assert standby.tick().following
        yield Pair(leader, standby, job)
    leader.close()
    standby.close()


def test_each_tells_who_leads(pair: Pair) -> None:
    roles = [site.client.get("/readyz").json()["role"] for site in (pair.leader, pair.standby)]
    assert roles == ["leader", "standby"]
    for site, term in ((pair.leader, 1), (pair.standby, None)):
        view = site.client.get("/v1/cluster").json()
        assert (view["term"], view["not_ready"]) == (term, None)
        assert view["leader"] == {"name": "leader", "term": 1, "url": pair.leader.url}
        assert [job["state"] for job in view["jobs"]] == ["RUNNING"]


def test_what_a_worker_says_reaches_the_leader(pair: Pair) -> None:
    worker = f"{pair.job}-1"
    answer = pair.say(pair.standby, worker)
    assert (answer.status_code, answer.json()) == (200, pair.say(pair.leader, worker).json())
    heard = pair.leader.reports.latest(WorkerId(worker))
    assert heard is not None
    assert heard.step == 7
    assert pair.standby.reports.latest(WorkerId(worker)) is None


def test_the_leaders_refusals_come_back_and_strangers_get_no_further_than_the_standby(pair: Pair) -> None:
    fenced = pair.say(pair.standby, f"{pair.job}-9")
    assert (fenced.status_code, fenced.json()["error"]["code"]) == (409, "conflict")
    stranger = pair.say(pair.standby, f"{pair.job}-1", authorization="Bearer nobody")
    assert stranger.status_code == 401


def test_a_leader_that_stood_still_for_longer_than_its_lease_ends_no_worker_that_another_may_have_started(
    pair: Pair,
) -> None:
    leader, newer = pair.leader, pair.job + 1
    assert leader.engine.lease is not None
    leader.clock.advance(leader.engine.lease_seconds + 1)
    path, headers = f"/v1/jobs/{newer}/workers/{newer}-1", leader.worker_header(JobId(newer))
    for answer in (pair.say(leader, f"{pair.job}-9"), leader.client.post(path, json=REPORT, headers=headers)):
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.json()["error"]["message"].startswith("this replica may not lead any more")
    assert pair.say(leader, f"{pair.job}-1").status_code == 200
    leader.tick()
    assert pair.say(leader, f"{pair.job}-9").status_code == 409


def test_what_was_passed_on_once_is_not_passed_on_again(pair: Pair) -> None:
    answer = pair.say(pair.standby, f"{pair.job}-1", **{FORWARDED: "1"})
    assert answer.status_code == 503
    assert "is not leading" in answer.json()["error"]["message"]


def test_a_leader_that_cannot_be_reached_is_told_with_when_to_ask_again(pair: Pair) -> None:
    pair.leader.engine.release()
    pair.leader.store.acquire_lease("gone", 0.0, 10.0, url="http://127.0.0.1:1")
    pair.standby.tick()
    answer = pair.say(pair.standby, f"{pair.job}-1")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "the leading replica gone cannot be reached" in answer.json()["error"]["message"]


def test_hosts_are_answered_by_the_standby_and_waiting_ends_with_the_leaders_commit(pair: Pair) -> None:
    path = f"/v1/jobs/{pair.job}/discover_hosts"
    first = pair.standby.client.get(path)
    assert (first.text, first.headers["x-sched-generation"]) == ("host-a:1\n", "1")
    later: list[int] = []
    query = {"wait": 30, "generation": 1}
    waiting = threading.Thread(target=lambda: later.append(pair.standby.client.get(path, params=query).status_code))
    waiting.start()
    until_listening(pair.standby)
    pair.leader.client.post(f"/v1/jobs/{pair.job}/cancel")
    pair.leader.advance(60)
    pair.standby.tick()
    waiting.join(SECONDS_MAX)
    assert later == [410]
    assert pair.standby.client.get(f"/v1/jobs/{pair.job}").json()["state"] == "CANCELLED"


def test_a_log_that_only_the_leader_has_is_read_at_the_standby(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    leader = Site(tmp_path / "a")
    standby = Site(tmp_path / "b", f"sqlite:///{tmp_path / 'a' / 'world.db'}")
    leader.node("a", slots=2)
    with capture_logs(), leader.served(), standby.served():
        leader.engine = leader._new_engine("leader", leader.url)
        standby.engine = standby._new_engine("standby", standby.url)
        leader.tick()
        job = leader.submit()
        leader.advance(2)
        assert standby.tick().following
        path = f"/v1/jobs/{job}/logs?offset=-5&limit=3"
        assert standby.client.get(path).text == ""
        write(leader, job, f"{job}-1", b"hello world")
        answer = standby.client.get(path)
        assert (answer.text, answer.headers["x-sched-offset"]) == ("wor", "9")
        assert answer.headers["x-sched-worker"] == f"{job}-1"
        assert standby.client.get(path, headers={FORWARDED: "1"}).text == ""
        leader.store.acquire_lease("gone", 1e9, 10.0, url="http://127.0.0.1:1")
        standby.tick()
        assert standby.client.get(path).status_code == 200
    leader.close()
    standby.close()


def test_jobs_and_requests_may_be_handed_in_at_the_standby(pair: Pair) -> None:
    job = pair.standby.submit(name="other")
    pair.standby.client.patch(f"/v1/jobs/{pair.job}", json={"priority": 5})
    pair.leader.advance(2)
    pair.leader.expect(job, JobState.RUNNING)
    assert pair.leader.get(pair.job).priority == 5
    pair.standby.tick()
    assert [view["id"] for view in pair.standby.client.get("/v1/jobs").json()["jobs"]] == [pair.job, job]


def test_levels_are_reported_by_the_leader_alone(pair: Pair) -> None:
    texts = [site.metrics.render().decode() for site in (pair.leader, pair.standby)]
    assert ["sched_slots{" in text for text in texts] == [True, False]
    assert ["sched_leading 1.0" in text for text in texts] == [True, False]
