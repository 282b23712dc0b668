"""Nodes as the API of Kubernetes tells them, and what pods of others hold of them or wait for."""

from collections.abc import Mapping

import pytest

from scheduler.model.foreign import NO_FOREIGN, Demand, ForeignUse
from scheduler.model.ids import NodeName
from scheduler.model.shape import WorkerShape
from tests.clusters.control_plane import RESOURCE, ControlPlane
from tests.clusters.control_plane_cluster import UNBOUND, Site

pytestmark = pytest.mark.kubernetes


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
            site.plane.report(site.namespace, name, phase="Pending", conditions=[UNBOUND])
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
            site.plane.report(site.namespace, name, phase="Pending", conditions=[UNBOUND])
        found = site.until(lambda seen: len(seen.demands) == 2).demands
        assert {demand.name.rpartition("/")[2]: demand.nodes for demand in found} == {
            "web": frozenset({NodeName("a")}),
            "training": None,
        }
    finally:
        site.close()


def test_pods_of_others_that_are_not_more_important_wait(site: Site) -> None:
    site.plane.pod(site.namespace, "web", {RESOURCE: "3"}, {})
    site.plane.report(site.namespace, "web", phase="Pending", conditions=[UNBOUND])
    site.plane.pod(site.namespace, "known", {RESOURCE: "1"}, {})
    site.plane.bind(site.namespace, "known", "a")
    site.node(lambda node: node.foreign.slots == 1)
    assert site.cluster.observe().demands == ()
