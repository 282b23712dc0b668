"""Bookings over HTTP: what is stored, what is refused with one clear line, and what jobs may name."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scheduler.config import PolicySettings, Settings
from scheduler.http.app import create_app
from tests.http.site import Site

WINDOW = {"duration_seconds": 600}


def test_every_field_of_a_booking_comes_back(site: Site) -> None:
    site.node("b", slots=8, gpu_type="H200", labels=(("rack", "1"),))
    site.tick()
    start_at = site.clock.now() + 60
    fields = {
        "name": "night",
        "start_at": start_at,
        "slots": 4,
        "slots_per_worker": 2,
        "cpus_per_worker": 0.0,
        "memory_mib_per_worker": 0,
        "node_selector": {"rack": "1"},
        "gpu_type": "H200",
        "user": "ann",
        "priority_min": 3,
    }
    accepted = site.client.post("/v1/bookings", json={**fields, **WINDOW})
    assert (accepted.status_code, accepted.json()) == (
        202,
        {"name": "night", "start_at": start_at, "end_at": start_at + 600, "slots": 4},
    )
    assert site.woken.is_set()
    asked = site.client.get("/v1/bookings/night").json()
    assert (asked["state"], asked["end_at"], asked["workers"], asked["slots_used"]) == (
        "REQUESTED",
        start_at + 600,
        2,
        0,
    )
    assert {key: asked[key] for key in fields} == fields
    site.tick()
    job = site.submit(user="ann", priority=3, booking="night", gpu_type="H200")
    site.tick()
    [planned] = site.client.get("/v1/bookings").json()["bookings"]
    assert (planned["name"], planned["state"], planned["jobs"]) == ("night", "PLANNED", [job])


def test_nodes_are_booked_whole_and_a_start_is_now_by_default(site: Site) -> None:
    site.node("b", slots=8)
    site.tick()
    booked = site.client.post("/v1/bookings", json={"name": "n", "nodes": 2, **WINDOW}).json()
    assert (booked["slots"], booked["start_at"]) == (8, site.clock.now())
    view = site.client.get("/v1/bookings/n").json()
    assert (view["workers"], view["slots_per_worker"]) == (2, 4)


def test_a_booking_is_cancelled(site: Site) -> None:
    site.client.post("/v1/bookings", json={"name": "n", "slots": 1, **WINDOW})
    site.tick()
    assert site.client.delete("/v1/bookings/n").status_code == 202
    site.tick()
    for method in ("GET", "DELETE"):
        gone = site.client.request(method, "/v1/bookings/n")
        assert (gone.status_code, gone.json()["error"]["message"]) == (404, "booking n not found")
    assert site.client.get("/v1/bookings").json() == {"bookings": []}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "slots"),
        ({"slots": 1, "nodes": 1}, "slots"),
        ({"slots": 3, "slots_per_worker": 2}, "slots"),
        ({"nodes": 1, "slots_per_worker": 2}, "slots_per_worker"),
        ({"nodes": 2}, "nodes"),
        ({"slots": 1, "duration_seconds": 0}, "duration_seconds"),
        ({"slots": 1, "start_at": 5}, "start_at"),
        ({"slots": 1, "start_at": 1e12}, "start_at"),
        ({"slots": 1, "start_at": 1e11, "duration_seconds": 1e-6}, "duration_seconds"),
        ({"slots": 1, "name": "a/b"}, "name"),
    ],
)
def test_what_is_no_booking_names_the_field(still_site: Site, fields: dict[str, Any], field: str) -> None:
    refused = still_site.client.post("/v1/bookings", json={"name": "n", **WINDOW, **fields})
    assert (refused.status_code, refused.json()["error"]["field"]) == (422, field)


def test_what_cannot_be_promised_is_refused_in_one_line(site: Site) -> None:
    large = site.client.post("/v1/bookings", json={"name": "n", "slots": 5, **WINDOW})
    assert (large.status_code, large.json()["error"]["message"]) == (
        409,
        "booking n: it needs 5 slots, and the suitable nodes have 4",
    )
    site.client.post("/v1/bookings", json={"name": "first", "slots": 3, **WINDOW}).raise_for_status()
    second = site.client.post("/v1/bookings", json={"name": "second", "slots": 2, **WINDOW})
    assert second.json()["error"]["message"] == (
        "booking second: it needs 2 slots, and the cluster does not have enough left beside booking first"
    )
    again = site.client.post("/v1/bookings", json={"name": "first", "slots": 1, **WINDOW})
    assert (again.status_code, again.json()["error"]["message"]) == (
        409,
        "booking first already exists: use another name, or cancel it first",
    )


def test_a_job_names_a_booking_that_is_for_it(site: Site) -> None:
    limits = {"user": "ann", "priority_min": 3}
    site.client.post("/v1/bookings", json={"name": "n", "slots": 2, **limits, **WINDOW}).raise_for_status()
    job = {"command": ["true"], "user": "ann", "priority": 3, "booking": "n"}
    for change, rule in (
        ({"booking": "m"}, "booking m not found: it has ended, or was never created"),
        ({"user": "bob"}, "booking n is reserved for user ann"),
        ({"priority": 2}, "booking n requires a priority of at least 3"),
        ({"workers": 3}, "the job needs 3 slots, but booking n has 2"),
    ):
        refused = site.client.post("/v1/jobs", json={**job, **change})
        assert (refused.status_code, refused.json()["error"]["message"]) == (422, f"booking: {rule}")
        batch = site.client.post("/v1/jobs/batch", json={"jobs": [job, {**job, **change}]})
        assert batch.json()["error"]["field"] == "jobs.1.booking"
    assert site.client.get(f"/v1/jobs/{site.submit(**job)}").json()["booking"] == "n"


def test_policies_that_know_no_bookings_take_none(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path, policy=PolicySettings(name="fifo"))
    site = Site(tmp_path)
    site.services = replace(site.services, settings=settings)
    site.app = create_app(site.services)
    with site.served():
        refused = site.client.post("/v1/bookings", json={"name": "n", "slots": 1, **WINDOW})
        assert (refused.status_code, refused.json()["error"]["message"]) == (
            409,
            "policy fifo does not support bookings: set policy.name to elastic",
        )
    site.close()
