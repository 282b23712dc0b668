"""What an object asks for, and the status that it is given."""

from dataclasses import replace
from typing import Any

import pytest

from scheduler.config import KubernetesSettings
from scheduler.daemon.trainingjobs.crd import FINALIZER
from scheduler.daemon.trainingjobs.resource import (
    INVALID,
    Change,
    Refusal,
    TrainingJob,
    changes,
    differs,
    frozen_fields,
    job_spec,
    refusal,
    status_of,
    training_job,
)
from scheduler.errors import InvalidInput
from scheduler.model.data import DataSet
from scheduler.model.ids import JobId
from scheduler.model.intent import IntentKind
from scheduler.model.job import Job, Runtime
from scheduler.model.job_state import JobState, StopReason, WaitReason
from scheduler.model.pod_template import canonical_template, template_namespace
from scheduler.model.shape import WorkerShape

NOW = 1_000_000.0
LAB = KubernetesSettings(namespace="lab")
SPEC = {"command": ["python", "train.py"], "runtime": "elastic", "priority": 5, "minWorkers": 2, "maxWorkers": 4}


def item(status: dict[str, Any] | None = None, generation: int = 1, **spec: Any) -> TrainingJob:
    metadata = {"name": "mnist", "namespace": "lab", "uid": "u-1", "generation": generation}
    return training_job({"metadata": metadata, "spec": {**SPEC, **spec}, **({"status": status} if status else {})})


def job(wanted: TrainingJob, **fields: Any) -> Job:
    spec = job_spec(wanted, LAB)
    given = {
        "priority": spec.priority,
        "min_workers": spec.min_workers,
        "max_workers": spec.max_workers,
        "submitted_at": NOW,
        "queued_at": NOW,
    }
    return Job(JobId(7), spec, **{**given, **fields})


def test_a_spec_is_a_job_request_in_other_letters() -> None:
    wanted = item(
        slotsPerWorker=2,
        memoryMibPerWorker=1024,
        nodeSelector={"zone": "a"},
        graceSeconds=5,
        env={"A": "1"},
        data={"shards": 50, "maxAttempts": 9},
    )
    spec = job_spec(wanted, LAB)
    assert (spec.name, spec.client_key) == ("mnist", "trainingjob/u-1")
    assert (spec.runtime, spec.priority, spec.min_workers, spec.max_workers) == (Runtime.ELASTIC, 5, 2, 4)
    assert (spec.shape.slots, spec.shape.memory_mib, spec.shape.node_selector) == (2, 1024, (("zone", "a"),))
    assert (spec.grace_seconds, spec.env) == (5.0, (("A", "1"),))
    assert spec.data == DataSet(shards=50, max_attempts=9)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"minWorkers": 9}, "spec.minWorkers: 9 exceeds max_workers 4"),
        ({"command": []}, "spec.command"),
        ({"graceSeconds": -1}, "spec.graceSeconds"),
        ({"speedup": [[1, 1], [1, 2]]}, "spec.speedup"),
        ({"data": {"shards": 5, "leaseSeconds": 0}}, "spec.data.leaseSeconds"),
        ({"data": {"shards": 10**9, "epochs": 2}}, "spec.data.shards: 1,000,000,000 in 2 epochs are 2,000,000,000"),
        ({"fixedReplicas": {"replicas": 0}}, "spec.fixedReplicas.replicas: "),
        ({"fixedReplicas": {"replicas": 1, "slotsPerWorker": -1}}, "spec.fixedReplicas.slotsPerWorker: "),
        (
            {"fixedReplicas": {"replicas": 1, "template": {"spec": {"nodeName": "a"}}}},
            "spec.fixedReplicas.template.spec.nodeName: ",
        ),
        ({"fixedReplicas": {"replicas": 1}, "oversell": True}, "spec.oversell: cannot be combined with fixed"),
        ({"fixedReplicas": 1}, "spec.fixedReplicas: "),
    ],
)
def test_what_is_no_job_is_refused_by_the_name_of_the_field(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        job_spec(item(**fields), LAB)
    assert str(caught.value).startswith(message)


def test_fixed_replicas_are_the_fixed_group_of_the_job_with_a_template_of_their_own() -> None:
    server = {"containers": [{"name": "worker", "image": "server"}]}
    spec = job_spec(
        item(
            template={"spec": {"containers": [{"image": "torch"}]}},
            fixedReplicas={"replicas": 2, "command": ["serve"], "cpusPerWorker": 2, "template": {"spec": server}},
        ),
        LAB,
    )
    assert spec.fixed is not None
    assert (spec.fixed.replicas, spec.fixed.command, spec.fixed.shape) == (2, ("serve",), WorkerShape(0, 2.0))
    assert spec.fixed.pod_template == canonical_template({"spec": server})
    plain = job_spec(item(template={"spec": server}, fixedReplicas={"replicas": 1}), LAB).fixed
    assert plain is not None
    assert (plain.command, plain.pod_template) == (("python", "train.py"), canonical_template({"spec": server}))


def test_a_job_runs_in_the_namespace_of_its_object() -> None:
    settings = KubernetesSettings(namespace="jobs", namespaces=("lab",))
    template = {"metadata": {"labels": {"team": "a"}}, "spec": {"hostUsers": False}}
    spec = job_spec(item(template=template, fixedReplicas={"replicas": 1, "template": template}), settings)
    assert spec.fixed is not None
    there = canonical_template({**template, "metadata": {"labels": {"team": "a"}, "namespace": "lab"}})
    assert (spec.pod_template, spec.fixed.pod_template) == (there, there)
    bare = job_spec(item(fixedReplicas={"replicas": 1}), settings).fixed
    assert bare is not None
    assert template_namespace(bare.pod_template) == "lab"
    assert template_namespace(job_spec(item(), settings).pod_template) == "lab"
    assert job_spec(item(), LAB).pod_template is None
    with pytest.raises(InvalidInput, match=r"spec\.template\.metadata\.namespace: must be lab"):
        job_spec(item(template={"metadata": {"namespace": "jobs"}}), settings)
    with pytest.raises(InvalidInput, match=r"spec\.fixedReplicas\.template\.metadata\.namespace: must be lab"):
        job_spec(item(fixedReplicas={"replicas": 1, "template": {"metadata": {"namespace": "jobs"}}}), settings)


def test_a_name_that_is_too_long_for_a_job_is_refused_by_the_name_of_its_field() -> None:
    with pytest.raises(InvalidInput, match=r"^metadata\.name: must have at most 128 characters$"):
        job_spec(replace(item(), name="x" * 129), LAB)


def test_the_fixed_group_of_a_job_cannot_change() -> None:
    asked = item(fixedReplicas={"replicas": 2})
    assert frozen_fields(job_spec(asked, LAB), job(item())) == ["fixedReplicas"]


def test_a_change_of_priority_bounds_or_suspension_becomes_requests() -> None:
    running = job(item(), state=JobState.RUNNING)
    asked = item({"observedGeneration": 1, "jobId": 7}, generation=2, priority=9, maxWorkers=8, suspend=True)
    assert changes(asked, job_spec(asked, LAB), running) == [
        Change(IntentKind.PRIORITY, priority=9),
        Change(IntentKind.SCALE, min_workers=2, max_workers=8),
        Change(IntentKind.SUSPEND),
    ]
    back = item({"observedGeneration": 1, "jobId": 7}, generation=2)
    for state in (JobState.SUSPENDED, JobState.STOPPING):
        suspended = replace(running, state=state, stop_reason=StopReason.SUSPENDED)
        assert changes(back, job_spec(back, LAB), suspended) == [Change(IntentKind.RESUME)]
    again = item({"observedGeneration": 1, "jobId": 7}, generation=2, suspend=True)
    assert changes(again, job_spec(again, LAB), replace(running, state=JobState.STOPPING)) == [
        Change(IntentKind.SUSPEND)
    ]
    assert changes(again, job_spec(again, LAB), suspended) == []


def test_a_change_that_is_no_job_is_told_in_the_status_and_the_job_goes_on() -> None:
    running = job(item(), state=JobState.RUNNING)
    edited = item({"observedGeneration": 1, "jobId": 7, "phase": "Running"}, generation=2, minWorkers=9)
    refused = Refusal(INVALID, InvalidInput("spec.minWorkers", "9 exceeds max_workers 4"))
    status = status_of(edited, running, "Runs.", 0.0, [], refused)
    assert (status["phase"], status["observedGeneration"]) == ("Running", 2)
    accepted = status["conditions"][0]
    assert (accepted["status"], accepted["reason"]) == ("False", "InvalidSpec")
    assert accepted["message"] == "spec.minWorkers: 9 exceeds max_workers 4; the job goes on as it was"


def test_what_a_user_of_the_scheduler_changed_stays_until_the_object_is_edited() -> None:
    wanted = item({"observedGeneration": 1, "jobId": 7})
    assert changes(wanted, job_spec(wanted, LAB), job(wanted, priority=50)) == []


def test_nothing_is_asked_of_a_job_that_has_ended() -> None:
    wanted = item({"observedGeneration": 1, "jobId": 7}, generation=2, priority=9)
    assert changes(wanted, job_spec(wanted, LAB), job(item(), state=JobState.SUCCEEDED)) == []


def test_fields_that_a_job_cannot_change_are_named() -> None:
    started = job(item())
    asked = item(command=["other"], slotsPerWorker=2, maxRetries=1, priority=1, minWorkers=1)
    assert sorted(frozen_fields(job_spec(asked, LAB), started)) == ["command", "maxRetries", "slotsPerWorker"]
    assert frozen_fields(job_spec(item(priority=1), LAB), started) == []


def test_a_status_tells_what_has_become_of_the_job() -> None:
    wanted = item()
    waiting = job(wanted, wait_reason=WaitReason.INSUFFICIENT_SLOTS)
    status = status_of(wanted, waiting, "Waits for free slots", NOW, [])
    assert (status["phase"], status["jobId"], status["reason"]) == ("Queued", 7, "INSUFFICIENT_SLOTS")
    assert (status["workers"], status["observedGeneration"], status["startTime"]) == (0, 1, None)
    assert status["queue"] is None, "no queue"
    queued = replace(waiting, spec=replace(waiting.spec, queue="lab/vision"))
    assert status_of(wanted, queued, "Waits for free slots", NOW, [])["queue"] == "lab/vision"
    assert {each["type"]: each["status"] for each in status["conditions"]} == {
        "Accepted": "True",
        "Running": "False",
        "Complete": "False",
        "Failed": "False",
    }
    done = status_of(wanted, job(wanted, state=JobState.SUCCEEDED, finished_at=NOW), "Has succeeded.", NOW, [])
    assert done["completionTime"] == "1970-01-12T13:46:40Z"
    assert [each["type"] for each in done["conditions"] if each["status"] == "True"] == ["Accepted", "Complete"]


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    first = status_of(item(), job(item()), "m", NOW, [])
    later = status_of(item(first), job(item(), state=JobState.RUNNING), "m", NOW + 60, [])
    since = {each["type"]: each["lastTransitionTime"] for each in later["conditions"]}
    assert since["Accepted"] == "1970-01-12T13:46:40Z"
    assert since["Running"] == "1970-01-12T13:47:40Z"


def test_a_status_is_written_only_where_it_says_something_else() -> None:
    first = status_of(item(), job(item()), "3 slots are free", NOW, [])
    assert not differs(first, status_of(item(first), job(item()), "2 slots are free", NOW + 60, []))
    assert differs(first, status_of(item(first), job(item(), generation=2), "3 slots are free", NOW, []))
    assert differs({}, first)


def test_fields_that_are_ignored_are_told() -> None:
    accepted = status_of(item(), job(item()), "m", NOW, ["command"])["conditions"][0]
    assert (accepted["status"], accepted["reason"]) == ("False", "FieldsIgnored")
    assert accepted["message"].startswith("command: cannot be changed after creation")


def test_an_object_that_was_refused_is_looked_at_again_when_it_is_edited() -> None:
    refused = refusal(item(), Refusal(INVALID, InvalidInput("spec.command", "too short")), NOW)
    assert item(refused).over
    assert not item(refused, generation=2).over
    assert item({"phase": "Succeeded", "observedGeneration": 1}, generation=2).over


def test_the_finalizer_tells_who_holds_it() -> None:
    assert not item().held
    assert replace(item(), finalizers=("other", FINALIZER)).held
