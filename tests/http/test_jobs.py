"""Reading jobs page by page, and asking for changes: stored as intents, done by the next tick."""

import sqlite3
from contextlib import closing

from scheduler.cli.render.tables import since
from scheduler.clusters.simulated.process import Behaviour
from scheduler.model.event import EventKind
from scheduler.model.job_state import JobState
from scheduler.model.observation import SlotLoad
from tests.full_disk import files_limited
from tests.http.site import Site


def test_pages_cover_every_job_once_in_either_direction(site: Site) -> None:
    ids = [site.submit() for _ in range(7)]

    def walk(order: str) -> list[int]:
        found: list[int] = []
        after = ""
        for _ in range(10):
            page = site.client.get(f"/v1/jobs?limit=3&order={order}{after}").json()
            found += [job["id"] for job in page["jobs"]]
            if page["next"] is None:
                break
            after = f"&after={page['next']}"
        return found

    assert walk("asc") == ids
    assert walk("desc") == ids[::-1]


def test_filters_narrow_and_combine(site: Site) -> None:
    site.submit(name="a", labels={"team": "x"}, user="ann")
    site.submit(name="b", labels={"team": "y"})
    site.submit(name="b", labels={"team": "x"}, min_workers=99)

    def ids(query: str) -> list[int]:
        return [job["id"] for job in site.client.get(f"/v1/jobs?{query}").json()["jobs"]]

    site.tick()
    assert ids("name=b") == [2, 3]
    assert ids("label=team%3Dx") == [1, 3]
    assert ids("label=team%3Dx&name=b") == [3]
    assert ids("user=ann") == [1]
    assert ids("state=QUEUED&active=true") == [3]
    assert ids("state=SUCCEEDED&active=true") == []
    assert site.client.get("/v1/jobs?label=nonsense").json()["error"]["field"] == "label"
    assert site.client.get("/v1/jobs?state=ASLEEP").json()["error"]["field"] == "state.0"


def test_a_job_shows_its_live_workers_and_history_keeps_the_ended_ones(site: Site) -> None:
    job_id = site.submit(workers=2)
    site.advance(1)
    shown = site.client.get(f"/v1/jobs/{job_id}").json()
    assert (shown["state"], shown["workers"], len(shown["live_workers"])) == ("RUNNING", 2, 2)
    assert [worker["rank"] for worker in shown["live_workers"]] == [0, 1]
    site.client.post(f"/v1/jobs/{job_id}/cancel")
    site.settle()
    assert site.client.get(f"/v1/jobs/{job_id}").json()["live_workers"] == []
    page = site.client.get(f"/v1/jobs/{job_id}/workers?limit=1").json()
    assert (page["workers"][0]["id"], page["next"]) == (f"{job_id}-1", 1)
    page = site.client.get(f"/v1/jobs/{job_id}/workers?after=1").json()
    assert ([worker["id"] for worker in page["workers"]], page["next"]) == ([f"{job_id}-2"], None)


def test_priority_and_bounds_are_changed_by_the_next_tick(site: Site) -> None:
    job_id = site.submit(min_workers=1, max_workers=2)
    site.tick()
    answer = site.client.patch(f"/v1/jobs/{job_id}", json={"priority": 9, "max_workers": 3})
    assert (answer.status_code, answer.json()) == (202, {"id": job_id})
    site.tick()
    shown = site.client.get(f"/v1/jobs/{job_id}").json()
    assert (shown["priority"], shown["min_workers"], shown["max_workers"]) == (9, 1, 3)
    refused = site.client.patch(f"/v1/jobs/{job_id}", json={"min_workers": 4})
    assert (refused.status_code, refused.json()["error"]["field"]) == (422, "min_workers")
    assert site.client.patch(f"/v1/jobs/{job_id}", json={}).status_code == 422


def test_a_change_of_which_a_part_cannot_be_stored_is_not_stored_at_all(site: Site) -> None:
    job_id = site.submit(min_workers=1, max_workers=2)
    site.tick()
    with closing(sqlite3.connect(site.directory / "world.db")) as connection, connection:
        connection.execute(
            "CREATE TRIGGER no_scale BEFORE INSERT ON intents WHEN NEW.kind = 'SCALE' "
            "BEGIN SELECT RAISE(ABORT, 'no room'); END"
        )
    answer = site.client.patch(f"/v1/jobs/{job_id}", json={"priority": 9, "max_workers": 3})
    assert answer.status_code >= 500
    assert site.store.take_inbox(10).intents == ()


def test_a_suspended_job_is_listed_since_its_suspension(site: Site) -> None:
    ran, waited = site.submit(workers=4), site.submit(workers=4)
    site.advance(500)
    for job_id in (ran, waited):
        site.client.post(f"/v1/jobs/{job_id}/suspend")
    site.settle()
    suspended = {event.job_id: event.at for event in site.events(EventKind.JOB_SUSPENDED)}
    site.advance(100)
    listed = {job["id"]: since(job) for job in site.client.get("/v1/jobs").json()["jobs"]}
    assert listed == suspended
    assert min(suspended.values()) > 500 + site.get(ran).submitted_at - 1
    site.client.post(f"/v1/jobs/{waited}/resume")
    site.tick()
    assert since(site.client.get(f"/v1/jobs/{waited}").json()) == site.events(EventKind.JOB_RESUMED)[-1].at


def test_suspend_and_resume_go_through_the_queue(site: Site) -> None:
    job_id = site.submit(grace_seconds=1)
    site.advance(1)
    assert site.client.post(f"/v1/jobs/{job_id}/suspend").status_code == 202
    site.advance(5)
    site.expect(job_id, JobState.SUSPENDED)
    assert site.client.post(f"/v1/jobs/{job_id}/resume").status_code == 202
    site.advance(2)
    site.expect(job_id, JobState.RUNNING)


def test_a_job_that_has_ended_takes_no_requests(site: Site) -> None:
    job_id = site.submit()
    site.client.post(f"/v1/jobs/{job_id}/cancel")
    site.tick()
    for call in ("cancel", "suspend", "resume"):
        answer = site.client.post(f"/v1/jobs/{job_id}/{call}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "conflict")
    assert site.client.patch(f"/v1/jobs/{job_id}", json={"priority": 1}).status_code == 409


def test_an_unknown_job_is_not_found_anywhere(site: Site) -> None:
    for path in ("", "/workers", "/explain", "/logs", "/discover_hosts"):
        answer = site.client.get(f"/v1/jobs/999{path}")
        assert (answer.status_code, answer.json()["error"]["message"]) == (404, "job 999 not found"), path
    for path in ("/cancel", "/suspend", "/resume"):
        assert site.client.post(f"/v1/jobs/999{path}").status_code == 404
    assert site.client.get("/v1/jobs/0").status_code == 422
    assert site.client.get(f"/v1/jobs/{2**63}").json()["error"]["field"] == "job_id"
    assert site.client.get("/v1/nothing").json()["error"]["code"] == "not_found"


def test_nodes_are_shown_cordoned_and_used_again(site: Site) -> None:
    site.submit(workers=3)
    site.advance(1)
    [node] = site.client.get("/v1/nodes").json()["nodes"]
    assert (node["name"], node["slots"], node["slots_used"], node["intent"]) == ("a", 4, 3, "ACTIVE")
    assert node["workers"] == ["1-1", "1-2", "1-3"]
    assert site.client.post("/v1/nodes/a/cordon").status_code == 202
    site.tick()
    assert site.client.get("/v1/nodes").json()["nodes"][0]["intent"] == "CORDONED"
    site.client.post("/v1/nodes/a/uncordon")
    site.tick()
    assert site.client.get("/v1/nodes").json()["nodes"][0]["intent"] == "ACTIVE"
    assert site.client.post("/v1/nodes/b/drain").json()["error"]["message"] == "node b not found"


def test_an_oversold_node_shows_who_shares_and_what_is_crowded(site: Site) -> None:
    site.node("a", slots=4, oversell=1.5)
    site.submit(workers=4, priority=5)
    site.advance(5)
    sharer = site.submit(workers=2, oversell=True)
    site.cluster.behave(sharer, Behaviour(load=SlotLoad(memory=0.95)))
    site.tick()
    [node] = site.client.get("/v1/nodes").json()["nodes"]
    assert (node["slots"], node["slots_used"], node["oversell"]) == (4, 4, 1.5)
    assert (node["extra_slots"], node["extra_slots_used"], node["sharers"]) == (2, 2, ["2-1", "2-2"])
    assert [w["shared"] for w in site.client.get(f"/v1/jobs/{sharer}").json()["live_workers"]] == [True, True]
    site.advance(5)
    [node] = site.client.get("/v1/nodes").json()["nodes"]
    assert (node["crowded_slots"], node["extra_slots_used"]) == ([0, 1], 0)
    assert site.client.get(f"/v1/jobs/{sharer}").json()["reason"] == "INSUFFICIENT_SLOTS"


def test_the_cluster_at_a_glance(site: Site) -> None:
    running = site.submit(workers=2, priority=5)
    waiting = site.submit(workers=4)
    site.advance(1)
    view = site.client.get("/v1/cluster").json()
    assert (view["slots_total"], view["slots_used"], view["term"], view["not_ready"]) == (4, 2, 1, None)
    assert [job["id"] for job in view["jobs"]] == [running, waiting]
    assert (view["jobs_by_state"]["RUNNING"], view["jobs_by_state"]["QUEUED"]) == (1, 1)


def test_a_locked_database_is_told_and_nothing_is_stored(site: Site) -> None:
    with files_limited(1):
        answer = site.client.post("/v1/jobs", json={"command": ["true"], "env": {"A": "x" * 60_000}})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
    assert answer.headers["retry-after"] == "1"
    assert site.client.get("/v1/jobs").json()["jobs"] == []
