"""What a service account of a test may do in the whole of a cluster."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kubernetes import client


@contextmanager
def cluster_rights(
    rights: client.RbacAuthorizationV1Api, name: str, rules: Sequence[dict[str, Any]], account: str, namespace: str
) -> Iterator[None]:
    """Until the end of the block, by a cluster role and its binding of this name."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    rights.create_cluster_role({"metadata": {"name": name}, "rules": rules})
    rights.create_cluster_role_binding({"metadata": {"name": name}, "roleRef": role, "subjects": [subject]})
    try:
        yield
    finally:
        rights.delete_cluster_role_binding(name)
        rights.delete_cluster_role(name)
