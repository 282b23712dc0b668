"""Two namespaces of a real cluster, each a member of a queue: half each when both want all, and nobody is stopped.

Both train for real, with the settings as shipped.
"""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clusters.kubernetes_desk import RESOURCE, TestCluster, advertise, cluster_of
from tests.daemon import ROOT
from tests.e2e.kubernetes_site import pod_template
from tests.eventually import becomes
from tests.security.tenants import Tenant, Tenants, two_tenants

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow, pytest.mark.torch]

SLOTS = 8
EPOCHS = 14
#: What a worker exits with that left at the end of a step because it was asked to.
EXIT_DRAINED = 64
#: Runs a command, hands SIGTERM on to it, and notes its exit code in a folder: who is killed notes none.
NOTED = """
trap 'kill -TERM $child' TERM
"$@" & child=$!
while wait $child; code=$?; kill -0 $child 2>/dev/null; do :; done
echo $code > "$ENDS/$SCHED_WORKER_ID"
"""
SECONDS_MAX = 300.0


@pytest.fixture
def where() -> Iterator[TestCluster]:
    """A cluster whose nodes have the slots between them."""
    kubeconfig = os.environ.get("KUBECONFIG")
    if not kubeconfig:
        pytest.skip("KUBECONFIG names no cluster")
    with cluster_of(Path(kubeconfig)) as cluster:
        for place, node in enumerate(cluster.nodes):
            advertise(cluster.core, node, RESOURCE, SLOTS // 2 if place < 2 else 0)
        yield cluster
        for node in cluster.nodes:
            advertise(cluster.core, node, RESOURCE, 0)


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder that the pods of the trainings see."""
    (tmp_path / "shared" / "ends").mkdir(parents=True)
    (tmp_path / "shared" / "slow").touch()
    return tmp_path / "shared"


def test_two_namespaces_have_half_each_and_the_one_that_stays_has_all_again(
    where: TestCluster, tmp_path: Path, shared: Path
) -> None:
    with two_tenants(where, tmp_path, trusted=True) as tenants:
        ann, bob = tenants.ann, tenants.bob
        for path, tenant in {"ann": ann, "bob": bob}.items():
            queue = {"path": path, "members": [f"@namespace:{tenant.namespace}"]}
            assert tenants.daemon.client.post("/v1/queues", json=queue).status_code == 201
        train(ann, shared)
        has(tenants, ann=SLOTS)
        train(bob, shared)
        has(tenants, ann=SLOTS // 2, bob=SLOTS // 2)
        bob.delete("train")
        has(tenants, ann=SLOTS)
        (shared / "slow").unlink()
        job = ann.reaches("train", "Succeeded")["jobId"]
        never_stopped(tenants, job, shared / "ends")


def has(tenants: Tenants, **wanted: int) -> None:
    """Wait until jobs of these queues train with these numbers of workers, all others have none, and their pods run."""
    by_queue = {queue: ("RUNNING", size) for queue, size in wanted.items()}

    def seen() -> dict[str, tuple[str, int]]:
        jobs = tenants.daemon.client.get("/v1/jobs", params={"active": "true"}).json()["jobs"]
        return {job["queue"]: (job["state"], job["workers"]) for job in jobs}

    becomes(seen, by_queue, SECONDS_MAX)
    pods = (wanted.get("ann", 0), wanted.get("bob", 0))
    becomes(lambda: (running(tenants.ann), running(tenants.bob)), pods, SECONDS_MAX)


def never_stopped(tenants: Tenants, job: int, ends: Path) -> None:
    """The training shrank, all who left did so by themselves, and each epoch had every sample once."""
    read = tenants.daemon.client.get
    view: dict[str, Any] = read(f"/v1/jobs/{job}").json()
    assert (view["queue"], view["attempt"], view["retries_used"]) == ("ann", 1, 0)
    events = read("/v1/events", params={"job": job, "limit": 1000}).json()["events"]
    kinds = Counter(event["kind"] for event in events)
    assert not kinds["JOB_STOPPING"] + kinds["JOB_REQUEUED"] + kinds["WORKER_REPLACED"], kinds
    # Where the machine has other work, the training may find that more workers make it no faster, and try them again.
    causes = {event["cause"] for event in events if event["kind"] == "JOB_SHRANK"}
    assert "RECLAIMED" in causes <= {"RECLAIMED", "NO_GAIN"}
    workers = read(f"/v1/jobs/{job}/workers").json()["workers"]
    codes = {worker["id"]: EXIT_DRAINED if worker["leave_reason"] else 0 for worker in workers}
    ended = Counter(codes.values())
    assert ended[0] <= SLOTS
    assert ended[EXIT_DRAINED] >= SLOTS // 2
    assert {path.name: int(path.read_text()) for path in ends.glob(f"{job}-*")} == codes
    text = "".join(read(f"/v1/jobs/{job}/logs", params={"worker": worker}).text for worker in codes)
    assert text.count("every sample seen exactly once") == EPOCHS


def running(tenant: Tenant) -> int:
    """Pods of the tenant that work, and were not asked to leave."""
    pods = (pod for pod in tenant.pods() if pod.metadata.deletion_timestamp is None)
    return sum(pod.status.phase == "Running" for pod in pods)


def train(tenant: Tenant, shared: Path) -> None:
    """An elastic training that could use all slots, slow until `slow` is gone; it fails if it misses a sample."""
    script = [str(ROOT / "tests" / "elastic" / "training.py"), "--step-seconds", "0.25", "--epochs", str(EPOCHS)]
    tenant.submit(
        "train",
        pod_template(shared),
        command=["sh", "-c", NOTED, "sh", sys.executable, *script, str(shared / "slow")],
        runtime="elastic",
        env={"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "ENDS": str(shared / "ends")},
        minWorkers=1,
        maxWorkers=SLOTS,
    )
