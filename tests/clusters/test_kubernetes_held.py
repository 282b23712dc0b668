"""What a worker's pod holds of its node beyond its job's numbers counts as held by others."""

import json
from dataclasses import replace
from typing import Any

import pytest

from scheduler.clusters.kubernetes.cache import ClusterCache
from scheduler.clusters.kubernetes.manifest import pod_manifest
from scheduler.clusters.kubernetes.pods import WorkerPods
from scheduler.config import KubernetesSettings
from scheduler.model.foreign import NO_FOREIGN, ForeignUse
from scheduler.model.ids import NodeName, WorkerId
from scheduler.model.observation import EndCause
from tests.clusters.desk import start_of

A = NodeName("a")
SIDECAR = {"name": "s", "image": "x", "resources": {"requests": {"cpu": "1500m", "memory": "4Gi"}}}
BESIDE = {"spec": {"containers": [{"name": "worker"}, SIDECAR]}}


class OneNode:
    """A node on which one worker of two slots comes and goes."""

    def __init__(self, template: dict[str, Any], resource: str = "nvidia.com/gpu", **start: Any) -> None:
        settings = KubernetesSettings(image="x:1", resource=resource, **start.pop("settings", {}))
        pods = WorkerPods(settings, b"secret")
        self.cache = ClusterCache(settings, pods, lambda: 0.0)
        allocatable = {"nvidia.com/gpu": "8", "cpu": "64", "memory": "512Gi"}
        self.cache.put_node({"metadata": {"name": A}, "status": {"allocatable": allocatable}})
        asked = replace(start_of("7-1", A, (0, 1), ("train",)), pod_template=json.dumps(template), **start)
        owner = {"metadata": {"name": "o", "uid": "u"}}
        self.pod = pod_manifest(asked, settings, owner, pods.seal)
        self.version = 0

    def foreign(self, phase: str, node: str | None = A) -> ForeignUse:
        """What others hold once the pod has this phase on this node."""
        self.version += 1
        self.pod["metadata"] |= {"uid": "1", "resourceVersion": str(self.version)}
        self.pod["spec"] |= {"nodeName": node}
        self.pod["status"] = {"phase": phase}
        self.cache.put_pod(self.pod)
        return self.cache.observe().nodes[A].foreign


def test_what_containers_beside_a_worker_ask_for_is_taken_while_their_pod_is_on_the_node() -> None:
    one = OneNode(BESIDE)
    assert one.foreign("Pending", None) == NO_FOREIGN
    assert one.foreign("Pending") == ForeignUse(0, 1.5, 4096)
    assert one.foreign("Running") == ForeignUse(0, 1.5, 4096)
    assert one.foreign("Failed") == NO_FOREIGN
    again = OneNode(BESIDE)
    assert again.foreign("Running") != NO_FOREIGN
    assert again.cache.remove_pod(again.pod)
    assert again.cache.observe().nodes[A].foreign == NO_FOREIGN
    unwatched = OneNode(BESIDE)
    assert unwatched.foreign("Running") != NO_FOREIGN
    assert unwatched.cache.keep_pods(set())
    assert unwatched.cache.observe().nodes[A].foreign == NO_FOREIGN


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "cpu"])
@pytest.mark.parametrize("numbers", [{"cpus": 0.0, "memory_mib": 0}, {"cpus": 4.0126}, {"shared": True, "cpus": 3.0}])
def test_what_a_job_asks_for_is_no_foreign_use(resource: str, numbers: dict[str, Any]) -> None:
    assert OneNode({}, resource, **numbers).foreign("Running") == NO_FOREIGN


def test_what_a_template_asks_for_the_worker_itself_counts_where_the_job_asks_for_none() -> None:
    template = {"spec": {"containers": [{"name": "worker", "resources": {"requests": {"cpu": "3"}}}]}}
    assert OneNode(template, cpus=0.0).foreign("Running") == ForeignUse(0, 3.0, 0)
    assert OneNode(template, cpus=2.0).foreign("Running") == NO_FOREIGN


def test_where_slots_are_cpus_what_is_beside_the_worker_takes_slots() -> None:
    assert OneNode(BESIDE, "cpu").foreign("Running") == ForeignUse(2, 1.5, 4096)


@pytest.mark.parametrize(
    ("template", "cause"),
    [
        ({}, EndCause.NOT_ADMITTED),
        (BESIDE, None),
        ({"spec": {"containers": [{"name": "worker"}, {"name": "s", "resources": {"limits": {"cpu": 60}}}]}}, None),
    ],
)
def test_a_pod_whose_template_asks_for_more_is_to_blame_where_it_is_not_bound(
    template: dict[str, Any], cause: EndCause | None
) -> None:
    one = OneNode(template, settings={"names_image": "busybox:1"})
    one.foreign("Pending", None)
    unbound = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    one.pod["metadata"]["resourceVersion"] = "9"
    one.pod["status"] = {"phase": "Pending", "conditions": [unbound]}
    one.cache.put_pod(one.pod)
    assert one.cache.observe().workers[WorkerId("7-1")].cause is cause
