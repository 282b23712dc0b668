"""An API server that goes away, refuses, or is asked by another daemon."""

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from scheduler.engine.ports import StopWorker
from scheduler.model.ids import NodeName, WorkerId
from scheduler.model.observation import EndCause, Phase
from tests.clusters.control_plane_cluster import END, POD, SECONDS_MAX, Site, W
from tests.eventually import eventually

pytestmark = pytest.mark.kubernetes


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
    site.plane.container(site.namespace, POD, "Failed", terminated={"exitCode": 3, **END})
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


@contextmanager
def webhook_that_is_away(site: Site) -> Iterator[None]:
    """Every pod of the namespace is to be asked about there."""
    with client.ApiClient(site.plane.core.api_client.configuration) as api:
        webhooks = client.AdmissionregistrationV1Api(api)
        site.plane.core.patch_namespace(site.namespace, {"metadata": {"labels": {"asked": site.namespace}}})
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
        webhook = {
            "name": "away.example.org",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "namespaceSelector": {"matchLabels": {"asked": site.namespace}},
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        webhooks.create_validating_webhook_configuration({"metadata": {"name": "away"}, "webhooks": [webhook]})
        try:
            yield
        finally:
            webhooks.delete_validating_webhook_configuration("away")


def test_who_waits_for_a_webhook_that_is_away_is_given_up_after_a_while_without_being_the_jobs_fault(
    site: Site,
) -> None:
    with webhook_that_is_away(site):
        eventually(lambda: "failed calling webhook" in site.refusal(), site.refusal)
        (failure,) = site.apply(site.action())
        assert "failed calling webhook" in failure.error
        site.clock.ahead = site.settings.launch_limit_seconds + 1
        site.start()
    seen = site.cluster.observe().workers[W]
    assert (seen.phase, seen.cause) == (Phase.LAUNCH_FAILED, EndCause.NOT_ADMITTED)
    assert "failed calling webhook" in seen.detail


def test_a_pod_that_is_too_large_for_the_api_server_is_not_tried_again(site: Site) -> None:
    site.start(env=tuple((f"V{number}", "x" * 60_000) for number in range(60)))
    seen = site.cluster.observe().workers[W]
    assert (seen.phase, seen.cause) == (Phase.LAUNCH_FAILED, EndCause.CANNOT_START)
    assert "too large" in seen.detail


def test_a_pod_of_ours_that_no_daemon_remembers_is_listed(site: Site) -> None:
    site.run()
    other = site.connect()
    assert other.observe().workers[W] == site.cluster.observe().workers[W]
    assert not other.apply([StopWorker(W, NodeName("a"), 0.0)], math.inf)
    with pytest.raises(ApiException):
        site.plane.vanish(site.namespace, "sched-no-such")
    assert site.pods()[0].metadata.deletion_grace_period_seconds == 1
