"""explain without a job: why slots are idle."""

from typing import Any

from tests.http.site import Site


def idle(site: Site) -> dict[str, Any]:
    answer = site.client.get("/v1/explain")
    assert answer.status_code == 200
    view: dict[str, Any] = answer.json()
    assert sum(part["slots"] for part in view["idle"]) == view["slots_idle"]
    return view


def test_slots_that_nobody_can_use_say_so(site: Site) -> None:
    site.submit(workers=3)
    site.advance(5)
    view = idle(site)
    assert (view["summary"], view["slots_total"], view["waiting"]) == ("1 of 4 slots is idle.", 4, {})
    assert [(part["reason"], part["slots"]) for part in view["idle"]] == [("FREE", 1)]
    assert "no job is waiting, and no running job can grow" in view["idle"][0]["sentence"]
    site.submit(workers=2)
    site.advance(5)
    view = idle(site)
    assert view["waiting"] == {"INSUFFICIENT_SLOTS": 1}
    assert "the 1 waiting job cannot use it (INSUFFICIENT_SLOTS 1)" in view["idle"][0]["sentence"]


def test_slots_held_for_a_job_name_it(site: Site) -> None:
    site.submit(name="low", priority=1, workers=3, grace_seconds=20)
    site.advance(5)
    high = site.submit(name="high", priority=9, workers=4)
    site.tick()
    (part,) = idle(site)["idle"]
    assert (part["reason"], part["slots"], part["for_job"]) == ("RESERVED", 1, high)
    assert f"reserved for job {high} (high, priority 9)" in part["sentence"]


def test_slots_of_nodes_that_take_no_workers_say_why(site: Site) -> None:
    site.client.post("/v1/nodes/a/cordon")
    site.tick()
    (part,) = idle(site)["idle"]
    assert (part["reason"], part["slots"]) == ("NODE_AWAY", 4)
    assert "a (CORDONED)" in part["sentence"]


def test_it_answers_before_the_jobs_are_loaded(site: Site) -> None:
    site.board.clear()
    view = idle(site)
    assert (view["slots_total"], "not loaded yet" in view["summary"]) == (0, True)
