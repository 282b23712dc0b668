"""The Cluster port on Kubernetes: observes from memory, applies by requests.

A worker's pod has a name that follows from its worker, so that a start which is repeated, by this daemon or the next,
makes no second one. Pods that ended stay until the engine has stored their end and forgets them.
"""

import math
import random
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import assert_never

import structlog

from scheduler.clusters.kubernetes.addresses import namespace_of, pod_name
from scheduler.clusters.kubernetes.api.connection import NODES, PODS, Connection, in_namespace
from scheduler.clusters.kubernetes.api.documents import Document
from scheduler.clusters.kubernetes.api.errors import (
    BAD_REQUEST,
    CONFLICT,
    FORBIDDEN,
    INTERNAL,
    INVALID,
    NOT_FOUND,
    TOO_LARGE,
    RefusedError,
)
from scheduler.clusters.kubernetes.api.reflector import Reflector
from scheduler.clusters.kubernetes.cache import ClusterCache
from scheduler.clusters.kubernetes.event_lookup import EventLookup
from scheduler.clusters.kubernetes.known_worker import KnownWorker
from scheduler.clusters.kubernetes.logs import KubernetesLogs
from scheduler.clusters.kubernetes.manifest import pod_manifest
from scheduler.clusters.kubernetes.oversell.exporters import Exporters
from scheduler.clusters.kubernetes.oversell.overselling import Overselling
from scheduler.clusters.kubernetes.pods import WorkerPods
from scheduler.clusters.kubernetes.prerequisites import NotGrantedError, Prerequisites
from scheduler.clusters.kubernetes.retry_backoff import RetryBackoff
from scheduler.config import KubernetesSettings
from scheduler.engine.apply.carry_out import unforeseen
from scheduler.engine.ports import TOO_LATE, ActionFailure, Clock, ClusterAction, ForgetWorker, StartWorker, StopWorker
from scheduler.errors import ClusterError, InvalidInput
from scheduler.model.ids import JobId, WorkerId, job_of
from scheduler.model.observation import EndCause, Observation, Phase

log = structlog.get_logger(__name__)

_FIRST_LIST_SECONDS = 60.0
#: The API takes 0 for "forget the pod at once", whether its processes are gone or not.
_GRACE_SECONDS_MIN = 1
#: Longest wait for the log of a worker that has ended.
_LOG_SECONDS_MAX = 2.0
#: Refusals that no repetition will change.
_FOR_GOOD = (BAD_REQUEST, INVALID, TOO_LARGE)
#: Refusals that may end: by a quota, a policy, a missing right, a namespace that was removed, a webhook that is away.
_FOR_NOW = (FORBIDDEN, NOT_FOUND, INTERNAL)


class KubernetesCluster:
    """The `Cluster` port. Any number of daemons may hold one; only the leader applies."""

    def __init__(
        self, settings: KubernetesSettings, clock: Clock, randomness: random.Random, state_dir: Path, secret: bytes
    ) -> None:
        """Reads all nodes and pods; if the API server does not give them, goes on without.

        Raises `ConfigError` if there is no usable configuration.

        `state_dir`: keeps the logs of workers whose pods are gone. `secret`: see `WorkerPods`.
        """
        self._settings = settings
        self._clock = clock
        self._connection = Connection(settings, clock)
        self._pods = WorkerPods(settings, secret)
        self._cache = ClusterCache(settings, self._pods, clock.now)
        self.logs = KubernetesLogs(self._connection, settings, state_dir, self._cache.worker)
        self._event_lookup = EventLookup(self._connection, self._cache, self._wake)
        self._retry_backoff = RetryBackoff(clock.monotonic, settings.launch_limit_seconds)
        self._prerequisites = Prerequisites(self._connection, settings, self._retry_backoff)
        self._wakes: list[Callable[[], None]] = []
        self._hands = ThreadPoolExecutor(settings.connections, "kubernetes-apply")
        exporters = Exporters(settings.gpu_exporter)
        pods = _Pods(self._cache, self._event_lookup, exporters)
        self._reflectors = [
            Reflector(NODES, self._connection, _Nodes(self._cache, settings.resource), self._wake, clock, randomness),
            Reflector(PODS, self._connection, pods, self._wake, clock, randomness),
        ]
        for reflector in self._reflectors:
            reflector.start()
        for reflector in self._reflectors:
            reflector.wait(_FIRST_LIST_SECONDS)
        self._overselling = Overselling(settings, self._connection, self._cache, exporters, clock, self._wake)
        self._tell_of_missing_rights()

    def observe(self) -> Observation:
        """Raises `ClusterError` while the known state is too old to rely on; no worker counts as lost by that."""
        for reflector in self._reflectors:
            trouble = reflector.trouble(self._settings.stale_seconds)
            if trouble is not None:
                raise ClusterError(trouble)
        self._event_lookup.about_delays(self._settings.launch_limit_seconds / 2)
        return replace(self._cache.observe(), loads=self._overselling.loads)

    def apply(self, actions: Sequence[ClusterAction], until: float = math.inf) -> Sequence[ActionFailure]:
        """Consecutive actions of one kind run concurrently."""
        if self._clock.now() >= until:
            return [ActionFailure(action, TOO_LATE) for action in actions]
        self._prerequisites.begin_round()
        failures: list[ActionFailure] = []
        for _, run in groupby(actions, type):
            done = self._hands.map(lambda action: self._tried(action, until), run)
            failures += [failure for failure in done if failure is not None]
        return failures

    def troubles(self) -> list[str]:
        """Failures to read the load of slots that may be shared; for any other failure `observe` raises."""
        return self._overselling.troubles()

    def on_change(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from a thread of the cluster, whenever `observe` would give more than what `apply` caused."""
        self._wakes.append(wake)

    def close(self) -> None:
        """Stop reading; pods go on."""
        self._connection.close()
        self._overselling.close()
        self.logs.close()
        self._event_lookup.close()
        self._hands.shutdown(cancel_futures=True)
        for reflector in self._reflectors:
            reflector.close()

    def _tell_of_missing_rights(self) -> None:
        """Log why no workers can be started in a namespace, before any are to be."""
        for namespace in self._settings.worker_namespaces:
            try:
                self._prerequisites.owner(namespace, self._clock.now() + self._settings.request_seconds)
            except ClusterError as error:
                log.warning("kubernetes: cannot start workers", namespace=namespace, error=str(error))
                if not isinstance(error, NotGrantedError):
                    return  # it would be the same in each of them, and take as long

    def _wake(self) -> None:
        for wake in self._wakes:
            wake()

    def _tried(self, action: ClusterAction, until: float) -> ActionFailure | None:
        try:
            match action:
                case StartWorker():
                    self._start(action, until)
                case StopWorker():
                    self._stop(action, until)
                case ForgetWorker():
                    self._forget(action, until)
                case _:
                    assert_never(action)
        except ClusterError as error:
            return ActionFailure(action, str(error))
        except Exception as error:
            return unforeseen(action, error)
        return None

    def _start(self, start: StartWorker, until: float) -> None:
        if self._cache.worker(start.worker_id) is not None:
            return
        try:
            namespace = namespace_of(self._settings, start.pod_template)
            if namespace not in self._settings.worker_namespaces:
                raise InvalidInput("pod_template.metadata.namespace", f"{namespace} is no namespace of workers")
            self._start_in(namespace, start, until)
        except InvalidInput as error:
            self._cache.refuse(start, self._settings.namespace, str(error), EndCause.CANNOT_START)

    def _start_in(self, namespace: str, start: StartWorker, until: float) -> None:
        if not self._cache.has_node(start.node):
            raise ClusterError(f"node {start.node} not found")
        owner = self._owner(namespace, start, until)
        if owner is None:
            return
        refusal = self._retry_backoff.standing(start.worker_id)
        if refusal is not None:
            raise ClusterError(refusal)
        try:
            gpus = self._overselling.gpus_for(start)
        except ClusterError as error:
            self._postpone(start, namespace, str(error))
            return
        body = pod_manifest(start, self._settings, owner, self._pods.seal, gpus)
        try:
            self._prerequisites.isolate(start.job_id, namespace, owner, until)
            pod = self._connection.create(in_namespace(namespace, "pods"), body, until)
        except RefusedError as error:
            found = self._found_instead(start, namespace, error, until)
            if found is None:
                return
            pod = found
        self._retry_backoff.drop(start.worker_id)
        self._cache.put_pod(pod, answered=True)

    def _owner(self, namespace: str, start: StartWorker, until: float) -> Document | None:
        """The owner of the pod to be made, which has a pace of its own; None: the worker is given up."""
        name = f"{namespace}/{start.worker_id}"
        try:
            owner = self._prerequisites.owner(namespace, until)
        except NotGrantedError as error:
            self._postpone(start, namespace, str(error), name)
            return None
        self._retry_backoff.drop(name)
        return owner

    def _found_instead(self, start: StartWorker, namespace: str, error: RefusedError, until: float) -> Document | None:
        """The worker's pod, if it exists although its creation was refused; None: the worker is given up."""
        if error.status in _FOR_GOOD:
            # An admission webhook refuses as a bad request, and may judge otherwise the next time.
            cause = None if error.status == BAD_REQUEST else EndCause.CANNOT_START
            self._cache.refuse(start, namespace, str(error), cause)
            return None
        # A start that is refused now may have been granted before.
        if error.status not in _FOR_NOW and error.reason != "AlreadyExists":
            raise error
        pod = self._read(namespace, start.worker_id, start.nonce, until)
        who = self._pods.worker(pod) if pod is not None else None
        if who is not None and (who.worker_id, who.nonce) == (start.worker_id, start.nonce):
            return pod  # an earlier start succeeded without an answer
        why = str(error)
        if pod is not None:
            why = f"pod {pod['metadata']['name']} exists, but is not a worker of {self._settings.instance}"
        self._postpone(start, namespace, why)
        return None

    def _postpone(self, start: StartWorker, namespace: str, why: str, name: str | None = None) -> None:
        """Raise `ClusterError`, so that the start is tried again; give the worker up if it has waited for too long.

        `name`: of what was refused; None: of the worker.
        """
        name = name or start.worker_id
        if not self._retry_backoff.add(name, why):
            raise ClusterError(why)
        self._retry_backoff.drop(name)
        self._cache.refuse(start, namespace, why, EndCause.NOT_ADMITTED)

    def _stop(self, stop: StopWorker, until: float) -> None:
        self._retry_backoff.drop(stop.worker_id)
        known = self._cache.worker(stop.worker_id) or self._unseen(stop, until)
        if known is None:
            self._leave_nothing(job_of(stop.worker_id), until)
        if known is None or known.gone or not known.state.alive:
            return
        grace_seconds = max(_GRACE_SECONDS_MIN, math.ceil(stop.grace_seconds))
        if known.state.phase is Phase.RUNNING:
            self.logs.keep_to_end(known, grace_seconds, until - self._clock.now())
        self._delete(known, grace_seconds, until)

    def _forget(self, forget: ForgetWorker, until: float) -> None:
        known = self._cache.worker(forget.worker_id)
        if known is None:
            return
        if known.state.alive:
            raise ClusterError("it is still alive")
        if not self._cache.has_live_workers(known.who.job_id):
            # Before the last pod is deleted: if the daemon dies in between, the next one finds that pod and goes on.
            self._prerequisites.release(known.who.job_id, known.who.namespace, until)
        if not known.gone:
            self.logs.keep(known, min(_LOG_SECONDS_MAX, until - self._clock.now()))
            # A pod that has ended is deleted at once; sidecars that still run are asked to end.
            self._delete(known, 0 if known.over else _GRACE_SECONDS_MIN, until)
        self._cache.forget(forget.worker_id)

    def _leave_nothing(self, job_id: JobId, until: float) -> None:
        """Remove the prerequisites of a job whose worker was given up before its pod was made."""
        if not self._cache.has_live_workers(job_id):
            for namespace in self._settings.worker_namespaces:
                self._prerequisites.release(job_id, namespace, until)

    def _unseen(self, stop: StopWorker, until: float) -> KnownWorker | None:
        """Look up a worker that list and watch have not shown: its start may have succeeded without an answer."""
        for namespace in self._settings.worker_namespaces:
            pod = self._read(namespace, stop.worker_id, stop.nonce, until)
            if pod is not None:
                self._cache.put_pod(pod, answered=True)
        return self._cache.worker(stop.worker_id)

    def _read(self, namespace: str, worker_id: WorkerId, nonce: str, until: float) -> Document | None:
        """The pod of this worker's name, as it is now; None: there is none, also where nothing may be read.

        The rights in a namespace go with it. What was made there before is listed: that is a right of all namespaces.
        """
        try:
            return self._connection.get(
                in_namespace(namespace, "pods", pod_name(self._settings.instance, worker_id, nonce)), until
            )
        except RefusedError as error:
            if error.status in (NOT_FOUND, FORBIDDEN):
                return None
            raise

    def _delete(self, known: KnownWorker, grace_seconds: int, until: float) -> None:
        """Delete the pod with this uid, and no other pod of the same name."""
        self._event_lookup.expect(known.uid)
        body = {"gracePeriodSeconds": grace_seconds, "preconditions": {"uid": known.uid}}
        try:
            self._connection.delete(in_namespace(known.who.namespace, "pods", known.name), until, body)
        except RefusedError as error:
            # Not found, or another of the same name: this one is gone, and the watch will say so.
            if error.status not in (NOT_FOUND, CONFLICT):
                raise


class _Nodes:
    """Sink of the nodes' reflector."""

    def __init__(self, cache: ClusterCache, resource: str) -> None:
        self._cache = cache
        self._resource = resource

    def begin(self) -> None:
        """Nodes come by lists and watches only."""

    def put(self, item: Document) -> bool:
        return self._cache.put_node(item)

    def remove(self, item: Document) -> bool:
        return self._cache.remove_node(item)

    def keep_only(self, items: Iterable[tuple[str, str]]) -> bool:
        news = self._cache.keep_nodes({name for name, _ in items})
        if not self._cache.offers_slots():
            log.warning("kubernetes: no node offers the resource used as a slot", resource=self._resource)
        return news


class _Pods:
    """Sink of the pods' reflector."""

    def __init__(self, cache: ClusterCache, event_lookup: EventLookup, exporters: Exporters) -> None:
        self._cache = cache
        self._event_lookup = event_lookup
        self._exporters = exporters

    def begin(self) -> None:
        self._cache.begin_pods()

    def put(self, item: Document) -> bool:
        if item["metadata"].get("deletionTimestamp") and self._cache.is_ours(item):
            self._event_lookup.about_deletion(item["metadata"]["namespace"], item["metadata"]["uid"])
        self._exporters.put(item)
        return self._cache.put_pod(item)

    def remove(self, item: Document) -> bool:
        self._exporters.drop(item["metadata"]["uid"])
        return self._cache.remove_pod(item)

    def keep_only(self, items: Iterable[tuple[str, str]]) -> bool:
        uids = {uid for _, uid in items}
        self._exporters.keep_only(uids)
        return self._cache.keep_pods(uids)
