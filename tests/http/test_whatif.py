"""whatif, and the forecast of explain: answered from a copy, and nothing changes."""

import threading
from contextlib import suppress
from typing import Any

from scheduler.http.errors import Refusal
from scheduler.http.runtime.compute_slot import WAITING_MAX
from tests.http.site import Site
from tests.world import START


def ask(site: Site, **fields: Any) -> dict[str, Any]:
    answer = site.client.post("/v1/whatif", json={"command": ["true"], **fields})
    assert answer.status_code == 200, answer.text
    view: dict[str, Any] = answer.json()
    return view


def explained(site: Site, job_id: int) -> dict[str, Any] | None:
    forecast: dict[str, Any] | None = site.client.get(f"/v1/jobs/{job_id}/explain").json()["forecast"]
    return forecast


def test_a_job_that_fits_would_start_at_once(site: Site) -> None:
    view = ask(site, name="new", min_workers=1, max_workers=3, priority=4)
    assert (view["name"], view["priority"], view["wait"], view["reason"]) == ("new", 4, None, None)
    forecast = view["forecast"]
    assert (forecast["certainty"], forecast["start_at"]) == ("CERTAIN", forecast["at"])
    assert (forecast["workers"], forecast["settled_workers"]) == (3, 3)
    assert forecast["placement"] == [["a", 3]]


def shrunk_to_two(low: int) -> dict[str, Any]:
    """What a job of plain commands gives up: no other worker pauses for that."""
    return {"id": low, "name": "low", "workers_before": 4, "workers_after": 2, "lost_slot_seconds": 0.0}


def test_it_names_who_would_lose_workers_and_asks_nobody_to_leave(site: Site) -> None:
    low = site.submit(name="low", min_workers=1, max_workers=4, grace_seconds=12)
    site.advance(10)
    stored, events = site.store.load_world(), site.events()
    site.woken.clear()
    view = ask(site, priority=9, workers=2)
    assert view["reason"] == "WAITING_FOR_VICTIMS"
    assert view["forecast"]["losses"] == [
        {"id": low, "name": "low", "workers_before": 4, "workers_after": 2, "lost_slot_seconds": 0.0}
    ]
    assert view["forecast"]["start_at"] == view["forecast"]["at"] + 12
    assert (site.store.load_world(), site.events()) == (stored, events)
    assert not site.woken.is_set()
    assert site.submit() == low + 1, "no id was used up"


def test_a_wait_says_why_and_what_its_end_rests_on(site: Site) -> None:
    full = site.submit(name="full", workers=4, time_limit_seconds=600, grace_seconds=5)
    site.advance(10)
    view = ask(site)
    assert view["reason"] == "INSUFFICIENT_SLOTS"
    assert "0 of 4 suitable slots" in view["wait"]
    [ending] = view["forecast"]["rests_on"]
    assert (ending["id"], ending["name"], ending["basis"]) == (full, "full", "TIME_LIMIT")
    assert view["forecast"]["certainty"] == "UPPER_BOUND"
    assert view["forecast"]["start_at"] == ending["at"] + 5
    assert START + 600 <= ending["at"] <= START + 610


def test_an_impossible_job_says_so_with_the_numbers(site: Site) -> None:
    view = ask(site, workers=9)
    assert (view["reason"], view["forecast"]["cut_off"]) == ("EXCEEDS_CLUSTER", "IMPOSSIBLE")
    assert "9 workers" in view["wait"]
    assert "4 slots" in view["wait"]
    assert ask(site, gpu_type="H200")["reason"] == "NO_MATCHING_NODE"


def test_a_request_is_checked_as_one_that_is_submitted(site: Site) -> None:
    for fields, field in (({"workers": 0}, "workers"), ({"min_workers": 3, "max_workers": 1}, "min_workers")):
        answer = site.client.post("/v1/whatif", json={"command": ["true"], **fields})
        assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)
    assert site.client.post("/v1/whatif", content=b"{}").status_code == 415


def test_there_is_no_answer_before_the_jobs_are_loaded(site: Site) -> None:
    site.board.clear()
    answer = site.client.post("/v1/whatif", json={"command": ["true"]})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "not loaded yet" in answer.json()["error"]["message"]


def repriced(site: Site, job_id: int, priority: int) -> dict[str, Any]:
    answer = site.client.get(f"/v1/jobs/{job_id}/whatif", params={"priority": priority})
    assert answer.status_code == 200, answer.text
    view: dict[str, Any] = answer.json()
    return view


def test_a_waiting_job_is_told_what_another_priority_would_do_and_keeps_its_own(site: Site) -> None:
    low = site.submit(name="low", priority=3, min_workers=1, max_workers=4, grace_seconds=12)
    site.advance(10)
    waiting = site.submit(workers=2)
    site.advance(10)
    stored, events = site.store.load_world(), site.events()
    site.woken.clear()
    view = repriced(site, waiting, 9)
    assert (view["priority"], view["changed_priority"], view["size"]) == (0, 9, None)
    start = view["start"]
    assert (start["reason"], start["as_it_is"]["start_at"]) == ("WAITING_FOR_VICTIMS", None)
    assert start["changed"]["start_at"] == start["changed"]["at"] + 12
    assert start["changed"]["losses"] == [
        {"id": low, "name": "low", "workers_before": 4, "workers_after": 2, "lost_slot_seconds": 0.0}
    ]
    assert (site.store.load_world(), site.events()) == (stored, events)
    assert not site.woken.is_set()


def test_a_running_job_is_told_what_it_and_others_would_settle_at(site: Site) -> None:
    running = site.submit(name="runs", priority=3, min_workers=1, max_workers=4)
    site.advance(10)
    waiting = site.submit(name="waits", workers=3, priority=2)
    site.advance(10)
    view = repriced(site, running, 1)
    assert view["start"] is None
    assert view["size"] == {
        "workers": 4,
        "as_it_is": 4,
        "changed": 1,
        "others_count": 1,
        "settled": True,
        "others": [{"id": waiting, "name": "waits", "as_it_is": 0, "changed": 3}],
    }


def test_a_job_whose_priority_does_not_count_now_is_refused(site: Site) -> None:
    site.submit(workers=4)
    suspended, ended = site.submit(), site.submit()
    site.client.post(f"/v1/jobs/{suspended}/suspend")
    site.client.post(f"/v1/jobs/{ended}/cancel")
    site.advance(5)
    for job_id, word in ((suspended, "suspended"), (ended, "has already ended")):
        answer = site.client.get(f"/v1/jobs/{job_id}/whatif", params={"priority": 1})
        assert (answer.status_code, word in answer.json()["error"]["message"]) == (409, True)
    assert site.client.get("/v1/jobs/99/whatif?priority=1").status_code == 404
    assert site.client.get(f"/v1/jobs/{suspended}/whatif").status_code == 422


def test_explain_forecasts_the_start_of_a_waiting_job_and_of_no_other(site: Site) -> None:
    running = site.submit(workers=4, name="first", expected_seconds=300)
    site.advance(5)
    waiting = site.submit()
    unseen = explained(site, waiting)
    site.advance(5)
    seen = explained(site, waiting)
    assert explained(site, running) is None
    assert unseen is not None
    assert seen is not None
    assert seen["certainty"] == "ESTIMATE"
    assert abs(seen["start_at"] - unseen["start_at"]) < 1
    assert [ending["id"] for ending in seen["rests_on"]] == [running]


def test_who_says_nothing_of_its_end_is_named(site: Site) -> None:
    running = site.submit(workers=4, name="mute")
    site.advance(5)
    forecast = ask(site)["forecast"]
    assert (forecast["certainty"], forecast["cut_off"]) == ("UNKNOWN", "NOTHING_KNOWN")
    assert (forecast["silent"], forecast["silent_count"]) == ([{"id": running, "name": "mute"}], 1)


def test_when_too_many_ask_the_rest_is_told_to_come_back_and_explain_goes_without(site: Site) -> None:
    site.submit(workers=4)
    waiting = site.submit(workers=4)
    site.advance(1)
    # More than there is room for, since the request below may be there first.
    many = 4 * WAITING_MAX
    taken, done = threading.Barrier(many + 1), threading.Event()

    def occupy(wait_seconds: float) -> None:
        taken.wait()
        while not done.wait(0.01):
            with suppress(Refusal), site.services.compute_slot.turn(wait_seconds):
                done.wait()

    threads = [threading.Thread(target=occupy, args=(30.0,)) for _ in range(many)]
    for thread in threads:
        thread.start()
    taken.wait()
    try:
        answers = iter(lambda: site.client.post("/v1/whatif", json={"command": ["true"]}).status_code, None)
        assert next(status for status in answers if status == 503)
        assert explained(site, waiting) is None
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert ask(site)["forecast"]["certainty"] == "UNKNOWN"
    assert explained(site, waiting) is not None
