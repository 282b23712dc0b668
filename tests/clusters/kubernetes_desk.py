"""A real Kubernetes cluster for tests: its own namespace, a resource of its own on the nodes, nothing left behind."""

import itertools
import json
import os
import random
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import urllib3
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from scheduler.clock import SystemClock
from scheduler.clusters.kubernetes.api.custom_resource import GROUP, PLURAL, VERSION
from scheduler.clusters.kubernetes.cluster import KubernetesCluster
from scheduler.config import KubernetesSettings
from scheduler.daemon.trainingjobs.crd import definition
from scheduler.engine.ports import StartWorker
from scheduler.model.ids import NodeName, WorkerId
from tests.clusters.desk import Manner, WaitingDesk, shell, start_of
from tests.eventually import becomes, eventually

#: Any image with a POSIX shell that the nodes have or can pull.
IMAGE = os.environ.get("SCHED_TEST_IMAGE", "docker.io/local/busybox:1")
#: Advertised by the tests on every node, so that no other pod asks for it.
RESOURCE = "scheduler.test/slot"
SLOTS = 64
SECRET = b"of the schedulers of tests"
TEMPLATE = json.dumps(
    {
        "spec": {
            "hostNetwork": True,
            "containers": [{"name": "worker", "image": IMAGE, "imagePullPolicy": "IfNotPresent"}],
        }
    }
)


@dataclass(frozen=True)
class TestCluster:
    """A cluster that tests may use, and a namespace of theirs on it."""

    __test__ = False

    kubeconfig: Path
    core: client.CoreV1Api
    namespace: str
    nodes: tuple[NodeName, ...]
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def settings(self, **changes: Any) -> KubernetesSettings:
        """Of a scheduler that no other test has."""
        return KubernetesSettings(
            **{
                "namespace": self.namespace,
                "kubeconfig": self.kubeconfig,
                "resource": RESOURCE,
                "instance": f"t{next(self._numbers)}",
                # Pods of the tests are on the network of their nodes: not every cluster gives them one.
                "trust_templates": True,
                **changes,
            }
        )

    def pods(self, instance: str) -> list[client.V1Pod]:
        return list(self.core.list_namespaced_pod(self.namespace, label_selector=_selector(instance)).items)

    def sweep(self, instance: str) -> None:
        """Delete the workers of a scheduler, and wait until they are gone."""
        for pod in self.pods(instance):
            with suppress(ApiException):  # it has gone meanwhile
                self.core.delete_namespaced_pod(pod.metadata.name, self.namespace, body={"gracePeriodSeconds": 1})
        # a kubelet may take a minute to let go of a pod whose image it cannot have
        eventually(lambda: not self.pods(instance), "pods do not go", 180.0)


@contextmanager
def cluster_of(kubeconfig: Path) -> Iterator[TestCluster]:
    """The cluster of a kubeconfig, with a namespace for this session; skips where it does not answer."""
    core = client.CoreV1Api(config.new_client_from_config(str(kubeconfig)))
    try:
        nodes = [node.metadata.name for node in core.list_node(_request_timeout=60).items if _ready(node)]
    except (urllib3.exceptions.HTTPError, ApiException) as error:
        pytest.skip(f"the cluster of KUBECONFIG does not answer: {error}")
    if len(nodes) < 2:
        pytest.skip("the cluster of KUBECONFIG has fewer than two nodes that are ready")
    namespace = f"scheduler-test-{secrets.token_hex(4)}"
    core.create_namespace({"metadata": {"name": namespace}})
    try:
        for node in nodes:
            advertise(core, node, RESOURCE, SLOTS)
        yield TestCluster(kubeconfig, core, namespace, tuple(map(NodeName, sorted(nodes))))
    finally:
        core.delete_namespace(namespace, grace_period_seconds=1)
        with suppress(AssertionError):  # the cluster goes on with it by itself
            eventually(lambda: not _exists(core, namespace), "the namespace does not go")
        core.api_client.close()


class KubernetesDesk(WaitingDesk):
    seconds_max = 180.0

    def __init__(self, where: TestCluster, directory: Path, **changes: Any) -> None:
        super().__init__()
        self.where = where
        self._directory = directory
        self.settings = where.settings(**changes)
        self.node = where.nodes[0]
        self._connect()

    def _connect(self) -> None:
        self.kubernetes = KubernetesCluster(self.settings, SystemClock(), random.Random(1), self._directory, SECRET)
        self.kubernetes.on_change(self.changed.set)
        self.cluster = self.kubernetes

    def action(self, worker: str, does: Manner | int, slot_ids: tuple[int, ...] = (0,)) -> StartWorker:
        return start_of(worker, self.node, slot_ids, shell(does), TEMPLATE)

    def broken(self, worker: str) -> StartWorker:
        return start_of(worker, self.node, (0,), ("no-such-program",), TEMPLATE)

    def output(self, worker: str) -> bytes:
        name = WorkerId(worker)
        return self.kubernetes.logs.read(name, nonce=self.workers()[name].nonce)[0]

    def take_over(self) -> None:
        self.kubernetes.close()
        self._connect()

    def close(self) -> None:
        self.kubernetes.close()
        self.where.sweep(self.settings.instance)


def advertise(core: client.CoreV1Api, node: str, resource: str, count: int) -> None:
    """Let a node offer so much of a resource; waits until it is to be had."""
    core.patch_node_status(node, {"status": {"capacity": {resource: str(count)}}})
    becomes(lambda: core.read_node(node).status.allocatable.get(resource), str(count), 120.0)


def install_training_jobs(api: client.ApiClient) -> None:
    """Let the cluster have the custom resource, and wait until it knows it."""
    extensions, custom = client.ApiextensionsV1Api(api), client.CustomObjectsApi(api)
    names = [each.metadata.name for each in extensions.list_custom_resource_definition().items]
    if f"{PLURAL}.{GROUP}" not in names:
        extensions.create_custom_resource_definition(definition())
    eventually(lambda: _known(custom), "the custom resource is not known")


def _known(custom: client.CustomObjectsApi) -> bool:
    try:
        custom.list_namespaced_custom_object(GROUP, VERSION, "default", PLURAL)
    except ApiException:
        return False
    return True


def _selector(instance: str) -> str:
    return f"elastic-gpu-scheduler/instance={instance}"


def _ready(node: Any) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in node.status.conditions or ())


def _exists(core: client.CoreV1Api, namespace: str) -> bool:
    try:
        core.read_namespace(namespace)
    except ApiException as error:
        return bool(error.status != 404)
    return True
