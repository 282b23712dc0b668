"""Pods of others that wait: which nodes they may have, and how many of them are looked at."""

from time import process_time
from typing import Any

import pytest

from scheduler.clusters.kubernetes.cache import ClusterCache
from scheduler.clusters.kubernetes.pending_pods import DEMANDS_MAX, RULES_MAX
from scheduler.clusters.kubernetes.pods import WorkerPods
from scheduler.config import KubernetesSettings
from scheduler.model.foreign import Demand
from scheduler.model.ids import NodeName

SECONDS_MAX = 5.0
UNBOUND = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def cluster(nodes: int) -> ClusterCache:
    """Nodes n0, n1, ... of which the first is in zone a, all others in zone b."""
    settings = KubernetesSettings()
    cache = ClusterCache(settings, WorkerPods(settings, b""), lambda: 0.0)
    for number in range(nodes):
        labels = {"zone": "b" if number else "a", **{f"label{each}": "x" for each in range(20)}}
        status = {"allocatable": {"nvidia.com/gpu": "8", "cpu": "64", "memory": "512Gi"}}
        cache.put_node({"metadata": {"name": f"n{number}", "labels": labels}, "status": status})
    return cache


def term(zone: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}


def demands(cache: ClusterCache, pods: list[list[dict[str, Any]]]) -> tuple[Demand, ...]:
    """The demands where these pods wait, by the terms of each; the later ones are the more important."""
    for number, terms in enumerate(pods):
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec = {
            "priority": 1 + number,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
            "affinity": {"nodeAffinity": required},
        }
        metadata = {"name": f"p{number}", "namespace": "web", "uid": str(number), "resourceVersion": "1"}
        cache.put_pod({"metadata": metadata, "spec": spec, "status": {"conditions": [UNBOUND]}})
    return cache.observe().demands


def test_the_most_important_of_many_are_demands_with_their_nodes() -> None:
    found = demands(cluster(2), [[term("b")], *[[term("a")]] * DEMANDS_MAX])
    assert [demand.name for demand in found] == [f"web/p{number}" for number in range(DEMANDS_MAX, 0, -1)]
    assert {demand.nodes for demand in found} == {frozenset({NodeName("n0")})}


def test_a_pod_that_names_more_rules_than_are_read_may_have_any_node() -> None:
    few, many = [term("a")], [term("a")] * RULES_MAX
    assert [demand.nodes for demand in demands(cluster(2), [many, few])] == [frozenset({NodeName("n0")}), None]


@pytest.mark.parametrize(
    "pods",
    [
        [[term("a")]] * 2000,
        [[term(f"zone{each}") for each in range(10_000)]],
        [[term(f"zone{pod}-{each}") for each in range(RULES_MAX // 3 - 1)] for pod in range(DEMANDS_MAX)],
    ],
    ids=["many-pods", "many-terms", "many-kinds"],
)
def test_no_pods_of_others_make_an_observation_last_for_seconds(pods: list[list[dict[str, Any]]]) -> None:
    cache, begun = cluster(500), process_time()
    assert demands(cache, pods)
    assert process_time() - begun < SECONDS_MAX
