"""Reasons from the events of a pod where its status gives none: read in the background, for few pods and rarely."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import structlog

from scheduler.clusters.kubernetes.api.connection import Connection
from scheduler.clusters.kubernetes.cache import ClusterCache
from scheduler.clusters.kubernetes.known_worker import KnownWorker
from scheduler.clusters.kubernetes.pod_status import complaint, was_displaced
from scheduler.errors import ClusterError

log = structlog.get_logger(__name__)

#: Whoever deletes a pod writes its reason down a moment later.
_MOMENT_SECONDS = 0.3
#: Pods whose deletion was asked about; no more are remembered.
_REMEMBERED_MAX = 10_000


class EventLookup:
    """Reads the events of pods and corrects their known state."""

    def __init__(self, connection: Connection, cache: ClusterCache, changed: Callable[[], None]) -> None:
        self._connection = connection
        self._cache = cache
        self._changed = changed
        self._thread = ThreadPoolExecutor(1, "kubernetes-events")
        self._closed = threading.Event()
        self._known: dict[str, None] = {}

    def close(self) -> None:
        """Stop asking."""
        self._closed.set()
        self._thread.shutdown(cancel_futures=True)

    def expect(self, uid: str) -> None:
        """Note that this scheduler deletes the pod, so its deletion needs no explanation."""
        if len(self._known) >= _REMEMBERED_MAX:
            self._known.pop(next(iter(self._known)), None)
        self._known[uid] = None

    def about_deletion(self, namespace: str, uid: str) -> None:
        """Find out whether the cluster's scheduler deletes a pod."""
        if uid not in self._known and not self._closed.is_set():
            self.expect(uid)
            self._thread.submit(self._explain_deletion, namespace, uid)

    def about_delays(self, seconds: float) -> None:
        """Look up what delays workers that have not started for `seconds` and whose status gives no reason."""
        for known in self._cache.silent(seconds):
            self._thread.submit(self._explain_delay, known)

    def _explain_deletion(self, namespace: str, uid: str) -> None:
        if self._closed.wait(_MOMENT_SECONDS):
            return
        try:
            displaced = was_displaced(self._connection.events_of(namespace, uid))
        except ClusterError as error:
            log.warning("kubernetes: cannot determine who deleted a pod", uid=uid, error=str(error))
            return
        if displaced and self._cache.displace(uid):
            self._changed()

    def _explain_delay(self, known: KnownWorker) -> None:
        try:
            said = complaint(self._connection.events_of(known.who.namespace, known.uid))
        except ClusterError:
            return  # asked again
        if said is not None and self._cache.explain(known.who.worker_id, said):
            self._changed()
