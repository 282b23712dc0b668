"""An API server with the custom resource, and a scheduler that follows the objects of a namespace of its own."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config

from scheduler.clock import SystemClock
from scheduler.clusters.kubernetes.api.custom_resource import GROUP, PLURAL, VERSION
from scheduler.clusters.kubernetes.training_jobs import TrainingJobObjects
from scheduler.clusters.simulated.process import Behaviour
from scheduler.daemon.trainingjobs.controller import TrainingJobs
from scheduler.engine.tick import TickReport
from scheduler.http.explain.explanation import explain
from scheduler.model.ids import JobId
from scheduler.model.job import Job, Runtime
from scheduler.model.world import World as Snapshot
from tests.clusters.control_plane import ControlPlane
from tests.clusters.kubernetes_desk import install_training_jobs
from tests.eventually import becomes, eventually
from tests.world import World

SPEC = {"command": ["train"], "runtime": "elastic", "minWorkers": 1, "maxWorkers": 4}


@pytest.fixture(scope="session")
def api(plane: ControlPlane) -> ControlPlane:
    with config.new_client_from_config(str(plane.kubeconfig)) as api_client:
        install_training_jobs(api_client)
    return plane


class Site(World):
    """A world whose jobs come as objects."""

    def __init__(self, directory: Path, plane: ControlPlane) -> None:
        super().__init__(directory)
        self.kubernetes = plane.settings()
        self._client = config.new_client_from_config(str(plane.kubeconfig))
        self.custom = client.CustomObjectsApi(self._client)
        self.leading = True
        self.objects = self._objects()
        self.control = self._connected(self.objects)

    def connect(self) -> TrainingJobs:
        """Another daemon's part, not begun."""
        return self._connected(self._objects())

    def _objects(self) -> TrainingJobObjects:
        return TrainingJobObjects(self.kubernetes, SystemClock(), random.Random(1))

    def _connected(self, objects: TrainingJobObjects) -> TrainingJobs:
        return TrainingJobs(
            objects,
            self.store,
            self.clock,
            self.kubernetes,
            explain=self._explain,
            leading=lambda: self.leading,
            stored=lambda _: None,
        )

    def close(self) -> None:
        self._client.close()
        super().close()

    def tick(self) -> TickReport:
        report = super().tick()
        self.control.see(report)
        return report

    # what users do

    def apply(self, name: str, **spec: Any) -> None:
        body = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "TrainingJob", "metadata": {"name": name}}
        self.custom.create_namespaced_custom_object(*self._where, {**body, "spec": {**SPEC, **spec}})

    def edit(self, name: str, **spec: Any) -> None:
        self.custom.patch_namespaced_custom_object(
            *self._where, name, {"spec": spec}, _content_type="application/merge-patch+json"
        )

    def delete(self, name: str) -> None:
        self.custom.delete_namespaced_custom_object(*self._where, name)

    # what they see

    def names(self) -> list[str]:
        return [each["metadata"]["name"] for each in self.custom.list_namespaced_custom_object(*self._where)["items"]]

    def item(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.custom.get_namespaced_custom_object(*self._where, name)
        return found

    def status(self, name: str) -> dict[str, Any]:
        return self.item(name).get("status") or {}

    def await_status(self, name: str, **expected: Any) -> dict[str, Any]:
        """Until the status says so; it does by itself, without a further tick."""

        becomes(lambda: {key: self.status(name).get(key) for key in expected}, expected)
        return self.status(name)

    def job_of(self, name: str) -> JobId:
        """The job that the object was given."""
        eventually(lambda: "jobId" in self.status(name), lambda: f"it has no job: {self.status(name)}")
        job_id = JobId(self.status(name)["jobId"])
        if job_id not in self.submitted:
            self.submitted.append(job_id)
            self.cluster.behave(job_id, Behaviour(runtime=Runtime.ELASTIC))
        return job_id

    def settled(self, name: str, **spec: Any) -> JobId:
        """The job of a new object, once all is done for it that can be, on a cluster of four slots."""
        self.node("a", slots=4)
        self.apply(name, **spec)
        job_id = self.job_of(name)
        self.settle()
        return job_id

    @property
    def _where(self) -> tuple[str, str, str, str]:
        return (GROUP, VERSION, self.kubernetes.namespace, PLURAL)

    def _explain(self, job: Job) -> str:
        world = self.board.world or Snapshot()
        return explain(job, world, self.settings.policy, self.clock.now())["summary"]


@pytest.fixture
def site(tmp_path: Path, api: ControlPlane) -> Iterator[Site]:
    site = Site(tmp_path, api)
    with site.control.followed():
        yield site
    site.close()
