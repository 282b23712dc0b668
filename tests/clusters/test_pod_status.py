"""Who is to blame where a worker's pod cannot be bound: the cluster, or what its template asks of the node."""

from typing import Any

import pytest

from scheduler.clusters.kubernetes.nodes import NAME_LABEL
from scheduler.clusters.kubernetes.pod_status import pod_state
from scheduler.model.observation import EndCause

NODE = {NAME_LABEL: "a", "kubernetes.io/os": "linux", "disk": "ssd"}
UNBOUND = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}
PINNED = {"key": "metadata.name", "operator": "In", "values": ["a"]}


def cause(labels: dict[str, str], selector: dict[str, str], *expressions: dict[str, Any]) -> EndCause | None:
    """The cause of a pod that was sent to node `a`."""
    term = {"matchFields": [PINNED], "matchExpressions": [*expressions]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    spec = {"containers": [{"name": "worker"}], "nodeSelector": selector, "affinity": {"nodeAffinity": required}}
    status = {"phase": "Pending", "conditions": [UNBOUND]}
    state = pod_state({"metadata": {"name": "p"}, "spec": spec, "status": status}, labels)
    assert state.blocked
    return state.cause


@pytest.mark.parametrize("selector", [{}, {"kubernetes.io/os": "linux"}, {"disk": "ssd", "kubernetes.io/os": "linux"}])
def test_terms_that_the_node_meets_are_not_why_a_pod_is_not_bound(selector: dict[str, str]) -> None:
    assert cause(NODE, selector) is EndCause.NOT_ADMITTED
    has_disk = {"key": "disk", "operator": "In", "values": ["nvme", "ssd"]}
    assert cause(NODE, selector, has_disk) is EndCause.NOT_ADMITTED


def test_terms_that_the_node_does_not_meet_are_why_a_pod_is_not_bound() -> None:
    assert cause(NODE, {"disk": "nvme"}) is None
    assert cause(NODE, {}, {"key": "disk", "operator": "NotIn", "values": ["ssd"]}) is None


def test_of_a_node_that_is_not_known_only_the_name_counts() -> None:
    assert cause({NAME_LABEL: "a"}, {}) is EndCause.NOT_ADMITTED
    assert cause({NAME_LABEL: "a"}, {"kubernetes.io/os": "linux"}) is None


def test_what_a_program_ended_with_is_told_in_printable_characters() -> None:
    message = "Error: header\x00\x1b[31m bad\nfile\u2028"
    ended = {"exitCode": 1, "reason": "Error", "message": message}
    pod = {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "worker"}]},
        "status": {"phase": "Failed", "containerStatuses": [{"name": "worker", "state": {"terminated": ended}}]},
    }
    state = pod_state(pod, NODE)
    assert "header [31m bad file" in state.detail
    assert state.detail.isprintable()
