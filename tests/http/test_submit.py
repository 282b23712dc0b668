"""Submitting: what is stored, and what is refused with a line that names field and rule."""

import json
from typing import Any

import pytest

from scheduler.model.client_key import run_key, training_job_key
from scheduler.model.ids import JobId
from scheduler.model.job import Runtime
from tests.http.site import Site, raw_exchange
from tests.world import START


def test_every_field_of_a_request_reaches_the_job(site: Site) -> None:
    job_id = site.submit(
        name="train",
        command=["python", "train.py"],
        user="ann",
        env={"LR": "0.1"},
        workdir="/data",
        labels={"team": "vision"},
        runtime="elastic",
        priority=7,
        min_workers=1,
        max_workers=3,
        slots_per_worker=2,
        cpus_per_worker=1.5,
        memory_mib_per_worker=512,
        node_selector={"zone": "a"},
        gpu_type="H200",
        time_limit_seconds=60,
        max_retries=5,
        grace_seconds=2,
        heartbeat_seconds=9,
        preemptible=False,
        client_key="k",
    )
    job = site.store.get_job(job_id)
    assert job is not None
    spec = job.spec
    assert (spec.name, spec.command, spec.user, spec.workdir) == ("train", ("python", "train.py"), "ann", "/data")
    assert (spec.env, spec.labels, spec.runtime) == ((("LR", "0.1"),), (("team", "vision"),), Runtime.ELASTIC)
    assert (spec.priority, spec.min_workers, spec.max_workers, spec.preemptible) == (7, 1, 3, False)
    assert (spec.shape.slots, spec.shape.cpus, spec.shape.memory_mib) == (2, 1.5, 512)
    assert (spec.shape.node_selector, spec.shape.gpu_type) == ((("zone", "a"),), "H200")
    assert (spec.time_limit_seconds, spec.max_retries, spec.grace_seconds, spec.heartbeat_seconds) == (60, 5, 2, 9)
    assert site.woken.is_set()


def test_what_a_job_says_of_being_preemptible_is_told_as_it_was_given(site: Site) -> None:
    for given in (True, False, "surplus"):
        job_id = site.submit(preemptible=given)
        assert site.client.get(f"/v1/jobs/{job_id}").json()["preemptible"] == given
    answer = site.client.post("/v1/jobs", json={"command": ["true"], "preemptible": "all"})
    assert answer.json()["error"]["message"] == "preemptible: must be true, false or surplus, not 'all'"


def test_a_string_is_run_by_the_shell_and_workers_sets_both_bounds(site: Site) -> None:
    job = site.store.get_job(site.submit(command="/usr/bin/echo hi && true", workers=3))
    assert job is not None
    assert job.spec.command == ("/bin/sh", "-c", "/usr/bin/echo hi && true")
    assert (job.min_workers, job.max_workers, job.spec.name) == (3, 3, "echo")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"command": []}, "command"),
        ({"command": [""]}, "command"),
        ({"command": "  "}, "command"),
        ({"command": ["a\0b"]}, "command.0"),
        ({"command": 5}, "command"),
        ({"colour": "red"}, "colour"),
        ({"name": ""}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": "x" * 129}, "name"),
        ({"priority": True}, "priority"),
        ({"priority": "3"}, "priority"),
        ({"priority": 2**70}, "priority"),
        ({"priority": 1.5}, "priority"),
        ({"min_workers": 3, "max_workers": 2}, "min_workers"),
        ({"workers": 2, "min_workers": 1}, "workers"),
        ({"workers": 0}, "workers"),
        ({"slots_per_worker": 0}, "slots_per_worker"),
        ({"cpus_per_worker": -1}, "cpus_per_worker"),
        ({"time_limit_seconds": 0}, "time_limit_seconds"),
        ({"workdir": "relative"}, "workdir"),
        ({"env": {"A=B": "c"}}, "env.A=B"),
        ({"labels": {"a b": "c"}}, "labels.a b"),
        ({"runtime": "magic"}, "runtime"),
        ({"runtime": "torchrun"}, "command"),
        ({"runtime": "horovod", "command": ["horovodrun", "-np", "2", "train.py"]}, "command"),
        ({"preemptible": 1}, "preemptible"),
        ({"preemptible": "no"}, "preemptible"),
        ({"client_key": ""}, "client_key"),
        ({"data": {"shards": 10**9, "epochs": 10**6}}, "data.shards"),
        ({"data": {"shards": 10**9 + 1}}, "data.shards"),
    ],
)
def test_a_broken_rule_names_its_field_in_one_line(still_site: Site, fields: dict[str, Any], field: str) -> None:
    answer = still_site.client.post("/v1/jobs", json={"command": ["true"], **fields})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["field"]) == (422, "invalid", field)
    assert error["message"].startswith(f"{field}: ")
    assert "\n" not in error["message"]


def test_as_many_shards_as_may_be_are_accepted(site: Site) -> None:
    for data in ({"shards": 10**9}, {"shards": 1000, "epochs": 10**6}):
        job_id = site.submit(data=data)
        assert site.client.get(f"/v1/jobs/{job_id}").json()["data_progress"]["total"] == 10**9


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[" * 100_000,
        b'{"command": ' * 50_000,
        b'{"command": ["true"], "cpus_per_worker": NaN}',
        b'{"command": ["true"], "cpus_per_worker": 1e999}',
        b'{"command": ["\\ud800"]}',
        b'{"command": ["\xff"]}',
        b'"text"',
        b"null",
    ],
)
def test_what_is_no_request_is_refused_as_such(still_site: Site, body: bytes) -> None:
    answer = still_site.client.post("/v1/jobs", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "invalid"


def test_only_json_is_taken_so_that_no_page_can_submit_a_form(site: Site) -> None:
    for content_type in ("text/plain", "application/x-www-form-urlencoded", ""):
        headers = {"content-type": content_type} if content_type else {}
        assert site.client.post("/v1/jobs", content=b'{"command": ["true"]}', headers=headers).status_code == 415


def test_a_repeated_client_key_gives_the_first_job(site: Site) -> None:
    first = site.client.post("/v1/jobs", json={"command": ["true"], "client_key": "k"})
    again = site.client.post("/v1/jobs", json={"command": ["true"]}, headers={"idempotency-key": "k"})
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    both = site.client.post("/v1/jobs", json={"command": ["true"], "client_key": "j"}, headers={"idempotency-key": "k"})
    assert (both.status_code, both.json()["error"]["field"]) == (422, "client_key")


@pytest.mark.parametrize(
    ("prefix", "key"),
    [
        ("recurring:", run_key(1, START + 60)),
        ("recurring:", "recurring:"),
        ("trainingjob/", training_job_key("u-1")),
    ],
)
@pytest.mark.parametrize("way", ["field", "header", "batch"])
def test_no_user_takes_a_client_key_of_the_scheduler(site: Site, way: str, prefix: str, key: str) -> None:
    job = {"command": ["true"], **({} if way == "header" else {"client_key": key})}
    if way == "batch":
        answer = site.client.post("/v1/jobs/batch", json={"jobs": [{"command": ["true"], "client_key": "k"}, job]})
    else:
        headers = {"idempotency-key": key} if way == "header" else {}
        answer = site.client.post("/v1/jobs", json=job, headers=headers)
    field = "jobs.1.client_key" if way == "batch" else "client_key"
    error = answer.json()["error"]
    assert (answer.status_code, error["field"]) == (422, field)
    assert error["message"].startswith(f"{field}: must not begin with {prefix}")
    assert site.client.get("/v1/jobs").json()["jobs"] == []


def test_a_batch_is_stored_whole_or_not_at_all(site: Site) -> None:
    good: list[dict[str, Any]] = [{"command": ["true"], "name": f"n{i}"} for i in range(20)]
    answer = site.client.post("/v1/jobs/batch", json={"jobs": good})
    assert (answer.status_code, answer.json()) == (201, {"ids": list(range(1, 21))})
    bad = site.client.post("/v1/jobs/batch", json={"jobs": [*good, {"command": ["true"], "workers": 0}]})
    assert (bad.status_code, bad.json()["error"]["field"]) == (422, "jobs.20.workers")
    assert len(site.client.get("/v1/jobs").json()["jobs"]) == 20


@pytest.mark.parametrize("body", [{"jobs": []}, {"jobs": 3}, {}, {"jobs": [{"command": "x"}], "more": 1}, []])
def test_a_batch_without_jobs_is_refused(still_site: Site, body: Any) -> None:
    assert still_site.client.post("/v1/jobs/batch", json=body).json()["error"]["field"] == "jobs"


def test_an_impossible_job_is_told_so_at_once(site: Site) -> None:
    def warnings(**fields: Any) -> list[str]:
        answer = site.client.post("/v1/jobs", json={"command": ["true"], **fields}).json()
        site.submitted.append(JobId(answer["id"]))
        return list(answer["warnings"])

    assert warnings(workers=4) == []
    [large] = warnings(workers=5)
    assert "5 workers of 1 slot each" in large
    assert "4 slots" in large
    assert "a worker needs 8 slots (no node has more than 4)" in warnings(slots_per_worker=8)[0]
    assert warnings(node_selector={"zone": "b"}) == [
        "no node has label zone=b: the job waits until such a node is added"
    ]
    assert "GPU type H200" in warnings(gpu_type="H200")[0]
    site.client.post("/v1/nodes/a/cordon")
    site.tick()
    assert warnings() == ["the job waits while these nodes are closed to new workers: a"]


def test_a_body_beyond_the_limit_is_not_read_with_or_without_a_length(site: Site) -> None:
    large = site.settings.http.request_bytes_max + 1
    told = raw_exchange(
        site.url,
        b"POST /v1/jobs HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n" % large,
    )
    assert told.startswith(b"HTTP/1.1 413 ")
    assert json.loads(told.partition(b"\r\n\r\n")[2])["error"]["code"] == "too_large"

    def endless() -> Any:
        for _ in range(large // 65536 + 1):
            yield b" " * 65536

    chunked = site.client.post("/v1/jobs", content=endless(), headers={"content-type": "application/json"})
    assert chunked.status_code == 413
