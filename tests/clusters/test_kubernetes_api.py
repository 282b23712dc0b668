"""Kubernetes as its API tells it: nodes, pods of others, what a status means, an API server that goes away."""

import json
import math
import os
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from scheduler.clock import SystemClock
from scheduler.clusters.kubernetes.cluster import KubernetesCluster
from scheduler.config import KubernetesSettings
from scheduler.engine.ports import ActionFailure, ClusterAction, ForgetWorker, StartWorker, StopWorker
from scheduler.errors import ClusterError
from scheduler.model.foreign import NO_FOREIGN, Demand, ForeignUse
from scheduler.model.ids import NodeName, WorkerId
from scheduler.model.observation import EndCause, NodeObservation, Observation, Phase, WorkerObservation
from scheduler.model.shape import WorkerShape
from tests.clusters.control_plane import RESOURCE, ControlPlane
from tests.clusters.desk import GRACE_SECONDS, start_of
from tests.eventually import eventually

pytestmark = pytest.mark.kubernetes

SECONDS_MAX = 120.0
_UNBOUND = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}
_APART = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
W = WorkerId("7-1")
POD = "sched-7-1"


class AheadClock(SystemClock):
    """The machine's clock plus `ahead` seconds; it may be stopped."""

    ahead = 0.0
    #: Where it stands still: unix and monotonic seconds.
    _still: tuple[float, float] | None = None

    def now(self) -> float:
        return (super().now() if self._still is None else self._still[0]) + self.ahead

    def monotonic(self) -> float:
        return (super().monotonic() if self._still is None else self._still[1]) + self.ahead

    def stop(self) -> None:
        self._still = super().now(), super().monotonic()


class Site:
    """A cluster on the control plane, with a node `a` of four GPUs."""

    def __init__(self, plane: ControlPlane, **settings: Any) -> None:
        self.plane = plane
        self.settings: KubernetesSettings = plane.settings(**settings)
        self.clock = AheadClock()
        self.changed = Event()
        self.clusters: list[KubernetesCluster] = []
        plane.add_node("a")
        self.cluster = self.connect()

    def connect(self) -> KubernetesCluster:
        """One more daemon's."""
        cluster = KubernetesCluster(self.settings, self.clock, random.Random(1), Path(os.devnull), b"secret")
        self.clusters.append(cluster)
        cluster.on_change(self.changed.set)
        return cluster

    @property
    def namespace(self) -> str:
        return self.settings.namespace

    def apply(self, *actions: ClusterAction) -> list[ActionFailure]:
        return list(self.cluster.apply(actions, math.inf))

    def start(self, worker: str = W, **changes: Any) -> None:
        assert not self.apply(self.action(worker, **changes))

    def action(self, worker: str = W, **changes: Any) -> StartWorker:
        return replace(start_of(worker, NodeName("a"), (0, 1), ("train",)), **changes)

    def run(self) -> None:
        """Start the worker; its node runs it."""
        self.start()
        self.plane.bind(self.namespace, POD, "a")
        self.plane.container(self.namespace, POD, "Running", running={"startedAt": "2026-01-01T00:00:00Z"})
        self.worker(lambda seen: seen.phase is Phase.RUNNING)

    def until(self, predicate: Callable[[Observation], bool]) -> Observation:
        while True:
            self.changed.clear()
            observation = self.cluster.observe()
            if predicate(observation):
                return observation
            assert self.changed.wait(SECONDS_MAX), f"still {observation}"

    def trouble(self) -> str:
        """Why nothing can be observed; empty where it can."""
        try:
            self.cluster.observe()
        except ClusterError as error:
            return str(error)
        return ""

    def refusal(self) -> str:
        """Why the API server would not make a pod now; empty where it would."""
        body = {"metadata": {"name": "asked"}, "spec": {"containers": [{"name": "main", "image": "image:1"}]}}
        try:
            self.plane.core.create_namespaced_pod(self.namespace, body, dry_run="All")
        except ApiException as error:
            return str(error.body)
        return ""

    def worker(self, predicate: Callable[[WorkerObservation], bool]) -> WorkerObservation:
        return self.until(lambda seen: W in seen.workers and predicate(seen.workers[W])).workers[W]

    def node(self, predicate: Callable[[NodeObservation], bool], name: str = "a") -> NodeObservation:
        node = NodeName(name)
        return self.until(lambda seen: node in seen.nodes and predicate(seen.nodes[node])).nodes[node]

    def pods(self) -> list[Any]:
        return list(self.plane.core.list_namespaced_pod(self.namespace).items)

    def close(self) -> None:
        for cluster in self.clusters:
            cluster.close()
        for pod in self.plane.core.list_pod_for_all_namespaces().items:
            self.plane.vanish(pod.metadata.namespace, pod.metadata.name)
        for node in self.plane.core.list_node().items:
            self.plane.core.delete_node(node.metadata.name)


@pytest.fixture
def site(plane: ControlPlane) -> Iterator[Site]:
    site = Site(plane)
    yield site
    site.close()


# nodes


def test_a_node_offers_what_is_allocatable_on_it(site: Site) -> None:
    labels = {"nvidia.com/gpu.product": "H100", "topology.kubernetes.io/zone": "z1"}
    site.plane.add_node("b", 8, labels)
    seen = site.node(lambda node: node.slots == 8, "b")
    assert (seen.cpus, seen.memory_mib, seen.host) == (15.5, 65536, "10.1.2.3")
    assert (seen.gpu_type, seen.has_gpus, seen.up, seen.closed) == ("H100", True, True, "")
    assert dict(seen.labels) == labels
    assert seen.foreign == NO_FOREIGN


def test_a_node_that_is_cordoned_tainted_or_not_ready_takes_no_workers_and_says_why(site: Site) -> None:
    core = site.plane.core
    core.patch_node("a", {"spec": {"unschedulable": True}})
    assert site.node(lambda node: node.closed != "").closed == "cordoned in Kubernetes"
    core.patch_node("a", {"spec": {"unschedulable": False}})
    site.node(lambda node: node.closed == "")
    core.patch_node("a", {"spec": {"taints": [{"key": "team", "value": "x", "effect": "NoSchedule"}]}})
    assert site.node(lambda node: node.closed != "").closed == "taint team=x:NoSchedule is not tolerated"
    core.patch_node("a", {"spec": {"taints": [{"key": "team", "effect": "PreferNoSchedule"}]}})
    site.node(lambda node: node.closed == "")
    site.plane.unready("a")
    assert not site.node(lambda node: not node.up).closed
    core.delete_node("a")
    site.until(lambda seen: not seen.nodes)


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists"},
        {"key": "team", "value": "x"},
        {"key": "team", "operator": "Exists", "effect": "NoSchedule"},
    ],
)
def test_a_taint_that_workers_tolerate_keeps_nobody_out(plane: ControlPlane, toleration: Mapping[str, str]) -> None:
    site = Site(plane, tolerations=(toleration,))
    try:
        site.plane.add_node("b", taints=[{"key": "team", "value": "x", "effect": "NoSchedule"}])
        assert site.node(lambda node: node.slots == 4, "b").closed == ""
        site.start()
        assert toleration.get("key") in {each.key for each in site.pods()[0].spec.tolerations}
    finally:
        site.close()


def test_what_pods_of_others_ask_for_is_theirs_until_they_end(site: Site) -> None:
    requests = {RESOURCE: "2", "cpu": "250m", "memory": "100M"}
    site.plane.pod(site.namespace, "other", requests, {})
    assert site.cluster.observe().nodes[NodeName("a")].foreign == NO_FOREIGN
    site.plane.bind(site.namespace, "other", "a")
    assert site.node(lambda node: node.foreign != NO_FOREIGN).foreign == ForeignUse(2, 0.25, 96)
    site.plane.report(site.namespace, "other", phase="Succeeded")
    site.node(lambda node: node.foreign == NO_FOREIGN)


def test_workers_of_another_scheduler_are_somebody_elses(site: Site) -> None:
    site.plane.pod(site.namespace, "x-1-1", {RESOURCE: "1"}, {"elastic-gpu-scheduler/instance": "x"})
    site.plane.bind(site.namespace, "x-1-1", "a")
    assert site.node(lambda node: node.foreign.slots == 1)
    assert not site.cluster.observe().workers


def test_pods_of_others_that_wait_are_demands_while_they_are_more_important(plane: ControlPlane) -> None:
    site = Site(plane, yield_to_priority=0)
    try:
        site.plane.add_node("b", labels={"disk": "ssd"})
        site.node(lambda node: node.slots == 4, "b")
        site.plane.pod(site.namespace, "web", {RESOURCE: "3", "cpu": "1"}, {})
        site.plane.pod(site.namespace, "picky", {RESOURCE: "1"}, {}, nodeSelector={"disk": "ssd"})
        site.plane.pod(site.namespace, "small", {"cpu": "1"}, {})
        site.plane.pod(site.namespace, "nothing", {}, {})
        assert site.cluster.observe().demands == ()
        for name in ("nothing", "web", "picky", "small"):
            site.plane.report(site.namespace, name, phase="Pending", conditions=[_UNBOUND])
        found = site.until(lambda seen: len(seen.demands) == 3).demands
        whole = Demand(f"{site.namespace}/web", WorkerShape(3, 1.0))
        part = Demand(f"{site.namespace}/picky", WorkerShape(1), frozenset({NodeName("b")}))
        without_slots = Demand(f"{site.namespace}/small", WorkerShape(0, 1.0))
        assert set(found) == {whole, part, without_slots}
        site.plane.bind(site.namespace, "web", "a")
        seen = site.until(lambda seen: len(seen.demands) == 2 and seen.nodes[NodeName("a")].foreign.slots == 3)
        assert set(seen.demands) == {part, without_slots}
        for name in ("picky", "small"):
            site.plane.vanish(site.namespace, name)
        site.until(lambda seen: not seen.demands)
    finally:
        site.close()


def test_a_pod_of_others_makes_no_worker_leave_a_node_whose_taint_keeps_it_out(plane: ControlPlane) -> None:
    toleration = {"key": "nvidia.com/gpu", "operator": "Exists"}
    site = Site(plane, yield_to_priority=0, tolerations=[toleration])
    try:
        taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
        site.plane.add_node("b", taints=[taint])
        site.node(lambda node: node.slots == 4 and not node.closed, "b")
        for name, tolerations in (("web", []), ("training", [toleration])):
            site.plane.pod(site.namespace, name, {"cpu": "2"}, {}, tolerations=tolerations)
            site.plane.report(site.namespace, name, phase="Pending", conditions=[_UNBOUND])
        found = site.until(lambda seen: len(seen.demands) == 2).demands
        assert {demand.name.rpartition("/")[2]: demand.nodes for demand in found} == {
            "web": frozenset({NodeName("a")}),
            "training": None,
        }
    finally:
        site.close()


def test_pods_of_others_that_are_not_more_important_wait(site: Site) -> None:
    site.plane.pod(site.namespace, "web", {RESOURCE: "3"}, {})
    site.plane.report(site.namespace, "web", phase="Pending", conditions=[_UNBOUND])
    site.plane.pod(site.namespace, "known", {RESOURCE: "1"}, {})
    site.plane.bind(site.namespace, "known", "a")
    site.node(lambda node: node.foreign.slots == 1)
    assert site.cluster.observe().demands == ()


# pods


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
_END = {"startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:01:00Z"}


@pytest.mark.parametrize(
    ("status", "phase", "code", "cause", "detail"),
    [
        ({"terminated": {"exitCode": 3, **_END}}, Phase.EXITED, 3, None, ""),
        (
            {"terminated": {"exitCode": 137, "reason": "OOMKilled", **_END}},
            Phase.EXITED,
            137,
            EndCause.OUT_OF_MEMORY,
            "OOMKilled",
        ),
        (
            {"terminated": {"exitCode": 128, "reason": "StartError", "message": "no such file", **_END}},
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
        ("OutOfnvidia.com/gpu", "Pod Node didn't have enough resource", None, EndCause.EVICTED),
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
    site.plane.container(site.namespace, POD, "Running", terminated={"exitCode": 0, **_END})
    assert site.worker(lambda seen: not seen.alive).exit_code == 0
    assert not site.apply(ForgetWorker(W, NodeName("a")))
    assert site.pods()[0].metadata.deletion_timestamp is not None


def test_who_cannot_be_bound_says_why_and_is_stuck_after_a_while(site: Site) -> None:
    site.start()
    site.plane.report(site.namespace, POD, phase="Pending", conditions=[_UNBOUND])
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
        site.plane.report(site.namespace, POD, phase="Pending", conditions=[_UNBOUND])
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
    site.plane.container(site.namespace, POD, "Failed", terminated={"exitCode": 3, **_END})
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


# the API server


def test_nobody_is_lost_while_the_api_server_is_away_and_what_happened_is_known_after(site: Site) -> None:
    site.run()
    site.start("8-1")
    before = site.cluster.observe().workers
    site.plane.stop_api()
    try:
        assert site.cluster.observe().workers == before
        (failure,) = site.apply(site.action("9-1"))
        assert "Connection refused" in failure.error
        site.clock.ahead = site.settings.stale_seconds + 1
        told = re.compile(r"no news of (nodes|pods) for more than 30 s: the API server at https://")
        eventually(lambda: told.match(site.trouble()), site.trouble, SECONDS_MAX)
    finally:
        site.plane.start_api()
    site.plane.vanish(site.namespace, "sched-8-1")
    site.plane.container(site.namespace, POD, "Failed", terminated={"exitCode": 3, **_END})
    site.clock.ahead = 0.0
    eventually(lambda: not site.trouble(), site.trouble, SECONDS_MAX)
    seen = site.until(lambda seen: not any(worker.alive for worker in seen.workers.values()))
    assert seen.workers[W].exit_code == 3
    assert not seen.workers[WorkerId("8-1")].alive


def test_what_is_forbidden_now_is_asked_again_and_given_up_after_a_while_without_being_the_jobs_fault(
    site: Site,
) -> None:
    hard = {"pods": "0"}
    quotas = site.plane.core
    quotas.create_namespaced_resource_quota(site.namespace, {"metadata": {"name": "none"}, "spec": {"hard": hard}})
    quotas.patch_namespaced_resource_quota_status("none", site.namespace, {"status": {"hard": hard, "used": hard}})
    # The API server judges by what it has heard of quotas, a moment later.
    eventually(lambda: "exceeded quota: none" in site.refusal(), site.refusal)
    for _ in range(2):
        (failure,) = site.apply(site.action())
        assert "exceeded quota: none" in failure.error
    assert W not in site.cluster.observe().workers
    site.clock.ahead = site.settings.launch_limit_seconds + 1
    site.start()
    seen = site.cluster.observe().workers[W]
    assert (seen.phase, seen.cause) == (Phase.LAUNCH_FAILED, EndCause.NOT_ADMITTED)
    assert "exceeded quota: none" in seen.detail
    site.clock.stop()
    assert site.apply(site.action("8-1"))
    quotas.delete_namespaced_resource_quota("none", site.namespace)
    assert site.apply(site.action("8-1")), "it is not asked for that soon"
    eventually(lambda: not site.refusal(), site.refusal)
    site.clock.ahead += 2
    site.start("8-1")


def test_a_pod_of_ours_that_no_daemon_remembers_is_listed(site: Site) -> None:
    site.run()
    other = site.connect()
    assert other.observe().workers[W] == site.cluster.observe().workers[W]
    assert not other.apply([StopWorker(W, NodeName("a"), 0.0)], math.inf)
    with pytest.raises(ApiException):
        site.plane.vanish(site.namespace, "sched-no-such")
    assert site.pods()[0].metadata.deletion_grace_period_seconds == 1
