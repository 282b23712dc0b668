"""Two tenants of a real Kubernetes cluster, each with a namespace of workers, and a daemon as the manifests allow it.

Ann and Bob may create TrainingJobs in their own namespaces, and nothing else.
"""

import json
import secrets
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from scheduler.clusters.kubernetes.api.custom_resource import GROUP, PLURAL, VERSION
from tests.clusters.cluster_rights import cluster_rights
from tests.clusters.kubernetes_desk import IMAGE, RESOURCE, TestCluster, install_training_jobs
from tests.daemon import ROOT, Daemon, running_daemon
from tests.eventually import eventually

MANIFESTS = ROOT / "manifests"
SECONDS_MAX = 180.0
SECRET = "the-token-that-opens-everything"
_POD_SECURITY = "pod-security.kubernetes.io/enforce"
_SUBMIT = {"apiGroups": [GROUP], "resources": [PLURAL], "verbs": ["get", "list", "create", "delete"]}


class Tenant:
    """Somebody who may create TrainingJobs in a namespace, and nothing else."""

    def __init__(self, admin: client.CoreV1Api, namespace: str, kubeconfig: Path) -> None:
        self.namespace = namespace
        self.admin = admin
        self._api = config.new_client_from_config(str(kubeconfig))
        self._jobs = client.CustomObjectsApi(self._api)

    def close(self) -> None:
        self._api.close()

    def submit(self, name: str, template: Mapping[str, Any], script: str = "exit 0", **spec: Any) -> None:
        body = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "TrainingJob",
            "metadata": {"name": name},
            "spec": {"command": ["sh", "-c", script], "maxRetries": 0, "template": template, **spec},
        }
        self._jobs.create_namespaced_custom_object(GROUP, VERSION, self.namespace, PLURAL, body)

    def delete(self, name: str) -> None:
        self._jobs.delete_namespaced_custom_object(GROUP, VERSION, self.namespace, PLURAL, name)

    def status(self, name: str) -> dict[str, Any]:
        found = self._jobs.get_namespaced_custom_object(GROUP, VERSION, self.namespace, PLURAL, name)
        status: dict[str, Any] = found.get("status") or {}
        return status

    def reaches(self, name: str, phase: str) -> dict[str, Any]:
        """The status of a TrainingJob once it has this phase."""
        eventually(lambda: self.status(name).get("phase") == phase, lambda: str(self.status(name)), SECONDS_MAX)
        return self.status(name)

    def pods(self) -> list[Any]:
        return list(self.admin.list_namespaced_pod(self.namespace).items)

    def is_allowed(self, call: Callable[[client.CoreV1Api], Any]) -> bool:
        """Whether the API server lets this tenant do it."""
        try:
            call(client.CoreV1Api(self._api))
        except ApiException as error:
            return bool(error.status != 403)
        return True


class Tenants:
    """Ann, Bob, the daemon, and the namespace with its secrets."""

    def __init__(self, where: TestCluster, daemon: Daemon, system: str, ann: Tenant, bob: Tenant) -> None:
        self.where, self.daemon, self.system, self.ann, self.bob = where, daemon, system, ann, bob

    def policies(self, tenant: Tenant) -> list[Any]:
        api = client.NetworkingV1Api(self.where.core.api_client)
        return list(api.list_namespaced_network_policy(tenant.namespace).items)


def worker(*containers: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    """A template whose worker runs on the nodes of the tests."""
    main = {"name": "worker", "image": IMAGE, "imagePullPolicy": "IfNotPresent"}
    return {"spec": {"containers": [main, *containers], **spec}}


@contextmanager
def two_tenants(where: TestCluster, directory: Path, trusted: bool = False) -> Iterator[Tenants]:
    """All of it, and nothing of it is left afterwards. `trusted`: templates of both may hold anything."""
    core, name = where.core, f"tenants-{secrets.token_hex(4)}"
    system, *others = (f"{name}-{part}" for part in ("system", "ann", "bob"))
    rights = client.RbacAuthorizationV1Api(core.api_client)
    with ExitStack() as stack:
        for namespace in (system, *others):
            core.create_namespace({"metadata": {"name": namespace}})
            stack.callback(core.delete_namespace, namespace, grace_period_seconds=1)
        install_training_jobs(core.api_client)
        core.create_namespaced_secret(system, {"metadata": {"name": "sched"}, "stringData": {"token": SECRET}})
        stack.enter_context(cluster_rights(rights, f"{name}-reader", _rules_of_the_scheduler(), "sched", system))
        for namespace in others:
            _apply_workers(where.kubeconfig, namespace, system)
            rights.create_namespaced_role(namespace, {"metadata": {"name": "submit"}, "rules": [_SUBMIT]})
            _bind(rights, namespace, "submit", "user", namespace)
            if trusted:
                core.patch_namespace(namespace, {"metadata": {"labels": {_POD_SECURITY: "privileged"}}})
        scheduler = _kubeconfig(where, system, "sched", directory)
        tenants = [Tenant(core, each, _kubeconfig(where, each, "user", directory)) for each in others]
        for tenant in tenants:
            stack.callback(tenant.close)
        settings = {
            "namespace": others[0],
            "namespaces": ",".join(others[1:]),
            "kubeconfig": str(scheduler),
            "resource": RESOURCE,
            "instance": "sched",
            "service_account": "sched-worker",
            "trust_templates": trusted,
        }
        daemon = stack.enter_context(running_daemon(directory, cluster="kubernetes", kubernetes=settings))
        stack.callback(_finish, tenants)
        yield Tenants(where, daemon, system, *tenants)


def _apply_workers(kubeconfig: Path, namespace: str, system: str) -> None:
    """The manifests of a namespace of workers, as an administrator would put them there."""
    command = ["kubectl", f"--kubeconfig={kubeconfig}"]
    built = subprocess.run(
        [*command, "kustomize", str(MANIFESTS / "workers")], check=True, capture_output=True, text=True
    ).stdout
    text = built.replace("sched-jobs", namespace).replace("sched-system", system)
    subprocess.run([*command, "apply", "-f", "-"], input=text, check=True, capture_output=True, text=True)


def _rules_of_the_scheduler() -> list[dict[str, Any]]:
    """What it may see of the whole cluster, as the manifests say."""
    documents = yaml.safe_load_all((MANIFESTS / "base" / "rbac.yaml").read_text())
    rules: list[dict[str, Any]] = next(
        each["rules"] for each in documents if each["metadata"]["name"] == "sched-cluster-reader"
    )
    return rules


def _bind(rights: client.RbacAuthorizationV1Api, namespace: str, role: str, account: str, of: str) -> None:
    subject = {"kind": "ServiceAccount", "name": account, "namespace": of}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role}
    body = {"metadata": {"name": role}, "roleRef": reference, "subjects": [subject]}
    rights.create_namespaced_role_binding(namespace, body)


def _kubeconfig(where: TestCluster, namespace: str, account: str, directory: Path) -> Path:
    """A kubeconfig that has nothing but the token of a service account, which is made."""
    where.core.create_namespaced_service_account(namespace, {"metadata": {"name": account}})
    body = {"spec": {"audiences": [], "expirationSeconds": 3600}}
    made = where.core.create_namespaced_service_account_token(account, namespace, body)
    known = yaml.safe_load(where.kubeconfig.read_text())
    known["users"] = [{"name": each["name"], "user": {"token": made.status.token}} for each in known["users"]]
    path = directory / f"{namespace}-{account}.json"
    path.write_text(json.dumps(known))
    return path


def _finish(tenants: list[Tenant]) -> None:
    """Their objects go while the daemon is there to let go of them."""
    for tenant in tenants:
        jobs = client.CustomObjectsApi(tenant.admin.api_client)
        where = (GROUP, VERSION, tenant.namespace, PLURAL)
        for item in jobs.list_namespaced_custom_object(*where)["items"]:
            with suppress(ApiException):
                jobs.delete_namespaced_custom_object(*where, item["metadata"]["name"])
        eventually(
            lambda jobs=jobs, where=where: not jobs.list_namespaced_custom_object(*where)["items"],  # type: ignore[misc]
            "TrainingJobs do not go",
            SECONDS_MAX,
        )
