"""Recurring jobs are submitted with the rights that their users have at that time."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler.daemon.recurring import RecurringJobs, new_timers
from scheduler.model.event import EventKind
from scheduler.model.identity import Role
from tests.http.site import Site
from tests.http.test_queues import create


def test_a_recurring_job_keeps_the_queue_of_its_user(known: Site) -> None:
    create(known, "lab", members=["ann"])
    job = {"cron": "0 3 * * *", "job": {"command": "true"}}
    answer = known.client.post("/v1/recurring", json=job, headers=known.user_header("ann"))
    assert known.client.get(f"/v1/recurring/{answer.json()['id']}").json()["queue"] == "lab"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"members": ["bob"]}, "queue: ann is not a member of lab: its members are bob"),
        ({"priority_max": 3}, "priority: must be at most 3, as queue lab says, not 5"),
    ],
)
def test_a_recurring_job_is_submitted_as_its_user_could_submit_it_then(
    known: Site, change: dict[str, Any], said: str
) -> None:
    create(known, "lab", members=["ann"])
    job = {"cron": "* * * * *", "job": {"command": "true", "queue": "lab", "priority": 5}}
    created = known.client.post("/v1/recurring", json=job, headers=known.user_header("ann"))
    assert created.status_code == 201
    known.client.patch("/v1/queues/lab", json=change).raise_for_status()
    assert (runs(known, minutes=3), refusals(known)) == (0, [said])
    assert refusal_events(known) == [f"r1: {said}"]
    known.client.patch("/v1/queues/lab", json={"members": ["ann"], "priority_max": None}).raise_for_status()
    assert (runs(known, minutes=1), refusals(known)) == (1, [None])
    assert refusal_events(known) == [f"r1: {said}"]


def test_a_recurring_job_is_submitted_while_its_user_has_a_token_that_may_submit(known: Site) -> None:
    header = known.user_header("ann")
    job = {"cron": "* * * * *", "job": {"command": "true"}}
    assert known.client.post("/v1/recurring", json=job, headers=header).status_code == 201
    assert runs(known, minutes=1) == 1
    [token] = known.client.get("/v1/tokens").json()["tokens"]
    known.client.delete(f"/v1/tokens/{token['id']}").raise_for_status()
    none = "ann has no valid token any more: create one, or cancel the recurring job"
    assert (runs(known, minutes=1), refusals(known)) == (1, [none])
    known.user_header("ann", Role.VIEWER)
    assert (runs(known, minutes=1), refusals(known)) == (
        1,
        ["submitting needs the role user, and you are ann (viewer)"],
    )
    known.user_header("ann")
    assert (runs(known, minutes=1), refusals(known)) == (2, [None])


def test_what_an_operator_submits_again_and_again_for_others_needs_an_operator(known: Site) -> None:
    job = {"cron": "* * * * *", "job": {"command": "true", "user": "ann"}}
    assert known.client.post("/v1/recurring", json=job, headers=known.user_header("op", Role.OPERATOR)).is_success
    [token] = known.client.get("/v1/tokens").json()["tokens"]
    known.client.delete(f"/v1/tokens/{token['id']}").raise_for_status()
    known.user_header("op")
    said = "user: only an operator submits for ann, and you are op (user): leave it out"
    assert (runs(known, minutes=1), refusals(known)) == (0, [said])


def test_why_a_recurring_job_is_refused_is_said_once_by_all_daemons_and_again_when_it_changes(known: Site) -> None:
    create(known, "lab", members=["ann"])
    job = {"cron": "* * * * *", "job": {"command": "true", "queue": "lab", "priority": 5}}
    known.client.post("/v1/recurring", json=job, headers=known.user_header("ann")).raise_for_status()
    replica = RecurringJobs(known.store, known.clock, new_timers())

    def said(**change: Any) -> list[str]:
        known.client.patch("/v1/queues/lab", json=change).raise_for_status()
        with capture_logs() as logged:
            for _ in range(3):
                runs(known, minutes=1)
                replica.sweep()
        return [each["error"] for each in logged if each["log_level"] == "warning"]

    too_high = "priority: must be at most 3, as queue lab says, not 5"
    assert said(priority_max=3) == [too_high]
    assert said(members=["bob"], priority_max=None) == ["queue: ann is not a member of lab: its members are bob"]
    assert said(members=["ann"]) == []
    assert said(priority_max=3) == [too_high]


def runs(site: Site, *, minutes: int) -> int:
    """How many jobs there are after these minutes."""
    for _ in range(minutes):
        site.clock.advance(60)
        site.recurring.sweep()
    return len(site.store.list_jobs())


def refusals(site: Site) -> list[str | None]:
    return [view["refusal"] for view in site.client.get("/v1/recurring").json()["recurring"]]


def refusal_events(site: Site) -> list[str]:
    return [event.detail for _, event in site.store.list_events() if event.kind is EventKind.RECURRING_REFUSED]


def test_a_recurring_job_waits_for_room_in_its_queue_and_keeps_no_other_from_being_submitted(site: Site) -> None:
    create(site, "lab", max_jobs=0)
    for fields in ({"queue": "lab"}, {}):
        job = {"cron": "* * * * *", "job": {"command": "true", **fields}}
        assert site.client.post("/v1/recurring", json=job).status_code == 201
    site.clock.advance(60)
    site.recurring.sweep()
    assert [job.spec.queue for job in site.store.list_jobs()] == [""]
    full = "queue: lab contains 0 jobs that have not ended, of at most 0: wait until some have ended"
    assert refusals(site) == [full, None]
    site.client.patch("/v1/queues/lab", json={"max_jobs": 1})
    site.recurring.sweep()
    assert [job.spec.queue for job in site.store.list_jobs()] == ["", "lab"]
