"""explain: one or two lines that say why, composed from the reason that the engine gives."""

from typing import Any

import pytest

from scheduler.clusters.simulated.process import NO_PROGRAM_DETAIL, Behaviour
from scheduler.model.event import EventKind
from tests.http.site import Site


def explain(site: Site, job_id: int) -> dict[str, Any]:
    answer = site.client.get(f"/v1/jobs/{job_id}/explain")
    assert answer.status_code == 200
    view: dict[str, Any] = answer.json()
    assert len(view["summary"].splitlines()) <= 2
    return view


def test_a_job_that_waits_for_slots_says_what_it_needs_and_what_is_free(site: Site) -> None:
    site.submit(priority=5, workers=3)
    site.advance(1)
    waiting = site.submit(workers=2)
    site.advance(1)
    view = explain(site, waiting)
    assert (view["state"], view["reason"]) == ("QUEUED", "INSUFFICIENT_SLOTS")
    assert "2 workers of 1 slot each" in view["summary"]
    assert "1 of 4 suitable slots" in view["summary"]
    assert (view["details"]["slots_free"], view["details"]["slots_suitable"]) == (1, 4)


def test_a_job_that_shares_slots_says_so_and_one_that_has_to_leave_says_why(site: Site) -> None:
    site.node("a", slots=4, oversell=1.25)
    site.submit(priority=5, workers=4)
    site.advance(1)
    sharer, hungry = site.submit(oversell=True), site.submit(oversell=True, workers=2)
    site.advance(5)
    assert "on slots shared with other jobs" in explain(site, sharer)["summary"]
    assert "0 of 4 suitable slots are free, and 0 to share" in explain(site, hungry)["summary"]
    assert explain(site, hungry)["details"]["extra_slots_free"] == 0
    site.node("a", slots=4)
    site.tick()
    view = explain(site, sharer)
    assert (view["state"], view["reason"]) == ("STOPPING", "OVERSOLD")
    assert "no longer oversold" in view["summary"]


def test_impossible_jobs_say_so(site: Site) -> None:
    large, odd = site.submit(workers=9), site.submit(node_selector={"zone": "b"})
    site.advance(1)
    assert explain(site, large)["reason"] == "EXCEEDS_CLUSTER"
    assert "Lower its minimum" in explain(site, large)["summary"]
    assert explain(site, odd)["reason"] == "NO_MATCHING_NODE"
    assert "label zone=b" in explain(site, odd)["summary"]
    site.client.post("/v1/nodes/a/cordon")
    kept = site.submit()
    site.advance(1)
    view = explain(site, kept)
    assert view["reason"] == "NODES_UNAVAILABLE"
    assert "a (CORDONED)" in view["summary"]


def test_a_job_without_a_program_says_that_it_cannot_start_and_what_to_do(site: Site) -> None:
    job_id = site.submit(workers=1)
    site.cluster.behave(job_id, Behaviour(cannot_start=True))
    site.advance(2)
    view = explain(site, job_id)
    assert (view["state"], view["reason"]) == ("FAILED", "CANNOT_START")
    assert NO_PROGRAM_DETAIL in view["summary"]
    assert view["would_change"] == ["Correct what the reason names, and submit the job again."]


def test_a_running_job_says_why_it_is_not_larger(site: Site) -> None:
    full = site.submit(workers=1)
    hungry = site.submit(min_workers=1, max_workers=8)
    site.advance(10)
    assert "its maximum" in explain(site, full)["summary"]
    view = explain(site, hungry)
    assert (view["state"], view["reason"]) == ("RUNNING", "INSUFFICIENT_SLOTS")
    assert "3 of at most 8" in view["summary"]


def test_a_victim_names_whom_it_gives_way_to(site: Site) -> None:
    low = site.submit(name="low", priority=1, min_workers=1, max_workers=4, grace_seconds=20)
    site.advance(5)
    high = site.submit(name="high", priority=9, workers=2)
    site.tick()
    view = explain(site, low)
    assert (view["reason"], view["for_job"]) == ("PREEMPTED", high)
    assert f"job {high} (high, priority 9)" in view["summary"]
    view = explain(site, high)
    assert (view["reason"], view["for_job"]) == ("WAITING_FOR_VICTIMS", None)
    assert f"when the workers of job {low} (low, priority 1) have left" in view["summary"]
    assert "room for 2 workers on a" in view["summary"]


def test_stopping_and_ended_jobs_say_why(site: Site) -> None:
    job_id = site.submit(grace_seconds=5)
    site.advance(1)
    site.client.post(f"/v1/jobs/{job_id}/cancel")
    site.tick()
    assert explain(site, job_id)["reason"] == "CANCELLED"
    assert "a user cancelled it" in explain(site, job_id)["summary"]
    site.settle()
    assert explain(site, job_id)["summary"].startswith("Has been cancelled")


def test_a_suspended_job_says_how_to_go_on(site: Site) -> None:
    job_id = site.submit()
    site.client.post(f"/v1/jobs/{job_id}/suspend")
    site.tick()
    assert "until a user resumes it" in explain(site, job_id)["summary"]


def test_it_says_since_when_a_job_waits_for_this_reason(site: Site) -> None:
    site.submit(workers=4, time_limit_seconds=600)
    site.advance(10)
    waiting = site.submit(priority=-1)
    assert explain(site, waiting)["since"] == site.clock.now(), "no tick has looked at it yet"
    site.advance(30)
    site.submit(priority=-1)
    site.advance(30)
    (waits,) = [event for event in site.events(EventKind.JOB_WAITS) if event.job_id == waiting]
    assert (waits.cause, waits.at) == ("INSUFFICIENT_SLOTS", explain(site, waiting)["since"])
    assert site.clock.now() - waits.at >= 59
    site.client.post("/v1/nodes/a/cordon")
    site.advance(10)
    view = explain(site, waiting)
    assert view["reason"] == "NODES_UNAVAILABLE"
    assert [e.at for e in site.events(EventKind.JOB_WAITS) if e.job_id == waiting] == [waits.at, view["since"]]
    assert any("sched uncordon a" in way for way in view["would_change"])


def test_it_says_since_when_a_job_has_its_size_and_who_shrank_for_whom(site: Site) -> None:
    low = site.submit(name="low", priority=1, min_workers=1, max_workers=4, grace_seconds=5)
    site.advance(30)
    (started,) = site.events(EventKind.JOB_STARTED)
    assert explain(site, low)["since"] == started.at
    high = site.submit(name="high", priority=9, workers=2)
    site.advance(30)
    (shrank,) = site.events(EventKind.JOB_SHRANK)
    view = explain(site, low)
    assert view["since"] == shrank.at
    taking = {
        "at": shrank.at,
        "kind": "JOB_SHRANK",
        "job_id": low,
        "for_job": high,
        "reason": "PREEMPTED",
        "detail": "4 -> 2 workers",
        "lost_slot_seconds": None,
    }
    assert (view["gave"], view["got"]) == ([taking], [])
    view = explain(site, high)
    assert (view["gave"], view["got"]) == ([], [taking])


def test_it_says_how_much_unsaved_work_a_stop_lost(site: Site) -> None:
    low = site.submit(name="low", priority=1, workers=4, grace_seconds=5)
    site.advance(30)
    site.submit(name="high", priority=9, workers=2)
    site.advance(30)
    (taking,) = explain(site, low)["gave"]
    assert (taking["kind"], taking["lost_slot_seconds"]) == ("JOB_STOPPING", pytest.approx(4 * 30.0, abs=4.0))


def test_a_worker_that_is_replaced_changes_no_size(site: Site) -> None:
    job = site.job("trains", workers=(1, 2))
    site.advance(30)
    since = explain(site, job)["since"]
    site.cluster.crash(site.get(job).workers[0].id)
    site.advance(60)
    assert site.events(EventKind.WORKER_REPLACED)
    assert explain(site, job)["since"] == since


def test_what_would_change_it_names_the_command(site: Site) -> None:
    low = site.submit(name="low", priority=3, min_workers=2, max_workers=3)
    full = site.submit(name="full", priority=3)
    site.advance(20)
    waiting = site.submit(workers=2, priority=3)
    site.advance(10)
    ways = {job: " ".join(explain(site, job)["would_change"]) for job in (low, full, waiting)}
    assert f"sched priority {waiting} 4 --dry-run" in ways[waiting]
    assert ("sched scale" in ways[low], ways[full]) == (True, "")
    site.client.post(f"/v1/jobs/{waiting}/suspend")
    site.tick()
    assert f"sched resume {waiting}" in " ".join(explain(site, waiting)["would_change"])
