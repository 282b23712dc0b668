"""Two namespaces of a real cluster, each a member of a queue: half each when both want all, and nobody is stopped."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clusters.kubernetes_desk import RESOURCE, TestCluster, advertise, cluster_of
from tests.eventually import becomes
from tests.security.tenants import Tenant, Tenants, two_tenants, worker

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]

SLOTS_PER_NODE = 3
#: Works until it is asked to leave, which it then does at once.
SCRIPT = "trap 'exit 0' TERM; while :; do sleep 0.2; done"
SECONDS_MAX = 300.0


@pytest.fixture
def where() -> Iterator[TestCluster]:
    kubeconfig = os.environ.get("KUBECONFIG")
    if not kubeconfig:
        pytest.skip("KUBECONFIG names no cluster")
    with cluster_of(Path(kubeconfig)) as cluster:
        for node in cluster.nodes:
            advertise(cluster.core, node, RESOURCE, SLOTS_PER_NODE)
        yield cluster
        for node in cluster.nodes:
            advertise(cluster.core, node, RESOURCE, 0)


def running(tenant: Tenant) -> int:
    """Pods of the tenant that work, and were not asked to leave."""
    pods = (pod for pod in tenant.pods() if pod.metadata.deletion_timestamp is None)
    return sum(pod.status.phase == "Running" for pod in pods)


def test_two_namespaces_have_half_each_and_the_one_that_stays_has_all_again(where: TestCluster, tmp_path: Path) -> None:
    slots = SLOTS_PER_NODE * len(where.nodes)
    with two_tenants(where, tmp_path) as tenants:
        queues = {"ann": tenants.ann, "bob": tenants.bob}
        for path, tenant in queues.items():
            queue = {"path": path, "members": [f"@namespace:{tenant.namespace}"]}
            assert tenants.daemon.client.post("/v1/queues", json=queue).status_code == 201
        submit(tenants.ann, "long", slots)
        becomes(lambda: running(tenants.ann), slots, SECONDS_MAX)
        submit(tenants.bob, "long", slots)
        becomes(lambda: (running(tenants.ann), running(tenants.bob)), (slots // 2, slots // 2), SECONDS_MAX)
        assert {job["queue"] for job in jobs(tenants)} == {"ann", "bob"}
        tenants.bob.delete("long")
        becomes(lambda: (running(tenants.ann), running(tenants.bob)), (slots, 0), SECONDS_MAX)
        [ann] = [job for job in jobs(tenants) if job["queue"] == "ann"]
        assert (ann["state"], ann["attempt"]) == ("RUNNING", 1)
        events = tenants.daemon.client.get("/v1/events", params={"limit": 1000}).json()["events"]
        assert not [event for event in events if event["job_id"] == ann["id"] and "STOP" in event["kind"]]


def submit(tenant: Tenant, name: str, slots: int) -> None:
    """An elastic job that could use all slots."""
    tenant.submit(name, worker(), SCRIPT, minWorkers=1, maxWorkers=slots)


def jobs(tenants: Tenants) -> list[dict[str, object]]:
    found: list[dict[str, object]] = tenants.daemon.client.get("/v1/jobs").json()["jobs"]
    return found
