"""Workers as pods: how they are made, and what their status says of how they run and end."""

import json
import math
from typing import Any

import pytest

from scheduler.engine.ports import ForgetWorker, StopWorker
from scheduler.model.ids import NodeName
from scheduler.model.observation import EndCause, Phase
from tests.clusters.control_plane import RESOURCE, ControlPlane
from tests.clusters.control_plane_cluster import END, POD, UNBOUND, Site, W
from tests.clusters.desk import GRACE_SECONDS

pytestmark = pytest.mark.kubernetes
_APART = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}


def test_a_worker_is_a_pod_that_only_its_node_will_do_for(site: Site) -> None:
    site.start()
    (pod,) = site.pods()
    assert pod.spec.node_name is None
    (term,) = pod.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution.node_selector_terms
    (field,) = term.match_fields
    assert (field.key, field.operator, field.values) == ("metadata.name", "In", ["a"])
    labels = {key.rpartition("/")[2]: value for key, value in pod.metadata.labels.items()}
    assert (labels["instance"], labels["job"], labels["worker"], labels["generation"]) == ("sched", "7", "7-1", "3")
    (container,) = pod.spec.containers
    assert container.resources.limits == {RESOURCE: "2", "memory": "32Mi"}
    assert container.resources.requests == {RESOURCE: "2", "memory": "32Mi", "cpu": "10m"}
    assert (pod.spec.restart_policy, pod.spec.termination_grace_period_seconds) == ("Never", GRACE_SECONDS)


def test_whoever_deletes_the_owner_deletes_the_workers(site: Site) -> None:
    site.start()
    owner = site.plane.core.read_namespaced_config_map("sched-workers", site.namespace)
    assert [each.uid for each in site.pods()[0].metadata.owner_references] == [owner.metadata.uid]
    site.plane.core.delete_namespaced_config_map("sched-workers", site.namespace)
    site.start("8-1")
    newer = site.plane.core.read_namespaced_config_map("sched-workers", site.namespace)
    pod = site.plane.core.read_namespaced_pod("sched-8-1", site.namespace)
    assert [each.uid for each in pod.metadata.owner_references] == [newer.metadata.uid]
    assert newer.metadata.uid != owner.metadata.uid


def test_two_daemons_that_start_the_same_worker_make_one_pod(site: Site) -> None:
    other = site.connect()
    site.start()
    assert not other.apply([site.action()], math.inf)
    assert len(site.pods()) == 1
    assert W in other.observe().workers


def test_a_pod_of_that_name_that_is_somebody_elses_is_left_alone(site: Site) -> None:
    site.plane.pod(site.namespace, POD, {}, {})
    (failure,) = site.apply(site.action())
    assert "not a worker of sched" in failure.error
    assert not site.apply(StopWorker(W, NodeName("a"), 0.0))
    assert len(site.pods()) == 1


def test_a_pod_that_the_api_refuses_is_not_tried_again(site: Site) -> None:
    site.start(pod_template='{"spec":{"dnsPolicy":"Bogus"}}')
    seen = site.cluster.observe().workers[W]
    assert (seen.phase, seen.cause) == (Phase.LAUNCH_FAILED, EndCause.CANNOT_START)
    assert 'spec.dnsPolicy: Unsupported value: "Bogus"' in seen.detail
    assert not site.apply(ForgetWorker(W, NodeName("a")))
    assert not site.cluster.observe().workers


_OWN_LIMIT = "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi."


@pytest.mark.parametrize(
    ("status", "phase", "code", "cause", "detail"),
    [
        ({"terminated": {"exitCode": 3, **END}}, Phase.EXITED, 3, None, ""),
        (
            {"terminated": {"exitCode": 137, "reason": "OOMKilled", **END}},
            Phase.EXITED,
            137,
            EndCause.OUT_OF_MEMORY,
            "OOMKilled",
        ),
        (
            {"terminated": {"exitCode": 128, "reason": "StartError", "message": "no such file", **END}},
            Phase.LAUNCH_FAILED,
            None,
            None,
            "StartError: no such file",
        ),
        (
            {"terminated": {"exitCode": 255, "reason": "Unknown"}},
            Phase.LOST,
            None,
            None,
            "its node did not report how it ended",
        ),
    ],
)
def test_what_a_container_ended_with(
    site: Site, status: Any, phase: Phase, code: int | None, cause: EndCause | None, detail: str
) -> None:
    site.run()
    site.plane.container(site.namespace, POD, "Failed", **status)
    seen = site.worker(lambda seen: not seen.alive)
    assert (seen.phase, seen.exit_code, seen.cause, seen.detail) == (phase, code, cause, detail)


@pytest.mark.parametrize(
    ("reason", "message", "code", "cause"),
    [
        ("Evicted", "The node was low on resource: memory.", None, EndCause.EVICTED),
        ("Evicted", _OWN_LIMIT, 137, None),
        ("Preempting", "Preempted in order to admit critical pod", None, EndCause.DISPLACED),
        ("OutOfnvidia.com/gpu", "Pod Node didn't have enough resource", None, EndCause.NOT_ADMITTED),
        ("UnexpectedAdmissionError", "no healthy devices present", None, EndCause.NOT_ADMITTED),
        ("TopologyAffinityError", "Resources cannot be allocated", None, EndCause.NOT_ADMITTED),
        ("NodeShutdown", "Pod was rejected as the node is shutting down.", None, EndCause.EVICTED),
    ],
)
def test_what_a_node_ended_a_whole_pod_for(
    site: Site, reason: str, message: str, code: int | None, cause: EndCause | None
) -> None:
    site.run()
    site.plane.report(site.namespace, POD, phase="Failed", reason=reason, message=message, containerStatuses=[])
    seen = site.worker(lambda seen: not seen.alive)
    assert (seen.phase, seen.exit_code, seen.cause) == (Phase.EXITED, code, cause)
    assert seen.detail == f"{reason}: {message}"


def test_a_worker_that_ends_beside_a_sidecar_has_ended(site: Site) -> None:
    sidecar = '{"spec":{"containers":[{"name":"worker"},{"name":"logs","image":"image:1"}]}}'
    site.start(pod_template=sidecar)
    site.plane.bind(site.namespace, POD, "a")
    site.plane.container(site.namespace, POD, "Running", terminated={"exitCode": 0, **END})
    assert site.worker(lambda seen: not seen.alive).exit_code == 0
    assert not site.apply(ForgetWorker(W, NodeName("a")))
    assert site.pods()[0].metadata.deletion_timestamp is not None


def test_who_cannot_be_bound_says_why_and_is_stuck_after_a_while(site: Site) -> None:
    site.start()
    site.plane.report(site.namespace, POD, phase="Pending", conditions=[UNBOUND])
    seen = site.worker(lambda seen: seen.detail != "")
    assert (seen.phase, seen.detail, seen.stuck) == (
        Phase.LAUNCHING,
        "Unschedulable: 0/1 nodes are available",
        False,
    )
    assert seen.cause is EndCause.NOT_ADMITTED
    site.clock.ahead = site.settings.launch_limit_seconds + 1
    assert site.cluster.observe().workers[W].stuck
    site.plane.bind(site.namespace, POD, "a")
    site.plane.container(site.namespace, POD, "Running", running={"startedAt": "2026-01-01T00:00:00Z"})
    assert not site.worker(lambda seen: seen.phase is Phase.RUNNING).stuck


@pytest.mark.parametrize(
    "terms",
    [
        {"nodeSelector": {"disk": "ssd"}},
        {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_APART]}}},
        {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
    ],
)
def test_who_cannot_be_bound_while_its_template_has_terms_of_its_own_is_to_blame(
    plane: ControlPlane, terms: Any
) -> None:
    site = Site(plane, trust_templates=True)
    try:
        site.start(pod_template=json.dumps({"spec": terms}))
        site.plane.report(site.namespace, POD, phase="Pending", conditions=[UNBOUND])
        assert site.worker(lambda seen: seen.detail != "").cause is None
    finally:
        site.close()


@pytest.mark.parametrize("reason", ["ImagePullBackOff", "ErrImageNeverPull", "CreateContainerConfigError"])
def test_who_cannot_be_run_says_why(site: Site, reason: str) -> None:
    site.start()
    site.plane.bind(site.namespace, POD, "a")
    site.plane.container(site.namespace, POD, "Pending", waiting={"reason": "ContainerCreating"})
    site.plane.container(site.namespace, POD, "Pending", waiting={"reason": reason, "message": "because"})
    assert site.worker(lambda seen: seen.detail != "").detail == f"{reason}: because"


def test_a_pod_that_somebody_deletes_has_been_removed_and_not_failed(site: Site) -> None:
    site.run()
    site.plane.core.delete_namespaced_pod(POD, site.namespace)
    site.plane.container(
        site.namespace, POD, "Failed", terminated={"exitCode": 143, "finishedAt": "2036-01-01T00:00:00Z"}
    )
    site.plane.vanish(site.namespace, POD)
    seen = site.worker(lambda seen: not seen.alive)
    assert (seen.phase, seen.exit_code, seen.cause) == (Phase.EXITED, 143, EndCause.REMOVED)


@pytest.mark.parametrize("kind", ["labels", "annotations"])
def test_a_pod_that_loses_its_marks_is_still_the_workers(site: Site, kind: str) -> None:
    site.run()
    marks = getattr(site.pods()[0].metadata, kind)
    site.plane.core.patch_namespaced_pod(POD, site.namespace, {"metadata": {kind: dict.fromkeys(marks)}})
    site.plane.container(site.namespace, POD, "Failed", terminated={"exitCode": 3, **END})
    seen = site.worker(lambda seen: not seen.alive)
    assert (seen.phase, seen.exit_code) == (Phase.EXITED, 3)
    assert site.cluster.observe().nodes[NodeName("a")].foreign.slots == 0


def test_a_pod_whose_place_the_clusters_scheduler_takes_is_displaced(site: Site) -> None:
    site.run()
    (pod,) = site.pods()
    site.plane.event(site.namespace, pod, "Normal", "Preempted", "by default/web on node a")
    site.plane.core.delete_namespaced_pod(POD, site.namespace)
    site.plane.container(
        site.namespace, POD, "Failed", terminated={"exitCode": 143, "finishedAt": "2036-01-01T00:00:00Z"}
    )
    seen = site.worker(lambda seen: seen.cause is EndCause.DISPLACED)
    assert (seen.phase, seen.exit_code) == (Phase.EXITED, 143)
    assert "more important pod" in seen.detail


def test_what_only_an_event_tells_of_a_pod_that_does_not_run_is_found_out(site: Site) -> None:
    site.start()
    site.plane.bind(site.namespace, POD, "a")
    site.plane.container(site.namespace, POD, "Pending", waiting={"reason": "ContainerCreating"})
    (pod,) = site.pods()
    site.plane.event(site.namespace, pod, "Warning", "FailedMount", "no such volume")
    # What comes of a pod's status later than the answer about its events would replace it.
    site.plane.pod(site.namespace, "later", {RESOURCE: "1"}, {})
    site.plane.bind(site.namespace, "later", "a")
    site.node(lambda node: node.foreign.slots == 1)
    assert site.cluster.observe().workers[W].detail == ""
    site.clock.ahead = site.settings.launch_limit_seconds / 2 + 1
    assert site.worker(lambda seen: seen.detail != "").detail == "FailedMount: no such volume"
    site.clock.ahead = site.settings.launch_limit_seconds + 1
    assert site.cluster.observe().workers[W].stuck


def test_what_ended_before_its_pod_was_deleted_ended_by_itself(site: Site) -> None:
    site.run()
    site.plane.container(site.namespace, POD, "Failed", terminated={"exitCode": 3, **END})
    site.plane.vanish(site.namespace, POD)
    seen = site.worker(lambda seen: not seen.alive)
    assert (seen.phase, seen.exit_code, seen.cause) == (Phase.EXITED, 3, None)
    assert not site.apply(ForgetWorker(W, NodeName("a")))


def test_a_pod_that_vanishes_while_it_runs_is_lost(site: Site) -> None:
    site.run()
    site.plane.vanish(site.namespace, POD)
    seen = site.worker(lambda seen: not seen.alive)
    assert (seen.phase, seen.exit_code, seen.cause) == (Phase.LOST, None, EndCause.REMOVED)


def test_a_worker_on_a_node_out_of_reach_stays_listed_until_the_api_has_it_no_more(site: Site) -> None:
    site.run()
    site.plane.unready("a")
    site.node(lambda node: not node.up)
    assert site.cluster.observe().workers[W].phase is Phase.RUNNING
    site.plane.core.delete_node("a")
    assert site.until(lambda seen: not seen.nodes).workers[W].phase is Phase.RUNNING
    site.plane.vanish(site.namespace, POD)
    seen = site.worker(lambda seen: not seen.alive)
    assert (seen.phase, seen.cause) == (Phase.LOST, EndCause.NODE_GONE)
