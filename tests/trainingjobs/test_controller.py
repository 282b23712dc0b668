"""Objects on a real API server become jobs, and tell what has become of them."""

import pytest
from kubernetes.client.exceptions import ApiException

from scheduler.model.job_state import JobState
from scheduler.model.queue import Queue
from tests.eventually import becomes, eventually
from tests.store import garbage
from tests.trainingjobs.conftest import Site

pytestmark = pytest.mark.kubernetes


def conditions(status: dict[str, object]) -> dict[str, str]:
    return {each["type"]: each["status"] for each in status["conditions"]}  # type: ignore[attr-defined]


def test_an_object_becomes_a_job_that_runs_and_ends(site: Site) -> None:
    site.node("a", slots=4)
    site.apply("mnist", priority=5)
    job_id = site.job_of("mnist")
    assert site.status("mnist")["phase"] == "Queued"
    site.settle()
    job = site.expect(job_id, JobState.RUNNING, workers=4)
    assert (job.spec.name, job.priority) == ("mnist", 5)
    status = site.await_status("mnist", phase="Running", workers=4)
    assert status["message"].startswith("Runs with 4 of at most 4 workers")
    assert conditions(status) == {"Accepted": "True", "Running": "True", "Complete": "False", "Failed": "False"}
    for worker in job.workers:
        site.cluster.crash(worker.id, 0)
    site.settle()
    status = site.await_status("mnist", phase="Succeeded", workers=0)
    assert status["completionTime"] is not None
    assert conditions(status)["Complete"] == "True"
    eventually(lambda: "finalizers" not in site.item("mnist")["metadata"], "the finalizer stays")


def test_what_waits_says_why(site: Site) -> None:
    site.node("a", slots=2)
    site.apply("large", minWorkers=8, maxWorkers=8)
    site.job_of("large")
    site.settle()
    status = site.await_status("large", phase="Queued", reason="EXCEEDS_CLUSTER")
    assert "Lower its minimum, or add nodes" in status["message"]


def test_priority_and_bounds_are_edited_in_place(site: Site) -> None:
    job_id = site.settled("mnist")
    site.edit("mnist", priority=7, maxWorkers=2)
    site.await_status("mnist", observedGeneration=2)
    site.settle()
    assert site.expect(job_id, JobState.RUNNING, workers=2).priority == 7
    site.await_status("mnist", workers=2, priority=7, maxWorkers=2)


def test_it_is_suspended_and_resumed(site: Site) -> None:
    job_id = site.settled("mnist", suspend=True)
    site.expect(job_id, JobState.SUSPENDED, workers=0)
    site.await_status("mnist", phase="Suspended")
    site.edit("mnist", suspend=False)
    site.await_status("mnist", observedGeneration=2)
    site.settle()
    site.expect(job_id, JobState.RUNNING, workers=4)


def test_what_a_user_of_the_scheduler_changes_is_not_changed_back(site: Site) -> None:
    job_id = site.settled("mnist", priority=1)
    site.set_priority(job_id, 50)
    site.settle()
    site.await_status("mnist", priority=50)
    assert site.get(job_id).priority == 50


def test_a_field_that_cannot_change_any_more_is_told_and_ignored(site: Site) -> None:
    job_id = site.settled("mnist")
    site.edit("mnist", command=["other"], priority=3)
    status = site.await_status("mnist", observedGeneration=2)
    assert conditions(status)["Accepted"] == "False"
    assert status["conditions"][0]["message"].startswith("command: cannot be changed after creation")
    site.settle()
    job = site.expect(job_id, JobState.RUNNING)
    assert (job.spec.command, job.priority) == (("train",), 3)


def test_an_edit_that_is_no_job_is_refused_and_the_job_can_still_be_cancelled(site: Site) -> None:
    job_id = site.settled("mnist")
    site.edit("mnist", minWorkers=8)
    status = site.await_status("mnist", observedGeneration=2, phase="Running")
    assert conditions(status)["Accepted"] == "False"
    site.settle()
    site.expect(job_id, JobState.RUNNING, workers=4)
    site.edit("mnist", minWorkers=2)
    status = site.await_status("mnist", observedGeneration=3)
    assert conditions(status)["Accepted"] == "True"
    site.settle()
    assert site.get(job_id).min_workers == 2
    site.edit("mnist", minWorkers=8)
    site.await_status("mnist", observedGeneration=4)
    site.delete("mnist")
    eventually(lambda: site.store.take_inbox(10).intents, "nobody asks for the end")
    site.settle()
    site.expect(job_id, JobState.CANCELLED, workers=0)
    becomes(site.names, [])


def test_deletion_cancels_and_waits_for_the_workers(site: Site) -> None:
    job_id = site.settled("mnist")
    site.delete("mnist")
    eventually(lambda: site.store.take_inbox(10).intents, "nobody asks for the end")
    assert site.names() == ["mnist"]
    site.settle()
    site.expect(job_id, JobState.CANCELLED, workers=0)
    becomes(site.names, [])


def test_one_of_the_same_name_is_another_job(site: Site) -> None:
    first = site.settled("mnist")
    site.delete("mnist")
    eventually(lambda: site.store.take_inbox(10).intents, "nobody asks for the end")
    site.settle()
    becomes(site.names, [])
    site.apply("mnist")
    assert site.job_of("mnist") != first


def test_the_api_server_refuses_what_breaks_a_limit(site: Site) -> None:
    with pytest.raises(ApiException, match=r"spec.minWorkers.*greater than or equal to 1"):
        site.apply("none", minWorkers=0)
    with pytest.raises(ApiException, match=r"spec\.command"):
        site.apply("none", command=[])


def test_a_rule_between_fields_is_told_in_the_status_until_it_is_mended(site: Site) -> None:
    site.node("a", slots=4)
    site.apply("odd", minWorkers=4, maxWorkers=2)
    status = site.await_status("odd", phase="Refused")
    assert status["message"] == "spec.minWorkers: 4 exceeds max_workers 2"
    assert conditions(status) == {"Accepted": "False"}
    site.edit("odd", maxWorkers=4)
    job_id = site.job_of("odd")
    site.settle()
    site.expect(job_id, JobState.RUNNING, workers=4)


def test_a_full_queue_is_told_in_the_status_until_it_takes_the_job(site: Site) -> None:
    site.store.set_queue("lab", lambda _: Queue("lab", site.clock.now(), max_jobs=1), site.clock.now())
    first = site.settled("first", queue="lab")
    site.apply("second", queue="lab")
    status = site.await_status("second", phase="Waiting", reason="QueueFull")
    assert status["message"].startswith("queue: lab contains 1 job that has not ended, of at most 1: wait until")
    assert conditions(status) == {"Accepted": "False"}
    for worker in site.get(first).workers:
        site.cluster.crash(worker.id, 0)
    site.settle()
    site.await_status("first", phase="Succeeded", queue="lab")
    site.control.look_at((site.kubernetes.namespace, "second"))
    assert site.get(site.job_of("second")).spec.queue == "lab"
    assert conditions(site.status("second"))["Accepted"] == "True"


def test_a_queue_whose_row_cannot_be_read_is_told_in_the_status_until_it_is_replaced(site: Site) -> None:
    def put(anew: bool) -> None:
        site.store.set_queue("lab", lambda _: Queue("lab", site.clock.now()), site.clock.now(), anew=anew)

    put(anew=False)
    with garbage.connected(f"sqlite:///{site.store.file}") as session:
        session.execute("UPDATE queues SET weight = -1")
    site.apply("one", queue="lab")
    status = site.await_status("one", phase="Waiting", reason="QueueUnreadable")
    assert status["message"].startswith("queue: the row of queue lab cannot be read")
    put(anew=True)
    site.control.look_at((site.kubernetes.namespace, "one"))
    assert site.get(site.job_of("one")).spec.queue == "lab"


def test_objects_that_came_while_nobody_led_enter_once(site: Site) -> None:
    site.leading = False
    site.node("a", slots=4)
    site.apply("mnist")
    eventually(site.objects.keys, "the object is not seen")
    assert site.status("mnist") == {}
    site.leading = True
    site.tick()
    site.job_of("mnist")
    assert len(site.store.list_jobs()) == 1


def test_two_daemons_make_one_job_of_an_object(site: Site) -> None:
    site.node("a", slots=4)
    with site.connect().followed():
        site.apply("mnist")
        site.job_of("mnist")
        site.settle()
        site.await_status("mnist", phase="Running", workers=4)
    assert len(site.store.list_jobs()) == 1


def test_a_job_whose_object_lost_its_status_is_found_again(site: Site) -> None:
    job_id = site.settled("mnist")
    site.edit("mnist", priority=2)
    site.await_status("mnist", observedGeneration=2)
    site.custom.patch_namespaced_custom_object_status(
        *site._where, "mnist", {"status": None}, _content_type="application/merge-patch+json"
    )
    site.await_status("mnist", jobId=job_id)
    assert len(site.store.list_jobs()) == 1
