"""History over HTTP: read on page by page, or wait for what comes next."""

from tests.http.site import Site
from tests.http.test_hosts import in_background, until_listening
from tests.http.test_tokens import ADMIN


def test_pages_continue_where_the_last_one_ended(site: Site) -> None:
    for _ in range(3):
        site.submit()
    first = site.client.get("/v1/events?limit=2").json()
    second = site.client.get(f"/v1/events?limit=100&after={first['next']}").json()
    ids = [event["id"] for event in first["events"] + second["events"]]
    assert ids == sorted(set(ids))
    assert [event["kind"] for event in first["events"] + second["events"]].count("JOB_SUBMITTED") == 3
    end = site.client.get(f"/v1/events?after={second['next']}").json()
    assert end == {"events": [], "next": second["next"]}


def test_only_the_newest_are_given_before_following(site: Site) -> None:
    for _ in range(5):
        site.submit()
    page = site.client.get("/v1/events?after=-1&limit=2").json()
    assert [event["job_id"] for event in page["events"]] == [4, 5]


def test_events_say_what_why_and_for_whom(site: Site) -> None:
    low = site.submit(priority=1, min_workers=1, max_workers=4)
    site.advance(5)
    high = site.submit(priority=9, workers=2)
    site.advance(5)
    shrank = [e for e in site.client.get(f"/v1/events?job={low}").json()["events"] if e["kind"] == "JOB_SHRANK"]
    assert [(event["cause"], event["for_job"]) for event in shrank] == [("PREEMPTED", high)]


def test_waiting_ends_with_news_of_that_job_only(site: Site) -> None:
    mine, other = site.submit(), site.submit()
    site.advance(1)
    start = site.client.get("/v1/events?after=-1").json()["next"]
    answer = in_background(lambda: site.client.get(f"/v1/events?after={start}&job={mine}&wait=30"))
    until_listening(site)
    site.client.post(f"/v1/jobs/{other}/cancel")
    site.tick()
    until_listening(site)
    site.client.post(f"/v1/jobs/{mine}/cancel")
    site.tick()
    assert {event["job_id"] for event in answer().json()["events"]} == {mine}


def test_a_submission_ends_the_wait_for_anything(site: Site) -> None:
    start = site.client.get("/v1/events?after=-1").json()["next"]
    answer = in_background(lambda: site.client.get(f"/v1/events?after={start}&wait=30"))
    until_listening(site)
    site.submit()
    assert [event["kind"] for event in answer().json()["events"]] == ["JOB_SUBMITTED"]


def test_no_news_within_the_wait_gives_an_empty_page(site: Site) -> None:
    start = site.client.get("/v1/events?after=-1").json()["next"]
    assert site.client.get(f"/v1/events?after={start}&wait=0.05").json() == {"events": [], "next": start}


def test_who_waits_is_told_nothing_once_the_token_was_revoked(guarded: Site) -> None:
    ann = guarded.user_header("ann")
    start = guarded.client.get("/v1/events?after=-1", headers=ann).json()["next"]
    answer = in_background(lambda: guarded.client.get(f"/v1/events?after={start}&wait=30", headers=ann))
    until_listening(guarded)
    assert guarded.client.delete("/v1/tokens/1", headers=ADMIN).status_code == 200
    guarded.client.post("/v1/jobs", json={"command": ["true"]}, headers=ADMIN)
    guarded.tick()
    assert (answer().status_code, "was revoked" in answer().text) == (401, True)
