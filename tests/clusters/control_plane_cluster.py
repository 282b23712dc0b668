"""The Kubernetes cluster of a daemon on a control plane: nodes and pods do what a test says."""

import math
import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

from kubernetes.client.exceptions import ApiException

from scheduler.clock import SystemClock
from scheduler.clusters.kubernetes.cluster import KubernetesCluster
from scheduler.config import KubernetesSettings
from scheduler.engine.ports import ActionFailure, ClusterAction, StartWorker
from scheduler.errors import ClusterError
from scheduler.model.ids import NodeName, WorkerId
from scheduler.model.observation import NodeObservation, Observation, Phase, WorkerObservation
from tests.clusters.control_plane import ControlPlane
from tests.clusters.desk import start_of

SECONDS_MAX = 120.0
UNBOUND = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}
W = WorkerId("7-1")
POD = "sched-7-1"


class AheadClock(SystemClock):
    """The machine's clock plus `ahead` seconds; it may be stopped."""

    ahead = 0.0
    #: Where it stands still: unix and monotonic seconds.
    _still: tuple[float, float] | None = None

    def now(self) -> float:
        return (super().now() if self._still is None else self._still[0]) + self.ahead

    def monotonic(self) -> float:
        return (super().monotonic() if self._still is None else self._still[1]) + self.ahead

    def stop(self) -> None:
        self._still = super().now(), super().monotonic()


class Site:
    """A cluster on the control plane, with a node `a` of four GPUs."""

    def __init__(self, plane: ControlPlane, **settings: Any) -> None:
        self.plane = plane
        self.settings: KubernetesSettings = plane.settings(**settings)
        self.clock = AheadClock()
        self.changed = Event()
        self.clusters: list[KubernetesCluster] = []
        plane.add_node("a")
        self.cluster = self.connect()

    def connect(self) -> KubernetesCluster:
        """One more daemon's."""
        cluster = KubernetesCluster(self.settings, self.clock, random.Random(1), Path(os.devnull), b"secret")
        self.clusters.append(cluster)
        cluster.on_change(self.changed.set)
        return cluster

    @property
    def namespace(self) -> str:
        return self.settings.namespace

    def apply(self, *actions: ClusterAction) -> list[ActionFailure]:
        return list(self.cluster.apply(actions, math.inf))

    def start(self, worker: str = W, **changes: Any) -> None:
        assert not self.apply(self.action(worker, **changes))

    def action(self, worker: str = W, **changes: Any) -> StartWorker:
        return replace(start_of(worker, NodeName("a"), (0, 1), ("train",)), **changes)

    def run(self) -> None:
        """Start the worker; its node runs it."""
        self.start()
        self.plane.bind(self.namespace, POD, "a")
        self.plane.container(self.namespace, POD, "Running", running={"startedAt": "2026-01-01T00:00:00Z"})
        self.worker(lambda seen: seen.phase is Phase.RUNNING)

    def until(self, predicate: Callable[[Observation], bool]) -> Observation:
        while True:
            self.changed.clear()
            observation = self.cluster.observe()
            if predicate(observation):
                return observation
            assert self.changed.wait(SECONDS_MAX), f"still {observation}"

    def trouble(self) -> str:
        """Why nothing can be observed; empty where it can."""
        try:
            self.cluster.observe()
        except ClusterError as error:
            return str(error)
        return ""

    def refusal(self) -> str:
        """Why the API server would not make a pod now; empty where it would."""
        body = {"metadata": {"name": "asked"}, "spec": {"containers": [{"name": "main", "image": "image:1"}]}}
        try:
            self.plane.core.create_namespaced_pod(self.namespace, body, dry_run="All")
        except ApiException as error:
            return str(error.body)
        return ""

    def worker(self, predicate: Callable[[WorkerObservation], bool]) -> WorkerObservation:
        return self.until(lambda seen: W in seen.workers and predicate(seen.workers[W])).workers[W]

    def node(self, predicate: Callable[[NodeObservation], bool], name: str = "a") -> NodeObservation:
        node = NodeName(name)
        return self.until(lambda seen: node in seen.nodes and predicate(seen.nodes[node])).nodes[node]

    def pods(self) -> list[Any]:
        return list(self.plane.core.list_namespaced_pod(self.namespace).items)

    def close(self) -> None:
        for cluster in self.clusters:
            cluster.close()
        for pod in self.plane.core.list_pod_for_all_namespaces().items:
            self.plane.vanish(pod.metadata.namespace, pod.metadata.name)
        for node in self.plane.core.list_node().items:
            self.plane.core.delete_node(node.metadata.name)


END = {"startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:01:00Z"}
