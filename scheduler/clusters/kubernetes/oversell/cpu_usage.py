"""Load of CPU slots, by the usage of the workers' pods in the cluster's metrics API (metrics.k8s.io).

Where a metrics server is installed, it answers for all nodes at once, and needs no right on any node.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from scheduler.clusters.kubernetes.api.connection import Connection, in_namespace
from scheduler.clusters.kubernetes.api.documents import Document
from scheduler.clusters.kubernetes.api.errors import FORBIDDEN, NOT_FOUND, RefusedError
from scheduler.clusters.kubernetes.api.quantities import quantity
from scheduler.clusters.kubernetes.known_worker import KnownWorker
from scheduler.clusters.kubernetes.oversell.slot_gpus import loads_of_others
from scheduler.clusters.kubernetes.pods import PodKey
from scheduler.errors import ClusterError
from scheduler.model.observation import NodeObservation, SlotLoad

METRICS = "/apis/metrics.k8s.io/v1beta1"


class CpusUsed(NamedTuple):
    """CPU usage of pods, and why it is not known of the namespaces in which nothing may be read."""

    pods: dict[PodKey, float]
    closed: dict[str, str]


def cpus_used(connection: Connection, namespaces: Sequence[str], until: float) -> CpusUsed:
    """CPU usage of each pod of these namespaces. Raises `ClusterError`."""
    used = CpusUsed({}, {})
    for namespace in namespaces:
        try:
            answer = connection.get(in_namespace(namespace, "pods", api=METRICS), until)
        except RefusedError as error:
            if error.status == NOT_FOUND:
                raise ClusterError(
                    "the cluster has no metrics API (metrics.k8s.io): install a metrics server"
                ) from None
            if error.status != FORBIDDEN:
                raise
            used.closed[namespace] = str(error)  # it was removed, and with it what this scheduler may do there
            continue
        used.pods.update((PodKey(namespace, name), cpus) for name, cpus in _pods(answer))
    return used


def cpu_loads(
    node: NodeObservation, workers: Sequence[KnownWorker], used: Mapping[PodKey, float]
) -> tuple[SlotLoad, ...]:
    """Load of each slot of the node; a worker's usage is spread evenly over its slots."""
    loads = loads_of_others(node, workers)
    for each in workers:
        cpus = used.get(PodKey(each.who.namespace, each.name))
        for slot in each.who.slot_ids if cpus is not None else ():
            if slot < node.slots:
                loads[slot] = _plus(loads[slot], (cpus or 0.0) / len(each.who.slot_ids))
    return tuple(loads)


def _plus(load: SlotLoad, cpus: float) -> SlotLoad:
    return SlotLoad(load.memory, min((load.utilization or 0.0) + cpus, 1.0))


def _pods(answer: Document) -> list[tuple[str, float]]:
    """Names of pods and their CPU usage; an unreadable pod is left out."""
    found = []
    for item in answer.get("items") or ():
        try:
            usage = [quantity(str(each["usage"]["cpu"])) for each in item["containers"]]
            found.append((str(item["metadata"]["name"]), float(sum(usage))))
        except (KeyError, TypeError):
            continue
    return found
