"""Where workers in pods are told to find each other."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clusters.control_plane import ControlPlane
from tests.clusters.control_plane_daemon import Site, site_of

pytestmark = pytest.mark.kubernetes


@pytest.fixture
def site(plane: ControlPlane, tmp_path: Path) -> Iterator[Site]:
    with site_of(plane, tmp_path) as site:
        yield site


def started(site: Site, template: dict[str, Any] | None = None) -> tuple[list[Any], list[str]]:
    """The pods of a job with two workers that runs, and the hosts that it is told."""
    job = site.submit(min_workers=2, max_workers=2, pod_template=template)
    names = [site.pod_of(job, ordinal) for ordinal in (1, 2)]
    for name in names:
        site.launch(name)
    site.runs(job)
    hosts = site.daemon.client.get(f"/v1/jobs/{job}/discover_hosts").text.splitlines()
    return [site.plane.core.read_namespaced_pod(name, site.namespace) for name in names], hosts


def variables(pod: Any) -> dict[str, str]:
    return {each.name: each.value for each in pod.spec.containers[0].env}


def test_pods_with_addresses_of_their_own_are_reached_by_the_names_of_a_headless_service(site: Site) -> None:
    pods, hosts = started(site)
    named = [f"{pod.spec.hostname}.{pod.spec.subdomain}.{site.namespace}.svc" for pod in pods]
    assert hosts == [f"{name}:1" for name in named]
    for rank, pod in enumerate(pods):
        seen = variables(pod)
        assert seen["MASTER_ADDR"] == named[0]
        assert (seen["RANK"], seen["WORLD_SIZE"]) == (str(rank), "2")
    service = site.plane.core.read_namespaced_service(pods[0].spec.subdomain, site.namespace)
    assert (service.spec.cluster_ip, service.spec.publish_not_ready_addresses) == ("None", True)
    assert service.spec.selector.items() <= pods[0].metadata.labels.items()
    owner = site.plane.core.read_namespaced_config_map("sched-workers", site.namespace)
    assert [each.uid for each in service.metadata.owner_references] == [owner.metadata.uid]


def test_pods_on_the_network_of_their_node_are_reached_there(plane: ControlPlane, tmp_path: Path) -> None:
    with site_of(plane, tmp_path, trust_templates=True) as site:
        pods, hosts = started(site, {"spec": {"hostNetwork": True}})
    assert hosts == ["10.1.2.3:2"]
    assert [variables(pod)["MASTER_ADDR"] for pod in pods] == ["10.1.2.3", "10.1.2.3"]
    assert [pod.spec.hostname for pod in pods] == [None, None]


def test_a_fixed_group_listens_where_its_pods_are_reached(site: Site) -> None:
    job = site.submit(fixed={"replicas": 1, "command": ["serve"]})
    name = site.pod_of(job, 1)
    site.launch(name)
    pod = site.plane.core.read_namespaced_pod(site.pod_of(job, 2), site.namespace)
    host, _, port = variables(pod)["SCHED_FIXED_HOSTS"].rpartition(":")
    assert host == f"{name}.sched-workers.{site.namespace}.svc"
    assert int(port) > 0
