"""What may have been committed before something failed is not lost. No Kubernetes is needed."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from scheduler.clusters.kubernetes.api.custom_resource import ObjectKey
from scheduler.clusters.simulated.process import Behaviour
from scheduler.config import KubernetesSettings
from scheduler.daemon.trainingjobs.controller import TrainingJobs
from scheduler.daemon.trainingjobs.crd import FINALIZER
from scheduler.daemon.trainingjobs.resource import Document, job_spec, training_job
from scheduler.engine.tick import TickReport
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState
from tests.world import World

KEY: ObjectKey = ("ns", "name")


class Gone:
    """One object, which is found gone whenever it is looked at."""

    def __init__(self) -> None:
        self.looked_at = 0

    def follow(self, changed: Callable[[ObjectKey], None]) -> None:
        pass

    def close(self) -> None:
        pass

    def get(self, key: ObjectKey) -> None:
        self.looked_at += 1

    def keys(self) -> list[ObjectKey]:
        return [KEY]

    def write_status(self, item: Document, status: Document) -> None:
        raise AssertionError

    def write_finalizers(self, item: Document, finalizers: Iterable[str]) -> None:
        raise AssertionError

    def await_looks(self, count: int) -> None:
        until = time.monotonic() + 10
        while self.looked_at < count and time.monotonic() < until:
            time.sleep(0.01)
        assert self.looked_at == count


class One:
    """One object, as an API server keeps it."""

    def __init__(self, **spec: object) -> None:
        metadata = {"namespace": KEY[0], "name": KEY[1], "uid": "1", "generation": 1, "finalizers": [FINALIZER]}
        self.item: Document = {"metadata": metadata, "spec": {"command": ["train"], **spec}}

    def follow(self, changed: Callable[[ObjectKey], None]) -> None:
        pass

    def close(self) -> None:
        pass

    def get(self, key: ObjectKey) -> Document:
        return self.item

    def keys(self) -> list[ObjectKey]:
        return [KEY]

    def write_status(self, item: Document, status: Document) -> None:
        self.item["status"] = status

    def write_finalizers(self, item: Document, finalizers: Iterable[str]) -> None:
        self.item["metadata"]["finalizers"] = list(finalizers)

    def edit(self, **spec: object) -> None:
        """As a user does."""
        metadata = self.item["metadata"]
        edited = {**self.item["spec"], **spec}
        self.item = {**self.item, "metadata": {**metadata, "generation": metadata["generation"] + 1}, "spec": edited}


def control_of(w: World, objects: Gone | One) -> TrainingJobs:
    settings = KubernetesSettings(namespace=KEY[0])
    return TrainingJobs(objects, w.store, w.clock, settings, lambda _: "", lambda: True, lambda _: None)


@pytest.mark.parametrize("crashed", [False, True])
def test_every_object_is_looked_at_once_a_tick_runs_through_after_one_that_failed(
    tmp_path: Path, crashed: bool
) -> None:
    w, objects = World(tmp_path), Gone()
    control = control_of(w, objects)
    with control.followed():
        control.see(TickReport(at=1.0, leading=True))
        objects.await_looks(1)
        control.see(TickReport(at=2.0, leading=True))
        if crashed:
            control.crashed()
        else:
            control.see(TickReport(at=3.0, leading=True, error="connection lost at COMMIT"))
        control.see(TickReport(at=4.0, leading=True))
        objects.await_looks(2)
    w.close()


def test_a_job_that_is_to_be_suspended_is_so_though_the_daemon_died_before_it_had_asked(tmp_path: Path) -> None:
    w, objects = World(tmp_path), One(suspend=True)
    w.node("a", slots=1)
    [submitted] = w.store.submit([job_spec(training_job(objects.item), KubernetesSettings(namespace=KEY[0]))], 1.0)
    control_of(w, objects).reconcile(KEY)
    assert objects.item["status"]["observedGeneration"] == 1
    w.advance(10)
    w.expect(submitted.id, JobState.SUSPENDED, workers=0)
    w.close()


def test_what_was_asked_for_and_is_taken_back_before_it_was_done_is_taken_back(tmp_path: Path) -> None:
    w, objects = World(tmp_path), One(runtime="elastic", minWorkers=1, maxWorkers=2)
    control = control_of(w, objects)
    w.node("a", slots=2)
    control.reconcile(KEY)
    job_id = objects.item["status"]["jobId"]
    w.cluster.behave(job_id, Behaviour(runtime=Runtime.ELASTIC))
    w.settle()
    objects.edit(suspend=True, priority=7, maxWorkers=1)
    control.reconcile(KEY)
    objects.edit(suspend=False, priority=0, maxWorkers=2)
    control.reconcile(KEY)
    w.settle()
    job = w.get(job_id)
    assert (job.priority, job.max_workers, job.state) == (0, 2, JobState.RUNNING)
    w.close()


def test_a_job_that_is_not_to_be_suspended_after_all_runs(tmp_path: Path) -> None:
    w, objects = World(tmp_path), One(suspend=True)
    control = control_of(w, objects)
    w.node("a", slots=1)
    control.reconcile(KEY)
    objects.edit(suspend=False)
    control.reconcile(KEY)
    w.advance(10)
    w.expect(objects.item["status"]["jobId"], JobState.RUNNING, workers=1)
    w.close()


def test_no_job_that_has_ended_is_remembered(tmp_path: Path) -> None:
    w, objects = World(tmp_path), One()
    control = control_of(w, objects)
    w.node("a", slots=1)
    control.reconcile(KEY)
    w.ask_cancel(objects.item["status"]["jobId"])
    control.see(w.tick())
    control.reconcile(KEY)
    assert objects.item["status"]["phase"] == "Cancelled"
    assert control._of_job == {}
    w.close()
