"""What only a real cluster shows: what runs in a pod, and what is left of it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kubernetes.client.exceptions import ApiException

from scheduler.model.ids import NodeName, WorkerId
from scheduler.model.observation import EndCause, Phase
from tests.clusters.desk import Manner
from tests.clusters.kubernetes_desk import IMAGE, TEMPLATE, KubernetesDesk, TestCluster

pytestmark = pytest.mark.kubernetes

W = WorkerId("7-1")


@pytest.fixture
def desk(kubernetes: TestCluster, tmp_path: Path) -> Iterator[KubernetesDesk]:
    desk = KubernetesDesk(kubernetes, tmp_path, launch_limit_seconds=3.0)
    yield desk
    desk.close()


def shell(desk: KubernetesDesk, script: str, **changes: object) -> None:
    start = replace(desk.action("7-1", 0), command=("sh", "-c", script))
    assert not desk.apply(replace(start, **changes))  # type: ignore[arg-type]


def test_a_worker_runs_on_its_node_with_its_variables_and_its_log_outlives_its_pod(desk: KubernetesDesk) -> None:
    node = desk.where.nodes[1]
    shell(desk, 'echo "$GREETING"; pwd; echo end >&2; exit 3', node=node, workdir="/tmp")
    assert desk.ended("7-1").exit_code == 3
    (pod,) = desk.where.pods(desk.settings.instance)
    assert pod.spec.node_name == node
    logs = desk.kubernetes.logs
    log, _ = logs.read(W)
    # The two streams of a container reach its log each by itself.
    assert log in (b"hello\n/tmp\nend\n", b"hello\nend\n/tmp\n", b"end\nhello\n/tmp\n")
    assert not desk.forget("7-1")
    assert not desk.where.pods(desk.settings.instance)
    assert logs.read(W) == (log, 15)
    assert logs.read(W, -4) == (log[-4:], 15)
    assert logs.read(W, 6, 5) == (log[6:11], 11)


def test_the_directory_for_checkpoints_is_there_when_a_worker_starts_and_is_on_the_volume(desk: KubernetesDesk) -> None:
    directory = "/checkpoints/7-abc/checkpoint"
    template = json.loads(TEMPLATE)
    template["spec"]["volumes"] = [{"name": "work", "emptyDir": {}}]
    template["spec"]["containers"][0]["volumeMounts"] = [
        {"name": "work", "mountPath": "/checkpoints"},
        {"name": "work", "mountPath": "/data"},
    ]
    env = (("SCHED_CHECKPOINT_DIR", directory),)
    script = 'echo 7 > "$SCHED_CHECKPOINT_DIR/step"; cat /checkpoints/7-abc/checkpoint/step /data/7-abc/checkpoint/step'
    shell(desk, script, env=env, pod_template=json.dumps(template))
    assert desk.ended("7-1").exit_code == 0
    assert desk.output("7-1") == b"7\n7\n"


def test_a_worker_that_uses_more_memory_than_it_may_was_out_of_memory(desk: KubernetesDesk) -> None:
    shell(desk, "x=0123456789abcdef; while :; do x=$x$x; done")
    seen = desk.ended("7-1")
    assert (seen.phase, seen.exit_code, seen.cause) == (Phase.EXITED, 137, EndCause.OUT_OF_MEMORY)


def test_a_worker_that_somebody_deletes_was_removed(desk: KubernetesDesk) -> None:
    desk.start("7-1", Manner.STUBBORN)
    desk.running("7-1")
    (pod,) = desk.where.pods(desk.settings.instance)
    desk.where.core.delete_namespaced_pod(pod.metadata.name, desk.where.namespace, grace_period_seconds=1)
    assert desk.ended("7-1").cause is EndCause.REMOVED


def test_a_pod_with_an_address_of_its_own_has_its_name_in_the_service_before_it_is_ready(desk: KubernetesDesk) -> None:
    core, namespace, ghost = desk.where.core, desk.where.namespace, NodeName("ghost")
    core.create_node({"metadata": {"name": ghost}})  # no pod has a network of its own on the nodes of every cluster
    try:
        desk.wait(lambda: ghost in desk.cluster.observe().nodes)
        template = {"spec": {"containers": [{"name": "worker", "image": IMAGE}]}}
        shell(desk, "exit 0", node=ghost, pod_template=json.dumps(template))
        (pod,) = desk.where.pods(desk.settings.instance)
        target = {"apiVersion": "v1", "kind": "Node", "name": ghost}
        body = {"metadata": {"name": pod.metadata.name}, "target": target}
        core.create_namespaced_pod_binding(pod.metadata.name, namespace, body, _preload_content=False)
        status = {"phase": "Running", "podIP": "10.77.0.1", "podIPs": [{"ip": "10.77.0.1"}]}
        core.patch_namespaced_pod_status(pod.metadata.name, namespace, {"status": status})
        desk.wait(lambda: _addresses(desk, pod.spec.subdomain) == [("10.77.0.1", pod.spec.hostname)])
    finally:
        for pod in desk.where.pods(desk.settings.instance):
            core.delete_namespaced_pod(pod.metadata.name, namespace, body={"gracePeriodSeconds": 0})
        core.delete_node(ghost)


def _addresses(desk: KubernetesDesk, service: str) -> list[tuple[str, str]]:
    """Address and name of each, as the cluster's own controller has put them together."""
    try:
        found = desk.where.core.read_namespaced_endpoints(service, desk.where.namespace)
    except ApiException:
        return []  # it has not put any together yet
    subsets = found.subsets or ()
    return [(each.ip, each.hostname) for part in subsets for each in part.addresses or ()]


def test_who_finds_no_room_or_no_image_says_why_and_is_stuck_after_the_limit(desk: KubernetesDesk) -> None:
    template = json.loads(TEMPLATE)
    template["spec"]["containers"][0] |= {"image": "no-such:1", "imagePullPolicy": "Never"}
    shell(desk, "exit 0", pod_template=json.dumps(template))
    too_large = replace(desk.action("8-1", 0), slot_ids=tuple(range(1000)))
    assert not desk.apply(too_large)
    # Until its status says so, events of a pod may say it in other words.
    seen = desk.until(
        lambda workers: (
            workers[W].detail.startswith("ErrImageNeverPull: ")
            and workers[WorkerId("8-1")].detail.startswith("Unschedulable: ")
        )
    )
    assert "Insufficient scheduler.test/slot" in seen[WorkerId("8-1")].detail
    desk.wait(lambda: all(worker.stuck for worker in desk.workers().values()))
    desk.stop("8-1", 0.0)
    assert desk.ended("8-1").exit_code is None
