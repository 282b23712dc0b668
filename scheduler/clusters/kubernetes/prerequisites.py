"""Objects that a namespace must have before the pod of a worker is made there.

An owner, so that all workers can be deleted at once; a service, which gives them names; for each job a network policy.
"""

import threading

import structlog

from scheduler.clusters.kubernetes.addresses import owner_name
from scheduler.clusters.kubernetes.api.connection import Connection, in_namespace
from scheduler.clusters.kubernetes.api.documents import Document
from scheduler.clusters.kubernetes.api.errors import BAD_REQUEST, FORBIDDEN, INTERNAL, INVALID, NOT_FOUND, RefusedError
from scheduler.clusters.kubernetes.manifest import owner_manifest, service_manifest
from scheduler.clusters.kubernetes.network import NETWORKING, policy_manifest, policy_name
from scheduler.clusters.kubernetes.retry_backoff import RetryBackoff
from scheduler.config import KubernetesSettings
from scheduler.errors import ClusterError
from scheduler.model.ids import JobId

log = structlog.get_logger(__name__)

#: Refusals that last until somebody changes something: the API server itself is well.
_NOT_GRANTED = (BAD_REQUEST, FORBIDDEN, NOT_FOUND, INVALID, INTERNAL)


class NotGrantedError(ClusterError):
    """The API server refuses to make it, as in a namespace that was removed, and may grant it later."""


class Prerequisites:
    """Makes these objects and removes them. Thread-safe."""

    def __init__(self, connection: Connection, settings: KubernetesSettings, retry_backoff: RetryBackoff) -> None:
        self._connection = connection
        self._settings = settings
        self._retry_backoff = retry_backoff
        self._lock = threading.Lock()
        #: Owners of this round by namespace, or why there is none.
        self._owners: dict[str, Document | ClusterError] = {}
        #: Namespaces and jobs whose policy has been made in this round.
        self._isolated: set[tuple[str, JobId]] = set()
        #: Namespaces in which policies may not be removed.
        self._left_behind: set[str] = set()

    def begin_round(self) -> None:
        """Forget what was made before: somebody may have deleted it."""
        with self._lock:
            self._owners.clear()
            self._isolated.clear()

    def owner(self, namespace: str, until: float) -> Document:
        """The owner of all workers of a namespace, as it is now. The service that names them is there, too.

        Raises `ClusterError`, with one reason per round, and `NotGrantedError` where that is no trouble on the way.
        """
        with self._lock:
            found = self._owners.get(namespace)
            if found is None:
                found = self._owners[namespace] = self._owner_or_error(namespace, until)
        if isinstance(found, ClusterError):
            raise found
        return found

    def isolate(self, job_id: JobId, namespace: str, owner: Document, until: float) -> None:
        """Restrict access to the job's pods to its own workers, if the settings ask for that."""
        if not self._settings.network_policies:
            return
        with self._lock:
            if (namespace, job_id) in self._isolated:
                return
            body = policy_manifest(self._settings, job_id, namespace, owner)
            try:
                self._connection.create(in_namespace(namespace, "networkpolicies", api=NETWORKING), body, until)
            except RefusedError as error:
                if error.reason != "AlreadyExists":
                    raise
            self._isolated.add((namespace, job_id))

    def release(self, job_id: JobId, namespace: str, until: float) -> None:
        """Remove the policy of a job without pods, if there is one. Where nobody may, it is left, or gone already."""
        if not self._settings.network_policies:
            return
        name = policy_name(self._settings.instance, job_id)
        try:
            self._connection.delete(in_namespace(namespace, "networkpolicies", name, api=NETWORKING), until)
        except RefusedError as error:
            if error.status == FORBIDDEN:
                self._tell_of_rest(namespace, str(error))
            elif error.status != NOT_FOUND:
                raise

    def _tell_of_rest(self, namespace: str, why: str) -> None:
        with self._lock:
            known = namespace in self._left_behind
            self._left_behind.add(namespace)
        if not known:
            log.warning("kubernetes: network policies may be left behind", namespace=namespace, error=why)

    def _owner_or_error(self, namespace: str, until: float) -> Document | ClusterError:
        name, key = owner_name(self._settings.instance), f"{namespace}/"
        refusal = self._retry_backoff.standing(key)
        if refusal is not None:
            return NotGrantedError(refusal)
        try:
            body = owner_manifest(self._settings, namespace)
            owner = self._connection.made(in_namespace(namespace, "configmaps"), name, body, until)
            body = service_manifest(self._settings, namespace, owner)
            self._connection.made(in_namespace(namespace, "services"), name, body, until)
        except RefusedError as error:
            if error.status not in _NOT_GRANTED:
                return error
            self._retry_backoff.add(key, str(error))
            return NotGrantedError(str(error))
        except ClusterError as error:
            return error
        self._retry_backoff.drop(key)
        return owner
