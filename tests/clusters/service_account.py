"""Service accounts of a control plane, which may do what a test says."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from tests.clusters.cluster_rights import cluster_rights
from tests.clusters.control_plane import ControlPlane
from tests.clusters.control_plane_daemon import SECONDS_MAX
from tests.daemon import ROOT
from tests.eventually import becomes


class Account:
    """A service account, and a kubeconfig that has its token."""

    def __init__(self, plane: ControlPlane, name: str, kubeconfig: Path) -> None:
        self._plane, self._name, self.kubeconfig = plane, name, kubeconfig

    def create(self) -> None:
        self._plane.core.create_namespaced_service_account("default", {"metadata": {"name": self._name}})
        body = {"spec": {"audiences": ["https://kubernetes.default.svc"], "expirationSeconds": 3600}}
        made = self._plane.core.create_namespaced_service_account_token(self._name, "default", body)
        self.kubeconfig.write_text(self._plane.kubeconfig_with(made.status.token))

    def delete(self) -> None:
        """Its tokens are worth nothing any more."""
        self._plane.core.delete_namespaced_service_account(self._name, "default")
        # The API server remembers them for some seconds.
        becomes(self._is_accepted, False, SECONDS_MAX)

    def _is_accepted(self) -> bool:
        with config.new_client_from_config(str(self.kubeconfig)) as api:
            try:
                client.CoreV1Api(api).list_node()
            except ApiException as error:
                return bool(error.status != 401)
        return True

    def allowed(
        self, rules: list[dict[str, Any]] | None = None, name: str | None = None
    ) -> AbstractContextManager[None]:
        """It may do this, or anything, until the end of the block."""
        everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
        return cluster_rights(self._plane.rights, name or self._name, rules or everything, self._name, "default")

    @contextmanager
    def works_in(self, namespace: str) -> Iterator[None]:
        """It may do there what a scheduler does in a namespace of workers, until the end of the block."""
        role, binding = yaml.safe_load_all((ROOT / "manifests/workers/rbac.yaml").read_text())
        binding["subjects"] = [{"kind": "ServiceAccount", "name": self._name, "namespace": "default"}]
        rights = self._plane.rights
        rights.create_namespaced_role(namespace, role)
        rights.create_namespaced_role_binding(namespace, binding)
        becomes(lambda: self._works_in(namespace), True)
        try:
            yield
        finally:
            rights.delete_namespaced_role_binding(binding["metadata"]["name"], namespace)
            rights.delete_namespaced_role(role["metadata"]["name"], namespace)
            becomes(lambda: self._works_in(namespace), False)

    def _works_in(self, namespace: str) -> bool:
        """Whether the API server lets it, which hears of rights a moment later."""
        with config.new_client_from_config(str(self.kubeconfig)) as api:
            try:
                client.CoreV1Api(api).read_namespaced_pod("no-such", namespace)
            except ApiException as error:
                return bool(error.status != 403)
        return True
