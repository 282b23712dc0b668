"""Real training on a real Kubernetes cluster: two replicas of the daemon over PostgreSQL, workers as pods on two nodes.

The cluster is that of `KUBECONFIG`. What its nodes lose and get back is tried where `SCHED_TEST_KILL_NODE` and
`SCHED_TEST_START_NODE` name commands that take a node's name; an API server that goes away, where it is a process of
this machine, `SCHED_TEST_API_SERVER_PID`.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.clusters.kubernetes.api.custom_resource import GROUP, VERSION
from tests.clusters.kubernetes_desk import TestCluster, advertise, cluster_of
from tests.daemon import ROOT
from tests.e2e.kubernetes_site import (
    RESOURCE,
    SECONDS_MAX,
    SLOTS_PER_NODE,
    WORKER,
    Site,
    pod_template,
    process_of,
    role,
)
from tests.eventually import becomes, eventually

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.slow,
    pytest.mark.torch,
    pytest.mark.postgres,
]
#: Longer than it takes until nodes that nobody hears from are taken for lost.
OUTAGE_SECONDS = 20.0
KILLS = 4


@pytest.fixture(scope="module")
def cluster() -> Iterator[TestCluster]:
    kubeconfig = os.environ.get("KUBECONFIG")
    if not kubeconfig:
        pytest.skip("KUBECONFIG names no cluster")
    with cluster_of(Path(kubeconfig)) as cluster:
        for node in cluster.nodes:
            advertise(cluster.core, node, RESOURCE, SLOTS_PER_NODE)
        yield cluster
        for node in cluster.nodes:
            advertise(cluster.core, node, RESOURCE, 0)


@pytest.fixture
def site(tmp_path: Path, cluster: TestCluster, database: str) -> Iterator["Site"]:
    with ExitStack() as stack:
        site = Site(tmp_path, cluster, database)
        stack.callback(site.close)
        site.start()
        yield site
        site.leave_nothing()


@contextmanager
def api_server_away(pid: int) -> Iterator[None]:
    """It takes connections and answers nobody."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def node_command(name: str, node: str) -> None:
    command = os.environ.get(name)
    if not command:
        pytest.skip(f"{name} names no command")
    subprocess.run([*shlex.split(command), node], check=True, capture_output=True)


def test_a_job_grows_over_both_nodes_shrinks_for_an_important_one_and_grows_again(site: Site) -> None:
    low = site.submit("low", (1, 4))
    site.await_job(low, "RUNNING", 4)
    assert sorted(site.running_pods(low, 4).values()) == sorted(site.cluster.nodes * SLOTS_PER_NODE)
    high = site.submit("high", (2, 2), priority=9)
    site.await_job(high, "RUNNING", 2)
    site.await_job(low, "RUNNING", 2)
    site.post(f"/v1/jobs/{high}/cancel")
    site.await_job(high, "CANCELLED")
    site.await_job(low, "RUNNING", 4)
    site.no_failure(low)
    assert [event["cause"] for event in site.events(low, "JOB_SHRANK")] == ["PREEMPTED"]


def test_a_worker_that_crashes_is_replaced_and_the_job_goes_on(site: Site) -> None:
    job = site.submit("crash", (1, 2))
    site.await_job(job, "RUNNING", 2)
    victim = max(site.running_pods(job, 2))
    process_of(site, victim).send_signal(signal.SIGKILL)
    eventually(lambda: len(site.pods(job)) == 2 and victim not in site.pods(job), "it is not replaced", SECONDS_MAX)
    site.await_job(job, "RUNNING", 2)

    def causes() -> list[str]:
        return [event["cause"] for event in site.events(job, "WORKER_ENDED") if event["worker_id"] == victim]

    eventually(causes, "its end is not told", SECONDS_MAX)
    assert causes() == ["FAILED"]
    assert site.job(job)["retries_used"] == 1


def test_a_pod_that_somebody_deletes_is_replaced_and_costs_no_retry(site: Site) -> None:
    job = site.submit("removed", (1, 2))
    site.await_job(job, "RUNNING", 2)
    victim = max(site.running_pods(job, 2))
    (pod,) = (pod for pod in site.cluster.pods(site.kubernetes.instance) if pod.metadata.labels[WORKER] == victim)
    site.cluster.core.delete_namespaced_pod(pod.metadata.name, site.kubernetes.namespace)
    eventually(lambda: len(site.pods(job)) == 2 and victim not in site.pods(job), "it is not replaced", SECONDS_MAX)
    site.await_job(job, "RUNNING", 2)
    assert site.job(job)["retries_used"] == 0


def test_services_take_slots_and_give_them_back(site: Site) -> None:
    job = site.submit("train", (1, 4))
    site.await_job(job, "RUNNING", 4)
    slots = {RESOURCE: "1"}
    container = {
        "name": "web",
        "image": os.environ.get("SCHED_TEST_IMAGE", "docker.io/local/busybox:1"),
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sleep", "1000"],
        "resources": {"requests": slots, "limits": slots},
    }
    spec = {"hostNetwork": True, "terminationGracePeriodSeconds": 1, "containers": [container]}
    core, namespace = site.cluster.core, site.kubernetes.namespace
    services = ("web-1", "web-2")
    for name in services:
        core.create_namespaced_pod(namespace, {"metadata": {"name": name}, "spec": spec})

    def running() -> bool:
        return all(core.read_namespaced_pod(name, namespace).status.phase == "Running" for name in services)

    try:
        eventually(running, "the services do not run", SECONDS_MAX)
        site.await_job(job, "RUNNING", 2)
        assert {event["cause"] for event in site.events(job, "JOB_SHRANK")} == {"FOREIGN"}
        site.no_failure(job)
    finally:
        for name in services:
            core.delete_namespaced_pod(name, namespace)
    site.await_job(job, "RUNNING", 4)


def test_a_node_that_is_lost_and_comes_back(site: Site) -> None:
    if not os.environ.get("SCHED_TEST_KILL_NODE"):
        pytest.skip("SCHED_TEST_KILL_NODE names no command")
    job = site.submit("spread", (1, 4))
    site.await_job(job, "RUNNING", 4)
    lost = site.cluster.nodes[1]
    node_command("SCHED_TEST_KILL_NODE", lost)
    try:
        # What is out of reach is not gone, so that the job is being resized until the node is back.
        eventually(
            lambda: site.job(job)["members"] == 2, lambda: f"the others do not go on: {site.job(job)}", SECONDS_MAX
        )
        site.trained(job, beyond=site.trained(job))
    finally:
        node_command("SCHED_TEST_START_NODE", lost)
        advertise(site.cluster.core, lost, RESOURCE, SLOTS_PER_NODE)
    site.await_job(job, "RUNNING", 4)
    assert site.job(job)["retries_used"] == 0


def test_an_api_server_that_goes_away_for_a_while_costs_nothing(site: Site) -> None:
    pid = os.environ.get("SCHED_TEST_API_SERVER_PID")
    if not pid:
        pytest.skip("SCHED_TEST_API_SERVER_PID names no process")
    job = site.submit("steady", (1, 3))
    site.await_job(job, "RUNNING", 3)
    with api_server_away(int(pid)):
        back_at = time.monotonic() + OUTAGE_SECONDS
        waiting = site.submit("waiting", (1, 1), epochs=2, sample_seconds=0.001)
        eventually(lambda: "API server" in site.explained(waiting), lambda: site.explained(waiting), SECONDS_MAX)
        step = site.trained(job)
        eventually(lambda: time.monotonic() > back_at, "time stands still", SECONDS_MAX)
        site.trained(job, beyond=step)
        assert site.job(job)["members"] == 3
    site.await_job(waiting, "SUCCEEDED")
    # Nodes may have been taken for lost, since nobody could hear from them either.
    site.await_job(job, "RUNNING", 3)
    site.no_failure(job)
    assert site.job(waiting)["retries_used"] == 0
    site.trained(job, beyond=step)
    becomes(lambda: len(site.cluster.pods(site.kubernetes.instance)), 3, SECONDS_MAX)


def test_a_training_job_by_kubectl(site: Site, tmp_path: Path) -> None:
    spec = {
        "command": [sys.executable, str(ROOT / "examples" / "digits.py"), "--epochs", "3"],
        "runtime": "elastic",
        "workdir": str(ROOT),
        "env": {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        "minWorkers": 1,
        "maxWorkers": 2,
        "template": pod_template(site.checkpoints),
    }
    _succeed(site, tmp_path, spec)
    listed = _kubectl(site, "get", "trainingjobs")
    assert listed.split()[:3] == ["NAME", "PHASE", "WORKERS"]
    _kubectl(site, "delete", "tj", "mnist", "--timeout=300s")


def test_a_training_job_with_parameter_servers_by_kubectl(site: Site, tmp_path: Path) -> None:
    story = site.checkpoints / "story"
    command = [sys.executable, str(ROOT / "tests" / "servers.py"), str(story)]
    template = pod_template(site.checkpoints)
    server = {**template, "metadata": {"labels": {"part": "server"}}}
    spec = {
        "command": [*command, "10"],
        "minWorkers": 2,
        "maxWorkers": 2,
        "template": template,
        "fixedReplicas": {"replicas": 2, "command": [*command, "0"], "template": server},
    }
    status = _succeed(site, tmp_path, spec)
    assert story.read_text().splitlines() == ["done", "done", "down 20", "down 20"]
    assert (status["attempt"], status["fixedWorkers"]) == (1, 0)
    _kubectl(site, "delete", "tj", "mnist", "--timeout=300s")


def _succeed(site: Site, directory: Path, spec: dict[str, Any]) -> dict[str, Any]:
    """Apply a TrainingJob and wait for its end; its status then."""
    metadata = {"name": "mnist", "namespace": site.kubernetes.namespace}
    manifest = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "TrainingJob", "metadata": metadata, "spec": spec}
    path = directory / "job.yaml"
    path.write_text(yaml.safe_dump(manifest))
    _kubectl(site, "apply", "-f", str(path))

    def status() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(_kubectl(site, "get", "tj", "mnist", "-o", "json")).get("status") or {}
        return found

    eventually(lambda: status().get("phase") == "Succeeded", lambda: f"it does not end: {status()}", SECONDS_MAX)
    return status()


def _kubectl(site: Site, *words: str) -> str:
    kubectl = ["kubectl", f"--kubeconfig={site.cluster.kubeconfig}", "-n", site.kubernetes.namespace]
    return subprocess.run([*kubectl, *words], check=True, capture_output=True, text=True).stdout


def test_leaders_that_are_killed_harm_no_worker(site: Site) -> None:
    job = site.submit("steady", (2, 4))
    site.await_job(job, "RUNNING", 4)
    workers = site.running_pods(job, 4)
    longest = 0.0
    for _ in range(KILLS):
        leader = site.leader
        standby = next(each for each in site.replicas if each is not leader)
        leader.kill()
        began = time.monotonic()
        while role(standby) != "leader":
            answer = standby.client.get(f"/v1/jobs/{job}/discover_hosts")
            assert answer.status_code == 200, answer.text
            assert time.monotonic() - began < SECONDS_MAX
            time.sleep(0.02)
        longest = max(longest, time.monotonic() - began)
        leader.start()
    print(f"longest failover of {KILLS}: {longest:.2f} s")
    site.await_job(job, "RUNNING", 4)
    unharmed = "no worker was restarted, leaked or doubled"
    assert site.pods(job) == workers, (unharmed, site.events(job, "WORKER_ENDED"))
    site.no_failure(job)
