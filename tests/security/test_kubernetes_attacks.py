"""What somebody tries who may create TrainingJobs in a namespace of a real cluster, and nothing else."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from tests.clusters.kubernetes_desk import IMAGE, RESOURCE, cluster_of
from tests.eventually import becomes, eventually
from tests.security.tenants import SECONDS_MAX, SECRET, Tenant, Tenants, two_tenants, worker

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]

ROOT_OF_NODE: dict[str, Any] = {
    "hostPID": True,
    "volumes": [{"name": "root", "hostPath": {"path": "/"}}],
}
SHELL = {"image": IMAGE, "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", "sleep 3600"]}


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    kubeconfig = os.environ.get("KUBECONFIG")
    if not kubeconfig:
        pytest.skip("KUBECONFIG names no cluster")
    with (
        cluster_of(Path(kubeconfig)) as where,
        two_tenants(where, tmp_path_factory.mktemp("tenants")) as tenants,
    ):
        yield tenants


ATTACKS: dict[str, tuple[str, dict[str, Any]]] = {
    "root-of-the-node": ("template.spec.hostPID", worker(**ROOT_OF_NODE)),
    "host-path": ("template.spec.volumes.0.hostPath", worker(volumes=ROOT_OF_NODE["volumes"])),
    "privileged-sidecar": (
        "template.spec.containers.1.securityContext.privileged",
        worker({"name": "s", **SHELL, "securityContext": {"privileged": True}}),
    ),
    "privileged-init": (
        "template.spec.initContainers.0.securityContext.privileged",
        worker(initContainers=[{"name": "i", **SHELL, "securityContext": {"privileged": True}}]),
    ),
    "the-daemons-account": ("template.spec.serviceAccountName", worker(serviceAccountName="sched")),
    "a-token": ("template.spec.automountServiceAccountToken", worker(automountServiceAccountToken=True)),
    "network-of-the-node": ("template.spec.hostNetwork", worker(hostNetwork=True)),
    "uncounted-gpus": (
        f"template.spec.containers.1.resources.limits.{RESOURCE}",
        worker({"name": "s", **SHELL, "resources": {"limits": {RESOURCE: "64"}, "requests": {RESOURCE: "64"}}}),
    ),
    "above-all-others": ("template.spec.priorityClassName", worker(priorityClassName="system-node-critical")),
    "in-the-daemons-service": (
        "template.metadata.labels.app.kubernetes.io/name",
        {"metadata": {"labels": {"app.kubernetes.io/name": "elastic-gpu-scheduler"}}, **worker()},
    ),
    "as-anothers-worker": (
        "template.metadata.labels.elastic-gpu-scheduler/job",
        {"metadata": {"labels": {"elastic-gpu-scheduler/job": "1"}}, **worker()},
    ),
    "typo": ("template.spec.containers.1.imagePullpolicy", worker({"name": "s", "imagePullpolicy": "Never"})),
    "wrong-type": ("template.spec.hostNetwork", worker(hostNetwork="true")),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused_with_the_name_of_the_field_and_makes_no_pod(tenants: Tenants, name: str) -> None:
    field, template = ATTACKS[name]
    tenants.ann.submit(name, template)
    status = tenants.ann.reaches(name, "Refused")
    assert status["message"].startswith(f"spec.{field}: "), status
    assert "jobId" not in status
    assert not tenants.ann.pods()


@pytest.mark.parametrize(
    ("path", "prefix", "wrap"),
    [
        ("/v1/jobs", "", lambda job: job),
        ("/v1/jobs/batch", "jobs.1.", lambda job: {"jobs": [{"command": ["true"]}, job]}),
        ("/v1/whatif", "", lambda job: job),
        ("/v1/recurring", "job.", lambda job: {"cron": "0 0 1 1 *", "job": job}),
    ],
)
def test_the_http_api_takes_no_such_template_either(tenants: Tenants, path: str, prefix: str, wrap: Any) -> None:
    template = worker(volumes=ROOT_OF_NODE["volumes"])
    attempts = {
        "pod_template.spec.volumes.0.hostPath": {"pod_template": template},
        "fixed.pod_template.spec.volumes.0.hostPath": {"fixed": {"replicas": 1, "pod_template": template}},
        "env.NVIDIA_VISIBLE_DEVICES": {"env": {"NVIDIA_VISIBLE_DEVICES": "all"}},
        "pod_template.metadata.namespace": {"pod_template": {"metadata": {"namespace": tenants.system}, **worker()}},
    }
    for field, fields in attempts.items():
        answer = tenants.daemon.client.post(path, json=wrap({"command": ["true"], **fields}))
        assert answer.status_code == 422, answer.text
        assert answer.json()["error"]["field"] == f"{prefix}{field}"


@pytest.mark.parametrize("whose", ["bob", "system", "kube-system"])
def test_a_job_runs_in_no_namespace_but_that_of_its_object(tenants: Tenants, whose: str) -> None:
    namespace = {"bob": tenants.bob.namespace, "system": tenants.system}.get(whose, whose)
    tenants.ann.submit(f"in-{whose}", {"metadata": {"namespace": namespace}, **worker()})
    status = tenants.ann.reaches(f"in-{whose}", "Refused")
    assert "pods run in the namespace of their TrainingJob" in status["message"]


def test_a_secret_of_the_daemon_is_not_in_reach_of_a_worker(tenants: Tenants) -> None:
    stolen = {"name": "STOLEN", "valueFrom": {"secretKeyRef": {"name": "sched", "key": "token", "optional": True}}}
    template = worker()
    template["spec"]["containers"][0]["env"] = [stolen]
    tenants.ann.submit("thief", template, f'test "$STOLEN" != {SECRET} && test -z "$STOLEN"')
    tenants.ann.reaches("thief", "Succeeded")
    assert not tenants.ann.is_allowed(lambda core: core.read_namespaced_secret("sched", tenants.system))


def test_workers_run_in_the_namespace_of_their_object_without_rights_and_leave_nothing(tenants: Tenants) -> None:
    script = "test ! -e /var/run/secrets/kubernetes.io && trap 'exit 0' TERM && while :; do sleep 0.1; done"
    for tenant in (tenants.ann, tenants.bob):
        tenant.submit("train", worker(), script, minWorkers=2, maxWorkers=2, graceSeconds=5)
    jobs = {tenant: tenant.reaches("train", "Running")["jobId"] for tenant in (tenants.ann, tenants.bob)}
    pods = {tenant: [pod for pod in tenant.pods() if _job(pod) == jobs[tenant]] for tenant in jobs}
    for tenant, mine in pods.items():
        assert [pod.spec.automount_service_account_token for pod in mine] == [False, False]
        assert {pod.spec.service_account_name for pod in mine} <= {"sched-worker", None}
        (policy,) = [each for each in tenants.policies(tenant) if each.metadata.name.endswith(f"-{jobs[tenant]}")]
        everybody = [pod for other in jobs for pod in other.pods()]
        assert _names(pod for pod in everybody if _reached_by(policy, pod)) == _names(mine)
        assert all(_matches(policy.spec.pod_selector, pod) for pod in mine)
    hosts = tenants.daemon.client.get(f"/v1/jobs/{tenants.bob.status('train')['jobId']}/discover_hosts").text
    assert f".sched-workers.{tenants.bob.namespace}.svc:" in hosts
    for tenant in (tenants.ann, tenants.bob):
        tenant.delete("train")
        becomes(tenant.pods, [], SECONDS_MAX)
        becomes(lambda tenant=tenant: tenants.policies(tenant), [], SECONDS_MAX)  # type: ignore[misc]


def test_a_template_that_the_api_refuses_fails_its_own_job_in_plain_words(tenants: Tenants) -> None:
    tenants.ann.submit("bogus", worker(dnsPolicy="Bogus"))
    tenants.bob.submit("beside", worker())
    failed = tenants.ann.reaches("bogus", "Failed")
    assert "cannot start" in failed["message"]
    assert 'spec.dnsPolicy: Unsupported value: "Bogus"' in failed["message"]
    tenants.bob.reaches("beside", "Succeeded")


def test_a_pod_that_only_looks_like_anothers_worker_harms_nobody(tenants: Tenants) -> None:
    """Bob may even make pods: of Ann's worker that runs, of her next one, and of none, with numbers that break sums."""
    tenants.ann.submit("victim", worker(), "trap 'exit 0' TERM; while :; do sleep 0.1; done", graceSeconds=5)
    running = tenants.ann.reaches("victim", "Running")["jobId"]
    (real,) = tenants.ann.pods()
    core = tenants.where.core

    def the_real_one_alone() -> None:
        """What has ended goes a moment after that is told."""
        becomes(lambda: [pod.metadata.uid for pod in tenants.ann.pods()], [real.metadata.uid], SECONDS_MAX)

    forged = [(f"sched-{job}-1", job, cpus) for job, cpus in ((running, "inf"), (running + 1, "1"), (10**9, "nan"))]
    for name, job, cpus in forged:
        core.create_namespaced_pod(tenants.bob.namespace, _forged(name, job, cpus, real.spec.node_name))
    try:
        tenants.ann.submit("next", worker())
        assert tenants.ann.reaches("next", "Succeeded")["jobId"] == running + 1
        the_real_one_alone()
        assert tenants.ann.status("victim")["phase"] == "Running"
        tenants.daemon.restart()
        tenants.bob.submit("own", worker())
        tenants.bob.reaches("own", "Succeeded")
        assert tenants.ann.status("victim")["phase"] == "Running"
        the_real_one_alone()
    finally:
        for name, _, _ in forged:
            _remove(core, tenants.bob.namespace, name)
    tenants.ann.delete("victim")
    becomes(tenants.ann.pods, [], SECONDS_MAX)


def _forged(name: str, job: int, cpus: str, node: str) -> dict[str, Any]:
    prefix = "elastic-gpu-scheduler"
    labels = {f"{prefix}/instance": "sched", f"{prefix}/job": str(job), f"{prefix}/worker": f"{job}-1"}
    notes = {f"{prefix}/node": node, f"{prefix}/slots": "0", f"{prefix}/cpus": cpus, f"{prefix}/memory-mib": "0"}
    metadata = {"name": name, "labels": labels, "annotations": notes, "finalizers": ["bob.example/forever"]}
    return {"metadata": metadata, "spec": {"containers": [{"name": "worker", **SHELL}]}}


def _remove(core: client.CoreV1Api, namespace: str, name: str) -> None:
    core.patch_namespaced_pod(name, namespace, {"metadata": {"finalizers": None}})
    with suppress(ApiException):  # it has gone with its finalizer
        core.delete_namespaced_pod(name, namespace, grace_period_seconds=1)

    def gone() -> bool:
        return name not in {pod.metadata.name for pod in core.list_namespaced_pod(namespace).items}

    eventually(gone, f"{name} does not go", SECONDS_MAX)


def _job(pod: Any) -> int:
    return int(pod.metadata.labels["elastic-gpu-scheduler/job"])


def _names(pods: Iterable[Any]) -> list[tuple[str, str]]:
    return sorted((pod.metadata.namespace, pod.metadata.name) for pod in pods)


def _reached_by(policy: Any, pod: Any) -> bool:
    """Whether the policy lets this pod reach those that it chooses, were it in the namespace."""
    peers = [peer for rule in policy.spec.ingress for peer in rule._from]
    same = policy.metadata.namespace == pod.metadata.namespace
    return any(peer.namespace_selector is None and same and _matches(peer.pod_selector, pod) for peer in peers)


def _matches(selector: Any, pod: Any) -> bool:
    return bool(selector.match_labels) and selector.match_labels.items() <= (pod.metadata.labels or {}).items()


def test_nobody_but_the_scheduler_can_do_more_than_submit(tenants: Tenants) -> None:
    ann: Tenant = tenants.ann
    assert not ann.is_allowed(lambda core: core.create_namespaced_pod(ann.namespace, _forged("p", 1, "1", "node-a")))
    assert not ann.is_allowed(lambda core: core.list_namespaced_secret(ann.namespace))
    assert not ann.is_allowed(lambda core: core.list_node())
