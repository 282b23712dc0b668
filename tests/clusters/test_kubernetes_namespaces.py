"""A namespace of workers that was removed, with the rights in it: jobs of others go on, and its own hold nothing."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.engine.ports import ForgetWorker, StopWorker
from scheduler.model.ids import NodeName
from scheduler.model.observation import EndCause, Phase
from tests.clusters.control_plane import ControlPlane
from tests.clusters.control_plane_cluster import POD, Site, W
from tests.clusters.service_account import Account

pytestmark = pytest.mark.kubernetes

A = NodeName("a")
SEEN = [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]}]
GONE = "removed"
IN_GONE = json.dumps({"metadata": {"namespace": GONE}})


@pytest.fixture
def account(plane: ControlPlane, tmp_path: Path) -> Iterator[Account]:
    """It has the rights of the manifests, but in no namespace yet."""
    account = Account(plane, "namespaced", tmp_path / "kubeconfig")
    account.create()
    with account.allowed(SEEN):
        yield account
    account.delete()


@pytest.fixture
def site(plane: ControlPlane, account: Account) -> Iterator[Site]:
    """A scheduler that may work in its own namespace, and has another that is not there."""
    site = Site(plane, kubeconfig=account.kubeconfig, namespaces=(GONE,))
    with account.works_in(site.namespace):
        yield site
        site.close()


def test_a_worker_that_was_not_made_is_stopped_although_a_namespace_is_gone(site: Site) -> None:
    assert not site.apply(StopWorker(W, A, 1.0))


def test_who_cannot_start_as_its_namespace_is_gone_is_given_up_after_a_while_which_is_not_its_jobs_doing(
    site: Site,
) -> None:
    start = site.action(pod_template=IN_GONE)
    (failure,) = site.apply(start)
    assert 'in the namespace "removed"' in failure.error
    site.clock.ahead = site.settings.launch_limit_seconds + 1
    assert not site.apply(start)
    seen = site.cluster.observe().workers[W]
    assert (seen.phase, seen.cause) == (Phase.LAUNCH_FAILED, EndCause.NOT_ADMITTED)
    assert 'in the namespace "removed"' in seen.detail
    assert not site.apply(ForgetWorker(W, A))
    assert not site.cluster.observe().workers


def test_a_worker_whose_namespace_is_removed_while_it_runs_is_forgotten(plane: ControlPlane, account: Account) -> None:
    site = Site(plane, kubeconfig=account.kubeconfig)
    with account.works_in(site.namespace):
        site.cluster = site.connect()
        site.start()
    plane.vanish(site.namespace, POD)
    assert site.worker(lambda seen: not seen.alive).cause is EndCause.REMOVED
    assert not site.apply(ForgetWorker(W, A))
    assert not site.cluster.observe().workers
    site.close()
