"""What is known of nodes, of pods while they are listed, and that of pods that are gone nothing is."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from scheduler.clusters.kubernetes.cache import ClusterCache
from scheduler.clusters.kubernetes.manifest import pod_manifest
from scheduler.clusters.kubernetes.pods import WorkerPods
from scheduler.config import KubernetesSettings
from scheduler.model.ids import NodeName, WorkerId
from scheduler.model.observation import EndCause
from tests.clusters.desk import start_of

SETTINGS = KubernetesSettings(image="x:1")
PODS = WorkerPods(SETTINGS, b"secret")


@pytest.fixture
def cache() -> ClusterCache:
    cache = ClusterCache(SETTINGS, PODS, lambda: 0.0)
    ready = {"type": "Ready", "status": "True"}
    cache.put_node({"metadata": {"name": "a"}, "status": {"conditions": [ready]}})
    return cache


@pytest.fixture
def pods() -> Iterator[dict[str, Any]]:
    """Pods of workers, one after the other, as they are made."""
    return map(_pod, count(1))


def _pod(number: int) -> dict[str, Any]:
    start = start_of(f"7-{number}", NodeName("a"), (0,), ("train",))
    pod = pod_manifest(start, SETTINGS, {"metadata": {"name": "o", "uid": "u"}}, PODS.seal)
    pod["metadata"] |= {"uid": str(number), "resourceVersion": str(number)}
    return pod


def test_the_host_of_a_node_with_two_addresses_is_its_main_one(cache: ClusterCache) -> None:
    addresses = [{"type": "InternalIP", "address": address} for address in ("10.1.2.3", "fd00::3")]
    cache.put_node({"metadata": {"name": "b"}, "status": {"addresses": addresses}})
    assert cache.observe().nodes[NodeName("b")].host == "10.1.2.3"


def test_a_pod_that_is_made_while_pods_are_listed_is_there_although_the_list_does_not_have_it(
    cache: ClusterCache, pods: Iterator[dict[str, Any]]
) -> None:
    cache.put_pod(next(pods), answered=True)
    cache.begin_pods()
    cache.put_pod(next(pods), answered=True)
    cache.keep_pods(frozenset())
    assert [str(worker) for worker, seen in cache.observe().workers.items() if seen.alive] == ["7-2"]
    cache.begin_pods()
    cache.keep_pods(frozenset())
    assert not any(seen.alive for seen in cache.observe().workers.values())


def test_a_worker_that_was_forgotten_while_pods_are_listed_does_not_come_back(
    cache: ClusterCache, pods: Iterator[dict[str, Any]]
) -> None:
    pod = next(pods)
    cache.begin_pods()
    cache.put_pod(pod, answered=True)
    cache.forget(WorkerId("7-1"))
    cache.keep_pods(frozenset())
    pod["metadata"]["resourceVersion"] = "2"
    cache.put_pod(pod)
    assert not cache.observe().workers


@pytest.mark.parametrize("told_late", [False, True])
@pytest.mark.parametrize("listed", [False, True])
def test_of_a_pod_that_is_gone_nothing_is_remembered(
    cache: ClusterCache, pods: Iterator[dict[str, Any]], told_late: bool, listed: bool
) -> None:
    pod, worker = next(pods), WorkerId("7-1")
    cache.begin_pods()
    cache.keep_pods(frozenset())
    cache.put_pod(pod, answered=True)
    if not told_late:
        cache.displace("1")
    if listed:
        cache.keep_pods(frozenset())
    else:
        cache.remove_pod(pod)
    if told_late:
        cache.displace("1")
    assert listed or cache.observe().workers[worker].cause is EndCause.DISPLACED
    cache.forget(worker)
    assert not cache.observe().workers
    assert not any((cache._answered, cache._displaced, cache._forgotten, cache._of_pod))
