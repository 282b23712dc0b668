"""An object that its queue refuses is taken once the queue allows it. No Kubernetes is needed."""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler.clusters.kubernetes.api.custom_resource import ObjectKey
from scheduler.daemon.trainingjobs.resource import Document
from scheduler.engine.tick import TickReport
from scheduler.errors import InvalidInput
from scheduler.model.job_state import JobState
from scheduler.model.queue import Queue
from tests.eventually import eventually
from tests.trainingjobs.test_after_errors import KEY, One, control_of
from tests.world import World

OURS = f"@namespace:{KEY[0]}"


class Looked(One):
    """One object that counts the looks at it."""

    looks = 0

    def get(self, key: ObjectKey) -> Document:
        self.looks += 1
        return super().get(key)


def put(w: World, **fields: Any) -> None:
    now = w.clock.now()
    w.store.set_queue("lab", lambda _: Queue("lab", now, **fields), now)


def accepted(objects: One) -> tuple[str, str]:
    [found] = [each for each in objects.item["status"]["conditions"] if each["type"] == "Accepted"]
    return found["status"], found["reason"]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (None, {}, "spec.queue: "),
        ({"members": ("bob",)}, {"members": ("bob", OURS)}, "spec.queue: namespace ns is not a member of lab"),
        ({"priority_max": 3}, {"priority_max": 5}, "spec.priority: must be at most 3"),
    ],
)
def test_an_object_is_taken_once_its_queue_was_created_or_changed(
    tmp_path: Path, before: dict[str, Any] | None, after: dict[str, Any], said: str
) -> None:
    w, objects = World(tmp_path), One(queue="lab", priority=5)
    control = control_of(w, objects)
    if before is not None:
        put(w, **before)
    for _ in range(2):
        with pytest.raises(InvalidInput, match=said):
            control.reconcile(KEY)
        assert objects.item["status"]["phase"] == "Refused"
        assert objects.item["status"]["message"].startswith(said)
        assert accepted(objects) == ("False", "QueueRefuses")
    put(w, **after)
    control.reconcile(KEY)
    assert accepted(objects) == ("True", "Accepted")
    [job] = w.store.list_jobs()
    assert (job.id, job.spec.queue, job.priority) == (objects.item["status"]["jobId"], "lab", 5)
    w.close()


def test_another_reason_of_the_queue_is_told(tmp_path: Path) -> None:
    w, objects = World(tmp_path), One(queue="lab")
    control = control_of(w, objects)
    for members, said in (("bob", "its members are bob"), ("eve", "its members are eve")):
        put(w, members=(members,))
        with pytest.raises(InvalidInput, match=said):
            control.reconcile(KEY)
        assert said in objects.item["status"]["message"]
    w.close()


def test_it_is_looked_at_again_by_itself_and_the_log_says_once_why_not(tmp_path: Path) -> None:
    w, objects = World(tmp_path), Looked(queue="lab")
    control = control_of(w, objects)

    def tried_again() -> bool:
        w.clock.advance(60.0)  # each time: a look that was not over yet may only now wait for the next
        control.see(TickReport(at=w.clock.now(), leading=True))
        return "jobId" in objects.item.get("status", {})

    with capture_logs() as logged, control.followed():
        control.see(TickReport(at=1.0, leading=True))  # it looks at everything when it begins to lead
        eventually(lambda: objects.looks == 1, "nobody looks at it")
        for look in (2, 3):
            control.look_at(KEY)
            eventually(lambda look=look: objects.looks == look, "nobody looks at it")  # type: ignore[misc]
        put(w)
        eventually(tried_again, "it is not tried again")
    assert [each["event"] for each in logged] == ["TrainingJob failed, retrying later"]
    w.close()


def test_a_priority_that_the_queue_refused_is_asked_for_once_it_allows_it(tmp_path: Path) -> None:
    w, objects = World(tmp_path), One(queue="lab", priority=1)
    control = control_of(w, objects)
    w.node("a", slots=1)
    put(w, priority_max=3)
    control.reconcile(KEY)
    job = objects.item["status"]["jobId"]
    w.settle()
    objects.item["spec"]["priority"] = 7
    objects.item["metadata"]["generation"] = 2
    for _ in range(2):
        with pytest.raises(InvalidInput, match=r"spec\.priority: must be at most 3"):
            control.reconcile(KEY)
        assert accepted(objects) == ("False", "QueueRefuses")
    put(w, priority_max=None)
    control.reconcile(KEY)
    w.settle()
    assert w.expect(job, JobState.RUNNING).priority == 7
    control.reconcile(KEY)
    assert (accepted(objects), objects.item["status"]["priority"]) == (("True", "Accepted"), 7)
    w.close()


def test_a_spec_that_is_no_job_is_not_tried_again(tmp_path: Path) -> None:
    w, objects = World(tmp_path), One(queue="lab", minWorkers=8, maxWorkers=4)
    control = control_of(w, objects)
    put(w)
    control.reconcile(KEY)
    assert (objects.item["status"]["phase"], accepted(objects)) == ("Refused", ("False", "InvalidSpec"))
    w.close()
