"""What the API server tells of the pods of a namespace, with the moments at which it was told: a watch in a thread.

Moments are those of `time.monotonic`. What a pod holds counts from its binding to a node until it has ended or is gone,
as the cluster's scheduler counts it.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import urllib3
from kubernetes import watch
from kubernetes.client.exceptions import ApiException

from scheduler.clusters.kubernetes.pods import JOB

_WATCH_SECONDS = 2
_RETRY_SECONDS = 0.2
_END_SECONDS = 30.0


@dataclass(slots=True)
class SeenPod:
    """One pod; None for what has not happened to it."""

    name: str
    #: The job whose worker it is; None: somebody else's.
    job: int | None
    slots: int
    created_at: float
    bound_at: float | None = None
    ready_at: float | None = None
    #: When its deletion was asked for.
    asked_at: float | None = None
    gone_at: float | None = None

    def holds(self, at: float) -> bool:
        """Whether its requests count at this moment."""
        return self.bound_at is not None and self.bound_at <= at and (self.gone_at is None or at < self.gone_at)


@dataclass(slots=True)
class PodWatch:
    """Runs from entry to exit; `pods` may be read meanwhile and afterwards."""

    core: Any
    namespace: str
    resource: str
    _pods: dict[str, SeenPod] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> "PodWatch":
        self._thread = threading.Thread(target=self._run, name="pods", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join(_END_SECONDS)

    @property
    def pods(self) -> list[SeenPod]:
        """All that were ever seen, in the order in which they came."""
        return list(self._pods.values())

    def of_others(self) -> list[SeenPod]:
        """Those that are no workers."""
        return [pod for pod in self.pods if pod.job is None]

    def workers(self, job: int) -> list[SeenPod]:
        """Those of one job."""
        return [pod for pod in self.pods if pod.job == job]

    def _run(self) -> None:
        """One watch after the other, each from where the last one ended."""
        version: str | None = None
        while not self._over.is_set():
            try:
                version = self._follow(version)
            except (ApiException, urllib3.exceptions.HTTPError):
                version = None  # too old, or the server was away: the list tells what is there now
                self._over.wait(_RETRY_SECONDS)

    def _follow(self, version: str | None) -> str:
        if version is None:
            listed = self.core.list_namespaced_pod(self.namespace)
            for pod in listed.items:
                self._see(pod, gone=False)
            version = str(listed.metadata.resource_version)
        stream = watch.Watch()
        for event in stream.stream(
            self.core.list_namespaced_pod, self.namespace, resource_version=version, timeout_seconds=_WATCH_SECONDS
        ):
            self._see(event["object"], gone=event["type"] == "DELETED")
        return str(stream.resource_version or version)

    def _see(self, pod: Any, *, gone: bool) -> None:
        now = time.monotonic()
        seen = self._pods.get(pod.metadata.uid)
        if seen is None:
            job = (pod.metadata.labels or {}).get(JOB)
            seen = SeenPod(pod.metadata.name, int(job) if job else None, self._slots(pod), now)
            self._pods[pod.metadata.uid] = seen
        if pod.spec.node_name and seen.bound_at is None:
            seen.bound_at = now
        if seen.ready_at is None and _is_ready(pod):
            seen.ready_at = now
        if seen.asked_at is None and pod.metadata.deletion_timestamp is not None:
            seen.asked_at = now
        if seen.gone_at is None and (gone or pod.status.phase in ("Succeeded", "Failed")):
            seen.gone_at = now

    def _slots(self, pod: Any) -> int:
        requests = [(each.resources.requests if each.resources else None) or {} for each in pod.spec.containers]
        return sum(int(each.get(self.resource, 0)) for each in requests)


def used_share(pods: Sequence[SeenPod], slots: int, begin: float, end: float) -> float:
    """Requests of these over what the nodes offer, on average between two moments."""
    held = sum(pod.slots * _overlap(pod, begin, end) for pod in pods)
    return held / (slots * (end - begin))


def moments(pods: Sequence[SeenPod], begin: float, end: float) -> Iterator[tuple[float, int]]:
    """(moment, slots held from then on), from `begin` on wherever that changes before `end`."""
    changes = {begin}
    for pod in pods:
        changes |= {at for at in (pod.bound_at, pod.gone_at) if at is not None and begin < at < end}
    for at in sorted(changes):
        yield at, sum(pod.slots for pod in pods if pod.holds(at))


def _overlap(pod: SeenPod, begin: float, end: float) -> float:
    if pod.bound_at is None:
        return 0.0
    until = end if pod.gone_at is None else min(pod.gone_at, end)
    return max(0.0, until - max(pod.bound_at, begin))


def _is_ready(pod: Any) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions or ())
