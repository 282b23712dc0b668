"""A daemon whose cluster is in trouble: each kind is told where users look, costs nothing, and ends by itself.

The API server is a real one; what kubelets and controllers would do is done by the test.
"""

from pathlib import Path

import pytest

from tests.clusters.control_plane import ControlPlane
from tests.clusters.control_plane_daemon import site_of
from tests.clusters.service_account import Account

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]


def test_a_namespace_that_is_not_there_is_told_and_jobs_start_once_it_is(plane: ControlPlane, tmp_path: Path) -> None:
    with site_of(plane, tmp_path, namespace="later") as site:
        site.is_logged_once("cannot start workers", 'namespaces \\"later\\" not found')
        job = site.submit()
        site.is_told(job, 'Worker 1-1 on a is not running yet: namespaces "later" not found')
        plane.core.create_namespace({"metadata": {"name": "later"}})
        site.run(job)
        site.is_logged_once("worker actions failed", "not found")
        site.is_logged_once("worker actions succeed again", "")

        plane.core.delete_namespace("later")  # without a controller it stays, with all that is in it
        other = site.submit()
        site.is_told(other, "because it is being terminated")
        assert plane.core.read_namespace("later").status.phase == "Terminating"
        for name in site.pods():
            plane.vanish("later", name)
        plane.core.replace_namespace_finalize("later", {"metadata": {"name": "later"}, "spec": {"finalizers": []}})
        plane.core.create_namespace({"metadata": {"name": "later"}})
        site.run(other)
        site.pod_of(job, 2)
        assert site.job(job)["retries_used"] == 0
        assert set(site.workers()) == {f"{job}-2", f"{other}-1"}


def test_a_resource_that_no_node_offers_is_told(plane: ControlPlane, tmp_path: Path) -> None:
    with site_of(plane, tmp_path, resource="nvidia.com/gqu") as site:
        site.is_logged_once("no node offers the resource used as a slot", "nvidia.com/gqu")
        site.comes(lambda: bool(site.nodes()["nodes"]), lambda: "no nodes")
        assert [node["closed"] for node in site.nodes()["nodes"]] == ["offers no nvidia.com/gqu"]
        job = site.submit()
        site.is_told(job, "Too large for every node: a worker needs 1 slot (no node has more than 0).")
        site.is_told(job, "Closed to new workers: 1 node (offers no nvidia.com/gqu).")
        amounts = {"nvidia.com/gqu": "1", "cpu": "4", "memory": "8Gi", "pods": "110"}
        plane.core.patch_node_status("a", {"status": {"capacity": amounts, "allocatable": amounts}})
        site.run(job)


def test_rights_that_are_missing_and_credentials_that_expire_are_told_and_may_be_mended(
    plane: ControlPlane, tmp_path: Path
) -> None:
    account = Account(plane, "trouble", tmp_path / "kubeconfig")
    account.create()
    with site_of(plane, tmp_path, ready=False, kubeconfig=account.kubeconfig) as site:
        site.is_not_ready("cannot list resource")
        site.is_logged_once("the scheduler is not making decisions", "cannot list resource")
        job = site.submit()
        site.is_told(job, "The scheduler is not making decisions: ")
        with account.allowed():
            site.is_ready()
            site.run(job)
            before = site.pods()

            account.delete()
            waiting = site.submit()
            site.is_told(waiting, "is not running yet: the API server rejected the credentials: Unauthorized")
            site.daemon.kill()
            site.daemon.start_answering()
            site.is_not_ready("the API server rejected the credentials")
            assert site.job(job)["state"] == "RUNNING"

            account.create()
            site.is_ready()
            site.runs(job)
            site.run(waiting)
            assert site.pods().items() >= before.items()
            assert len(site.pods()) == 2


def test_a_right_to_make_pods_that_is_missing_is_told_and_nothing_is_held_for_ever(
    plane: ControlPlane, tmp_path: Path
) -> None:
    account = Account(plane, "reader", tmp_path / "kubeconfig")
    account.create()
    seen, made = ["nodes", "pods"], ["configmaps", "services"]
    rules = [
        {"apiGroups": [""], "resources": seen, "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": made, "verbs": ["get", "create"]},
        {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": ["create", "delete"]},
    ]
    with (
        account.allowed(rules),
        site_of(plane, tmp_path, kubeconfig=account.kubeconfig, launch_limit_seconds=10.0) as site,
    ):
        job = site.submit()
        site.is_told(job, "cannot create resource")
        site.comes(lambda: site.job(job)["attempt"] > 1, lambda: str(site.job(job)))
        assert site.job(job)["retries_used"] == 0
        with account.allowed(name="reader-too"):
            site.comes(lambda: bool(site.pods()), lambda: site.explained(job))
            (name,) = site.pods()
            site.launch(name)
            site.comes(lambda: site.job(job)["state"] == "RUNNING", lambda: str(site.job(job)))
            assert site.job(job)["retries_used"] == 0


def test_an_api_server_that_goes_away_costs_nothing_and_hosts_are_answered_meanwhile(
    plane: ControlPlane, tmp_path: Path
) -> None:
    with site_of(plane, tmp_path) as site:
        job = site.submit()
        site.run(job)
        before = site.pods()
        host = f"{site.pod_of(job, 1)}.sched-workers.{site.namespace}.svc:1"
        plane.stop_api()
        try:
            waiting = site.submit()
            site.is_not_ready("cannot be reached: Connection refused")
            site.is_told(job, "The scheduler is not making decisions: no news of")
            site.daemon.kill()
            site.daemon.start_answering()
            site.is_not_ready("cannot be reached: Connection refused")
            hosts = site.daemon.client.get(f"/v1/jobs/{job}/discover_hosts")
            assert (hosts.status_code, hosts.text) == (200, f"{host}\n")
        finally:
            plane.start_api()
        site.is_ready()
        site.runs(job)
        assert site.pods().items() >= before.items()
        site.run(waiting)
        assert len(site.pods()) == 2
