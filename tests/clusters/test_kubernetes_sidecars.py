"""The worker of a pod into which an admission webhook has put another container."""

import json
from typing import Any

import pytest

from scheduler.clusters.kubernetes.manifest import pod_manifest
from scheduler.clusters.kubernetes.pod_status import pod_state, worker_container
from scheduler.clusters.kubernetes.pods import CONTAINER, WorkerPods
from scheduler.config import KubernetesSettings
from scheduler.model.ids import NodeName
from scheduler.model.observation import Phase
from tests.clusters.desk import start_of

PROXY = {"name": "proxy", "image": "proxy:1"}


def pod_of(*containers: dict[str, Any]) -> dict[str, Any]:
    """The pod of a worker whose template has these containers."""
    settings = KubernetesSettings(image="x:1")
    start = start_of("7-1", NodeName("a"), (0,), ("train",), json.dumps({"spec": {"containers": list(containers)}}))
    owner = {"metadata": {"name": "o", "uid": "u"}}
    return pod_manifest(start, settings, owner, WorkerPods(settings, b"secret").seal)


@pytest.mark.parametrize(
    "containers", [[{"name": "train"}], [{"name": "train"}, {"name": "logs", "image": "x:1"}], [{"name": "worker"}], []]
)
def test_a_worker_that_ended_has_ended_although_a_proxy_that_was_put_before_it_runs(
    containers: list[dict[str, Any]],
) -> None:
    pod = pod_of(*containers)
    name = worker_container(pod)
    pod["spec"]["containers"].insert(0, PROXY)
    states = {"proxy": {"running": {}}, name: {"terminated": {"exitCode": 3}}}
    pod["status"] = {"phase": "Running", "containerStatuses": [{"name": n, "state": s} for n, s in states.items()]}
    assert worker_container(pod) == name
    state = pod_state(pod, {})
    assert (state.phase, state.exit_code) == (Phase.EXITED, 3)


def test_a_pod_that_does_not_say_which_container_is_its_workers_has_the_first_of_them() -> None:
    pod = pod_of({"name": "train"}, {"name": "logs", "image": "x:1"})
    for noted in ({}, {CONTAINER: "no-such"}):
        assert worker_container({**pod, "metadata": {**pod["metadata"], "annotations": noted}}) == "train"
