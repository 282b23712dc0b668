"""Oversold nodes of Kubernetes: who shares slots, on which GPUs, and how busy these are, by a real API server."""

import os
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from scheduler.clock import SystemClock
from scheduler.clusters.kubernetes.cluster import KubernetesCluster
from scheduler.engine.ports import ActionFailure, StartWorker
from scheduler.model.ids import NodeName
from scheduler.model.observation import EndCause, NodeObservation, SlotLoad
from tests.clusters.control_plane import RESOURCE, ControlPlane
from tests.clusters.control_plane_daemon import site_of
from tests.clusters.desk import start_of
from tests.clusters.exporters import Exporters, Shown, running_exporters
from tests.clusters.service_account import Account
from tests.eventually import eventually

pytestmark = pytest.mark.kubernetes

A = NodeName("a")
EXPORTER_NAMESPACE = "gpu-operator"
EXPORTER = f"{EXPORTER_NAMESPACE}/app=nvidia-dcgm-exporter"
UUIDS = ("GPU-0", "GPU-1", "GPU-2", "GPU-3")


class Oversold:
    """A daemon's cluster with a factor of 1.5, and node `a` with four slots."""

    def __init__(self, plane: ControlPlane, **settings: Any) -> None:
        self.plane = plane
        self.settings = plane.settings(oversell=1.5, load_seconds=0.05, **settings)
        self.namespace = self.settings.namespace
        plane.add_node("a")
        self.cluster = self.connect()

    def connect(self) -> KubernetesCluster:
        return KubernetesCluster(self.settings, SystemClock(), random.Random(1), Path(os.devnull), b"secret")

    def start(self, worker: str, *slot_ids: int, **changes: Any) -> list[ActionFailure]:
        """Starts it; what failed."""
        return list(self.cluster.apply([self.action(worker, *slot_ids, **changes)]))

    def action(self, worker: str, *slot_ids: int, **changes: Any) -> StartWorker:
        return replace(start_of(worker, A, slot_ids, ("train",)), **changes)

    def starts(self, worker: str, *slot_ids: int, **changes: Any) -> Any:
        """The container of its pod, as soon as it can be started."""
        eventually(lambda: not self.start(worker, *slot_ids, **changes), lambda: str(self.cluster.troubles()))
        (container,) = self.plane.core.read_namespaced_pod(f"sched-{worker}", self.namespace).spec.containers
        return container

    def node(self) -> NodeObservation:
        return self.cluster.observe().nodes[A]

    def loads(self) -> tuple[SlotLoad, ...]:
        return self.cluster.observe().loads.get(A, ())

    def trouble(self) -> str:
        return "".join(self.cluster.troubles())

    def close(self) -> None:
        self.cluster.close()
        for pod in self.plane.core.list_pod_for_all_namespaces().items:
            self.plane.vanish(pod.metadata.namespace, pod.metadata.name)
        self.plane.core.delete_node("a")


@pytest.fixture
def exporters() -> Iterator[Exporters]:
    with running_exporters() as exporters:
        yield exporters


def add_exporter(plane: ControlPlane, node: str, address: str) -> None:
    """Its pod, as a daemon set makes it."""
    with suppress(ApiException):  # it is there already
        plane.core.create_namespace({"metadata": {"name": EXPORTER_NAMESPACE}})
    name = f"exporter-{node}"
    plane.pod(EXPORTER_NAMESPACE, name, {}, {"app": "nvidia-dcgm-exporter"})
    plane.bind(EXPORTER_NAMESPACE, name, node)
    plane.report(EXPORTER_NAMESPACE, name, phase="Running", podIP=address, podIPs=[{"ip": address}])


@pytest.fixture
def gpus(plane: ControlPlane, exporters: Exporters) -> Iterator[Oversold]:
    """Slots are GPUs; the node's exporter runs and shows that nobody has any."""
    exporters.show("127.0.0.1", "", *map(Shown, UUIDS))
    oversold = Oversold(plane, gpu_exporter=EXPORTER, gpu_exporter_port=exporters.port)
    add_exporter(plane, "a", "127.0.0.1")
    yield oversold
    oversold.close()


@contextmanager
def metrics_api(plane: ControlPlane) -> Iterator[client.CustomObjectsApi]:
    """The kind that a metrics server offers, here with what the test says."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {
        "group": "metrics.k8s.io",
        "scope": "Namespaced",
        "names": {"plural": "pods", "singular": "pod", "kind": "PodMetrics", "listKind": "PodMetricsList"},
        "versions": [version],
    }
    name, approval = "pods.metrics.k8s.io", {"api-approved.kubernetes.io": "unapproved, of a test"}
    extensions = client.ApiextensionsV1Api(plane.core.api_client)
    extensions.create_custom_resource_definition({"metadata": {"name": name, "annotations": approval}, "spec": spec})
    try:
        yield client.CustomObjectsApi(plane.core.api_client)
    finally:
        extensions.delete_custom_resource_definition(name)


def takes(api: client.CustomObjectsApi, namespace: str, pod: str, *cpus: str) -> None:
    """Publish the CPU usage of a pod's containers, one value each."""
    containers: list[Mapping[str, Any]] = [{"name": f"c{k}", "usage": {"cpu": each}} for k, each in enumerate(cpus)]
    body = {"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics", "metadata": {"name": pod}}
    made = {**body, "containers": containers}
    eventually(lambda: _is_made(api, namespace, made), "the kind is not known")


def _is_made(api: client.CustomObjectsApi, namespace: str, body: dict[str, Any]) -> bool:
    try:
        api.create_namespaced_custom_object("metrics.k8s.io", "v1beta1", namespace, "pods", body)
    except ApiException:
        return False
    return True


# CPU slots


def test_a_worker_that_shares_cpu_slots_asks_for_no_cpus_of_them_and_is_known_to_share(plane: ControlPlane) -> None:
    oversold = Oversold(plane, resource="cpu")
    try:
        assert oversold.node().oversell == 1.5
        owner, sharer = oversold.starts("7-1", 0, 1), oversold.starts("8-1", 0, 1, shared=True)
        assert (owner.resources.requests["cpu"], sharer.resources.requests["cpu"]) == ("2", "0")
        assert oversold.starts("9-1", 0, 1, shared=True, cpus=2.5).resources.requests["cpu"] == "500m"
        again = oversold.connect()
        shared = {str(seen.id): seen.shared for seen in again.observe().workers.values()}
        again.close()
        assert shared == {"7-1": False, "8-1": True, "9-1": True}
    finally:
        oversold.close()


def test_cpu_slots_are_as_busy_as_the_metrics_api_says_and_trouble_with_it_is_told(plane: ControlPlane) -> None:
    oversold = Oversold(plane, resource="cpu")
    try:
        oversold.starts("7-1", 0, 1)
        oversold.starts("8-1", 1, shared=True)
        eventually(lambda: "install a metrics server" in oversold.trouble(), oversold.trouble)
        assert oversold.loads() == ()
        with metrics_api(plane) as api:
            takes(api, oversold.namespace, "sched-7-1", "700m", "100000000n")
            takes(api, oversold.namespace, "sched-8-1", "0.25")
            takes(api, oversold.namespace, "sched-9-1", "many")
            eventually(lambda: [load.utilization for load in oversold.loads()[:2]] == [0.4, 0.65], oversold.trouble)
            eventually(lambda: oversold.trouble() == "", oversold.trouble)
            assert oversold.loads()[2:4] == (SlotLoad(), SlotLoad())
            oversold.plane.pod(oversold.namespace, "other", {"cpu": "1500m"}, {})
            oversold.plane.bind(oversold.namespace, "other", "a")
            full = SlotLoad(memory=1.0)
            eventually(lambda: oversold.loads()[-3:] == (SlotLoad(), full, full), lambda: str(oversold.loads()))
    finally:
        oversold.close()


def test_a_namespace_that_was_removed_hides_no_load_of_the_others(plane: ControlPlane, tmp_path: Path) -> None:
    account = Account(plane, "measures", tmp_path / "kubeconfig")
    account.create()
    seen = [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]}]
    with account.allowed(seen), metrics_api(plane) as api:
        oversold = Oversold(plane, resource="cpu", kubeconfig=account.kubeconfig, namespaces=("removed",))
        try:
            with account.works_in(oversold.namespace):
                eventually(lambda: 'in the namespace "removed"' in oversold.trouble(), oversold.trouble)
                oversold.starts("7-1", 0, 1)
                takes(api, oversold.namespace, "sched-7-1", "800m")
                eventually(lambda: [load.utilization for load in oversold.loads()[:2]] == [0.4, 0.4], oversold.trouble)
        finally:
            oversold.close()
    account.delete()


# GPUs


def test_a_node_is_oversold_once_its_exporter_tells_of_as_many_gpus_as_it_offers(
    gpus: Oversold, exporters: Exporters
) -> None:
    eventually(lambda: gpus.node().oversell == 1.5, gpus.trouble)
    exporters.show("127.0.0.1", "", *map(Shown, UUIDS[:3]))
    told = "node a: its exporter tells of 3 GPUs, and it offers 4: they are not shared"
    eventually(lambda: told in gpus.trouble(), gpus.trouble)
    assert gpus.node().oversell == 1.0
    exporters.show("127.0.0.1", "", *map(Shown, UUIDS))
    eventually(lambda: gpus.trouble() == "", gpus.trouble)
    assert gpus.node().oversell == 1.5


def test_a_node_without_an_exporter_is_not_oversold_and_no_pod_of_others_passes_for_one(
    plane: ControlPlane, exporters: Exporters
) -> None:
    exporters.show("127.0.0.1", "", *map(Shown, UUIDS))
    oversold = Oversold(plane, gpu_exporter=EXPORTER, gpu_exporter_port=exporters.port)
    try:
        plane.pod(oversold.namespace, "exporter", {}, {"app": "nvidia-dcgm-exporter"})
        plane.bind(oversold.namespace, "exporter", "a")
        plane.report(oversold.namespace, "exporter", phase="Running", podIP="127.0.0.1")
        told = f"node a: no pod of {EXPORTER} runs there: its GPUs are not shared"
        eventually(lambda: told in oversold.trouble(), oversold.trouble)
        assert oversold.node().oversell == 1.0
    finally:
        oversold.close()


def test_who_shares_gets_the_gpus_of_the_owners_of_its_slots_and_asks_for_none(
    gpus: Oversold, exporters: Exporters
) -> None:
    owner = gpus.starts("7-1", 0, 2)
    assert owner.resources.limits[RESOURCE] == "2"
    exporters.show("127.0.0.1", gpus.namespace, Shown("GPU-0"), Shown("GPU-1", "sched-7-1"), Shown("GPU-2"))
    eventually(lambda: "tells of 3 GPUs" in gpus.trouble(), gpus.trouble)
    failed = gpus.start("8-1", 1, 2, shared=True)
    assert [failure.error for failure in failed] == ["the exporter of node a does not tell yet which GPU slot 1 is"]
    shown = [Shown("GPU-0"), Shown("GPU-1", "sched-7-1"), Shown("GPU-2"), Shown("GPU-3", "sched-7-1")]
    exporters.show("127.0.0.1", gpus.namespace, *shown)
    eventually(lambda: gpus.node().oversell == 1.5, gpus.trouble)
    sharer = gpus.starts("9-1", 0, 2, shared=True)
    assert {each.name: each.value for each in sharer.env}["NVIDIA_VISIBLE_DEVICES"] == "GPU-1,GPU-3"
    assert sharer.resources.limits[RESOURCE] == sharer.resources.requests[RESOURCE] == "0"
    assert gpus.starts("9-2", 1, shared=True).env[-1].value == "GPU-0"


def test_who_waits_too_long_for_what_the_exporter_tells_is_given_up_which_is_not_its_jobs_doing(
    plane: ControlPlane,
) -> None:
    oversold = Oversold(plane, gpu_exporter=EXPORTER, launch_limit_seconds=1.0)
    try:
        eventually(lambda: not oversold.start("8-1", 0, shared=True), "it is tried again and again")
        (seen,) = oversold.cluster.observe().workers.values()
        assert (seen.shared, seen.cause) == (True, EndCause.NOT_ADMITTED)
        assert seen.detail == "the exporter of node a does not tell yet which GPU slot 0 is"
    finally:
        oversold.close()


def test_a_sharer_need_not_leave_while_figures_are_away_also_not_for_the_next_daemon(
    gpus: Oversold, exporters: Exporters
) -> None:
    gpus.starts("8-1", 0, shared=True)
    exporters.texts.clear()
    again = gpus.connect()
    try:
        eventually(lambda: "responds with status 404" in "".join(again.troubles()), "nobody notices")
        seen = again.observe()
        assert (seen.nodes[A].oversell, dict(seen.loads)) == (1.5, {})
    finally:
        again.close()


def test_who_shares_gives_way_on_a_crowded_gpu_and_comes_back_later(
    plane: ControlPlane, exporters: Exporters, tmp_path: Path
) -> None:
    """A daemon from submission to pods."""
    exporters.show("127.0.0.1", "", *map(Shown, UUIDS))
    policy = {"oversell_cooldown_seconds": 0.1, "oversell_reopen_seconds": 0.5}
    places = {"gpu_exporter": EXPORTER, "gpu_exporter_port": exporters.port, "load_seconds": 0.05}
    with site_of(plane, tmp_path, policy=policy, oversell=1.5, **places) as site:
        add_exporter(plane, "a", "127.0.0.1")

        def show(used: float) -> None:
            shown = [Shown(uuid, site.pod_of(owner, 1), used) for uuid in UUIDS]
            exporters.show("127.0.0.1", site.namespace, *shown)

        owner = site.submit(slots_per_worker=4)
        site.run(owner)
        show(used=0.5)
        sharer = site.submit(oversell=True, grace_seconds=1)
        first = site.pod_of(sharer, 1)
        site.run(sharer)
        (container,) = plane.core.read_namespaced_pod(first, site.namespace).spec.containers
        assert {each.name: each.value for each in container.env}["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"
        assert container.resources.limits[RESOURCE] == "0"

        show(used=0.95)
        site.comes(lambda: _leaves(plane, site.namespace, first), lambda: site.explained(sharer))
        plane.vanish(site.namespace, first)
        site.comes(lambda: site.job(sharer)["state"] == "QUEUED", lambda: str(site.job(sharer)))
        assert (site.job(owner)["state"], site.job(sharer)["retries_used"]) == ("RUNNING", 0)

        show(used=0.5)
        assert site.pod_of(sharer, 2) != first
        plane.vanish(EXPORTER_NAMESPACE, "exporter-a")


def _leaves(plane: ControlPlane, namespace: str, pod: str) -> bool:
    """Whether it is asked to."""
    return plane.core.read_namespaced_pod(pod, namespace).metadata.deletion_timestamp is not None
