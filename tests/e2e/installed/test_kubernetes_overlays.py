"""The overlays whose slots are GPUs: each installed by one command, token and database from secrets, and removed."""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import httpx
import psutil
import pytest

from tests.clusters.kubernetes_desk import advertise
from tests.e2e.installed.conftest import images_of
from tests.e2e.installed.installation import EPOCHS, SYSTEM, Installation, goes_on, names, nodes_of
from tests.eventually import eventually
from tests.postgres import missing_reason, running_server

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow, pytest.mark.torch]

GPU = "nvidia.com/gpu"
GPUS_PER_NODE = 2
SECONDS_MAX = 300.0


@pytest.fixture(scope="module")
def gpus(cluster: Installation) -> Iterator[Installation]:
    """The cluster, with GPUs that its kubelets know nothing of."""
    nodes = [node.metadata.name for node in cluster.core.list_node().items]
    for node in nodes:
        advertise(cluster.core, node, GPU, GPUS_PER_NODE)
    yield cluster
    for node in nodes:
        advertise(cluster.core, node, GPU, 0)


def test_sqlite_single_trains_on_the_gpus_of_both_nodes(gpus: Installation) -> None:
    with installed(gpus, "sqlite-single"):
        assert len(gpus.daemons()) == 1
        trains(gpus)


def test_postgres_brings_a_database_and_goes_on_when_the_leaders_pod_is_deleted(gpus: Installation) -> None:
    for node in gpus.core.list_node().items:
        if "postgres" not in images_of(node):
            pytest.skip(f"node {node.metadata.name} has no image postgres")
    password = secrets.token_hex(16)
    url = f"postgresql+psycopg://sched:{password}@sched-postgres:5432/sched"
    with installed(gpus, "postgres", {"url": url, "password": password}):
        goes_on_without_its_leader(gpus)


def test_postgres_external_goes_on_when_the_leaders_pod_is_deleted(gpus: Installation) -> None:
    with database(gpus) as url, installed(gpus, "postgres-external", {"url": url}):
        goes_on_without_its_leader(gpus)


@contextmanager
def installed(cluster: Installation, overlay: str, database: Mapping[str, str] | None = None) -> Iterator[None]:
    try:
        cluster.install(overlay, database)
        yield
    finally:
        cluster.remove(overlay)


@contextmanager
def database(cluster: Installation) -> Iterator[str]:
    """The URL of a PostgreSQL on this machine, which pods reach where it is the machine of the nodes."""
    if reason := missing_reason():
        pytest.skip(reason)
    own = {address.address for each in psutil.net_if_addrs().values() for address in each}
    told = [address for node in cluster.core.list_node().items for address in node.status.addresses]
    here = [each.address for each in told if each.type == "InternalIP" and each.address in own]
    if not here:
        pytest.skip("the nodes are not on this machine, where a PostgreSQL could be started")
    with running_server(listen_address=here[0]) as server:
        yield server.make_role("sched", secrets.token_hex(16))


def trains(cluster: Installation) -> None:
    cluster.train("gpus", (4, 4), epochs=2, slotsPerWorker=1)
    cluster.await_phase("gpus", "Running", workers=4)
    assert len(nodes_of(cluster.await_workers("gpus", 4))) == 2
    assert cluster.await_phase("gpus", "Succeeded")["attempt"] == 1


def goes_on_without_its_leader(cluster: Installation) -> None:
    """Neither the end of a leader nor an upgrade of both replicas is noticed by a training."""
    (leader,) = leaders(cluster)
    cluster.train("kept", (2, 4), EPOCHS)
    cluster.await_phase("kept", "Running", workers=4)
    workers = names(cluster.await_workers("kept", 4))
    cluster.kubectl("-n", SYSTEM, "delete", "pod", leader)
    (successor,) = leaders(cluster)
    assert successor != leader
    cluster.await_rollout()
    cluster.kubectl("-n", SYSTEM, "rollout", "restart", "deployment/sched")
    cluster.await_rollout()
    (upgraded,) = leaders(cluster)
    assert upgraded not in (leader, successor)
    with cluster.forwarded(f"pod/{upgraded}") as users:
        goes_on(users, "kept")
    status = cluster.await_phase("kept", "Running", workers=4)
    assert (names(cluster.workers("kept")), status["attempt"]) == (workers, 1)


def leaders(cluster: Installation) -> list[str]:
    """The replica that leads, once there is one."""

    def leading() -> list[str]:
        return [pod for pod in sorted(names(cluster.daemons())) if role(cluster, pod) == "leader"]

    return eventually(leading, "nobody leads", SECONDS_MAX)


def role(cluster: Installation, pod: str) -> str | None:
    with cluster.forwarded(f"pod/{pod}") as users:
        try:
            answer = users.get("/readyz")
        except httpx.TransportError:  # it is gone meanwhile
            return None
    return str(answer.json()["role"]) if answer.status_code == httpx.codes.OK else None
