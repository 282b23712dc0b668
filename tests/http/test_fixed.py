"""Fixed groups over HTTP: what is stored, what is refused by the name of the field, and what is shown."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scheduler.config import PolicySettings
from scheduler.http.app import create_app
from scheduler.model.fixed import FixedGroup
from scheduler.model.shape import WorkerShape
from tests.http.site import Site


def refused(site: Site, **fields: Any) -> dict[str, Any]:
    answer = site.client.post("/v1/jobs", json={"command": ["true"], **fields})
    assert answer.status_code == 422, answer.text
    error: dict[str, Any] = answer.json()["error"]
    return error


def explain(site: Site, job_id: int) -> str:
    return str(site.client.get(f"/v1/jobs/{job_id}/explain").json()["summary"])


def test_every_field_of_a_fixed_group_reaches_the_job(site: Site) -> None:
    group = {
        "replicas": 2,
        "command": "exec serve",
        "env": {"PORTS": "1"},
        "slots_per_worker": 1,
        "cpus_per_worker": 1.5,
        "memory_mib_per_worker": 64,
        "node_selector": {"zone": "a"},
        "gpu_type": "L4",
        "pod_template": {"spec": {"hostNetwork": True}},
    }
    job = site.store.get_job(site.submit(fixed=group))
    assert job is not None
    shape = WorkerShape(1, 1.5, 64, (("zone", "a"),), "L4")
    template = '{"spec":{"hostNetwork":true}}'
    expected = FixedGroup(2, ("/bin/sh", "-c", "exec serve"), (("PORTS", "1"),), shape, template)
    assert job.spec.fixed == expected
    plain = site.store.get_job(site.submit(command=["train"], fixed={"replicas": 1}))
    assert plain is not None
    assert plain.spec.fixed == FixedGroup(1, ("train",))


def test_the_driver_of_a_horovod_job_is_its_fixed_group(site: Site) -> None:
    fields = {"node_selector": {"zone": "a"}, "pod_template": {"spec": {"hostNetwork": True}}}
    job = site.store.get_job(site.submit(runtime="horovod", command=["python", "train.py"], **fields))
    assert job is not None
    shape = WorkerShape(0, node_selector=(("zone", "a"),))
    assert job.spec.fixed == FixedGroup(1, ("python", "train.py"), (), shape, '{"spec":{"hostNetwork":true}}')


@pytest.mark.parametrize(
    ("fields", "field", "rule"),
    [
        ({"fixed": {}}, "fixed.replicas", "required"),
        ({"fixed": {"replicas": 0}}, "fixed.replicas", "must be at least 1"),
        ({"fixed": {"replicas": 257}}, "fixed.replicas", "must be at most 256"),
        ({"fixed": {"replicas": 1, "command": []}}, "fixed.command", "must not be empty"),
        ({"fixed": {"replicas": 1, "slots": 1}}, "fixed.slots", "unknown field"),
        ({"fixed": {"replicas": 1, "pod_template": {"kind": 1}}}, "fixed.pod_template.kind", "metadata and spec"),
        ({"fixed": {"replicas": 1}, "oversell": True}, "oversell", "cannot be combined with fixed"),
        ({"runtime": "horovod", "fixed": {"replicas": 1}}, "fixed", "whose driver is the fixed group"),
        ({"runtime": "horovod", "oversell": True}, "oversell", "cannot be combined with runtime horovod"),
        ({"runtime": "horovod", "booking": "b"}, "booking", "cannot be combined with runtime horovod"),
        ({"fixed": {"replicas": 1}, "booking": "b"}, "booking", "cannot be combined with fixed"),
    ],
)
def test_what_breaks_a_rule_is_named(site: Site, fields: dict[str, Any], field: str, rule: str) -> None:
    error = refused(site, **fields)
    assert error["field"] == field
    assert rule in error["message"]
    assert "\n" not in error["message"]


def test_a_policy_that_knows_no_fixed_groups_takes_no_such_job(tmp_path: Path) -> None:
    site = Site(tmp_path)
    settings = site.settings.model_copy(update={"policy": PolicySettings(name="easy")})
    site.app = create_app(replace(site.services, settings=settings))
    with site.served():
        error = refused(site, fixed={"replicas": 1})
        assert (error["field"], "policy elastic does" in error["message"]) == ("fixed", True)
        batch = {"jobs": [{"command": ["true"]}, {"command": ["x"], "runtime": "horovod"}]}
        error = site.client.post("/v1/jobs/batch", json=batch).json()["error"]
        assert error["field"] == "jobs.1.runtime"
        assert "the current policy easy does not support runtime horovod: policy elastic does" in error["message"]
        recurring = {"cron": "0 3 * * *", "job": {"command": ["true"], "fixed": {"replicas": 1}}}
        answer = site.client.post("/v1/recurring", json=recurring)
        assert (answer.status_code, answer.json()["error"]["field"]) == (422, "job.fixed")
        assert site.client.get("/v1/recurring").json()["recurring"] == []
        batch = {"jobs": [{"command": ["true"]}, {"command": ["true"], "fixed": {"replicas": 1}}]}
        assert site.client.post("/v1/jobs/batch", json=batch).json()["error"]["field"] == "jobs.1.fixed"
    site.close()


def test_a_running_job_shows_its_fixed_group_apart_and_discovery_only_the_others(site: Site) -> None:
    job_id = site.submit(min_workers=1, max_workers=3, fixed={"replicas": 1, "slots_per_worker": 1})
    site.advance(10)
    view = site.client.get(f"/v1/jobs/{job_id}").json()
    assert (view["state"], view["workers"], view["members"]) == ("RUNNING", 3, 3)
    assert (view["fixed"]["workers"], len(view["fixed"]["hosts"])) == (1, 1)
    assert [worker["fixed_index"] for worker in view["live_workers"]] == [0, None, None, None]
    assert site.client.get(f"/v1/jobs/{job_id}/discover_hosts").text == "host-a:3\n"
    [node] = site.client.get("/v1/nodes").json()["nodes"]
    assert (node["slots_used"], len(node["workers"])) == (4, 4)
    header, master = site.worker_header(job_id), view["live_workers"][0]["id"]
    answer = site.client.post(f"/v1/jobs/{job_id}/workers/{master}", json={"ready": True}, headers=header)
    assert (answer.status_code, answer.json()["leave"]) == (200, False)


def test_why_it_waits_names_both_groups(site: Site) -> None:
    site.submit(priority=5, workers=2)
    site.advance(1)
    waiting = site.submit(workers=2, fixed={"replicas": 1, "slots_per_worker": 1, "cpus_per_worker": 0})
    site.advance(1)
    assert "2 workers of 1 slot each and, at the same time, 1 fixed worker of 1 slot each" in explain(site, waiting)
    body = {"command": ["true"], "workers": 4, "fixed": {"replicas": 1, "slots_per_worker": 1}}
    [warning] = site.client.post("/v1/jobs", json=body).json()["warnings"]
    assert "cannot hold both" in warning
    body = {"command": ["true"], "fixed": {"replicas": 1, "node_selector": {"zone": "x"}}}
    answer = site.client.post("/v1/jobs", json=body).json()
    assert answer["warnings"] == ["no node has label zone=x: the job waits until such a node is added"]
    site.advance(1)
    assert explain(site, answer["id"]).startswith("No node has label zone=x")


def test_a_forecast_counts_the_grace_of_both_groups(site: Site) -> None:
    low = site.submit(
        name="low", min_workers=1, max_workers=3, grace_seconds=12, fixed={"replicas": 1, "slots_per_worker": 1}
    )
    site.advance(10)
    body = {"command": ["true"], "priority": 9, "workers": 4}
    forecast = site.client.post("/v1/whatif", json=body).json()["forecast"]
    (loss,) = forecast["losses"]
    assert loss.pop("lost_slot_seconds") == pytest.approx(3 * 10.0, abs=1.0)
    assert loss == {"id": low, "name": "low", "workers_before": 3, "workers_after": 0}
    assert forecast["start_at"] == forecast["at"] + 24
    body = {"command": ["true"], "priority": 9, "workers": 2, "fixed": {"replicas": 2, "slots_per_worker": 1}}
    forecast = site.client.post("/v1/whatif", json=body).json()["forecast"]
    assert (forecast["workers"], forecast["start_at"]) == (2, forecast["at"] + 24)
