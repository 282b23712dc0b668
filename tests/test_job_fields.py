"""A field of a job, followed through every layer: one that is missing in one of them fails here."""

from dataclasses import fields
from typing import Any

import pytest

from scheduler.daemon.trainingjobs.crd import definition, field_name, request_fields
from scheduler.daemon.trainingjobs.resource import frozen_fields
from scheduler.engine.state.reports import ReportBox
from scheduler.http.schemas.requests import JobRequest, check_request
from scheduler.http.schemas.views import job_detail
from scheduler.model.ids import JobId
from scheduler.model.job import Job, JobSpec
from scheduler.model.job_fields import JOB_FIELDS
from scheduler.model.shape import WorkerShape
from scheduler.store.codec.job_reader import JobReader
from scheduler.store.codec.job_rows import submitted_values
from scheduler.store.codec.json_text import spec_from_text, spec_to_text
from scheduler.store.sql.engine_tables import jobs

#: A value of each field that differs from its default.
VALUES: dict[str, Any] = {
    "command": ["python", "train.py"],
    "name": "name",
    "user": "eve",
    "env": {"A": "1"},
    "workdir": "/work",
    "labels": {"team": "vision"},
    "runtime": "elastic",
    "priority": 7,
    "workers": 4,
    "min_workers": 2,
    "max_workers": 4,
    "slots_per_worker": 2,
    "cpus_per_worker": 1.5,
    "memory_mib_per_worker": 512,
    "node_selector": {"zone": "a"},
    "gpu_type": "H100",
    "time_limit_seconds": 60.0,
    "max_retries": 9,
    "grace_seconds": 5.0,
    "heartbeat_seconds": 20.0,
    "preemptible": "surplus",
    "preferred_workers": 2,
    "expected_seconds": 90.0,
    "speedup": [[1, 1.0], [2, 1.5]],
    "oversell": True,
    "booking": "night",
    "queue": "lab/vision",
    "client_key": "key",
    "pod_template": {"spec": {"hostNetwork": True}},
    "data": {"shards": 3},
    "fixed": {"replicas": 2},
    "export": {"env": {"PATH": "/bin"}},
}
#: What a TrainingJob may change of its job.
CHANGEABLE = {"priority", "min_workers", "max_workers"}


def requested(name: str | None = None) -> JobSpec:
    """A job of which this one field is given."""
    bounds = {} if name == "workers" else {"max_workers": 8}
    given = {} if name is None else {name: VALUES[name]}
    return check_request(JobRequest, {"command": ["true"], **bounds, **given}).spec()


def job_of(spec: JobSpec) -> Job:
    return Job(JobId(1), spec, spec.priority, spec.min_workers, spec.max_workers, submitted_at=1.0, queued_at=1.0)


def differing(one: Any, other: Any) -> set[str]:
    """Fields in which two values of a class differ."""
    return {each.name for each in fields(one) if getattr(one, each.name) != getattr(other, each.name)}


def test_every_field_of_a_request_has_a_meaning_in_the_same_order() -> None:
    assert tuple(JOB_FIELDS) == tuple(JobRequest.model_fields)
    properties = JobRequest.model_json_schema()["properties"]
    assert all(properties[name]["description"] == said.description for name, said in JOB_FIELDS.items())


def test_every_field_of_a_spec_can_be_requested() -> None:
    plain, specs = requested(), [requested(name) for name in VALUES]
    assert set().union(*(differing(spec, plain) for spec in specs)) == {each.name for each in fields(JobSpec)}
    shapes = [differing(spec.shape, plain.shape) for spec in specs]
    assert set().union(*shapes) == {each.name for each in fields(WorkerShape)}


@pytest.mark.parametrize("name", JobRequest.model_fields)
def test_a_field_that_is_given_is_part_of_the_job_and_of_its_view(name: str) -> None:
    spec, plain = requested(name), requested()
    assert differing(spec, plain)
    shown = "max_workers" if name == "workers" else name
    with_it, without = (dict(job_detail(job_of(each), ReportBox(), None)) for each in (spec, plain))
    assert with_it[shown] != without[shown]


@pytest.mark.parametrize("name", JobRequest.model_fields)
def test_a_field_that_is_given_is_stored(name: str) -> None:
    spec = requested(name)
    assert spec_from_text(spec_to_text(spec)) == spec
    row = submitted_values(JobId(1), "", spec, 1.0)
    assert JobReader().job([row[column.name] for column in jobs.columns], ()).spec == spec


@pytest.mark.parametrize(("name", "field"), [*request_fields()])
def test_a_training_job_has_the_field_and_says_which_one_cannot_be_changed(name: str, field: str) -> None:
    schema = definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert schema["properties"][name]["description"] == JOB_FIELDS[field].sentence
    expected = [] if field in CHANGEABLE else [field_name(field)]
    assert frozen_fields(requested(field), job_of(requested())) == expected
