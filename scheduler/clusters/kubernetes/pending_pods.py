"""Pending foreign pods, for which workers may have to leave."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.clusters.kubernetes.api.documents import Document
from scheduler.clusters.kubernetes.api.quantities import NONE, Amounts
from scheduler.clusters.kubernetes.nodes import AffinityTerms, NodeFacts, Selector, node_terms, qualifies, tolerated
from scheduler.clusters.kubernetes.pods import requests_of
from scheduler.model.foreign import Demand
from scheduler.model.ids import NodeName
from scheduler.model.shape import WorkerShape


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod that the cluster's scheduler found no room for."""

    name: str
    priority: int
    created: str
    amounts: Amounts
    selector: Selector
    terms: AffinityTerms
    tolerations: tuple[Mapping[str, Any], ...]
    #: Node where the cluster's scheduler is already making room for it.
    nominated: NodeName | None

    def demand(self, nodes: Iterable[NodeFacts]) -> Demand:
        """Its demand, with the nodes that may serve it."""
        shape = WorkerShape(self.amounts.touched_slots, self.amounts.finite_cpus, self.amounts.touched_mib)
        if self.nominated is not None:
            return Demand(self.name, shape, frozenset({self.nominated}))
        facts = list(nodes)
        suitable = frozenset(node.name for node in facts if self._suits(node))
        return Demand(self.name, shape, suitable if len(suitable) < len(facts) else None)

    def _suits(self, node: NodeFacts) -> bool:
        return tolerated(node.taints, self.tolerations) and qualifies(node.known_by, self.selector, self.terms)


def waiting_pod(pod: Document, resource: str) -> WaitingPod | None:
    """The pod as a pending one that workers could make room for; None if it is not."""
    metadata, spec, status = pod["metadata"], pod.get("spec", {}), pod.get("status", {})
    if spec.get("nodeName") or metadata.get("deletionTimestamp") or not _unschedulable(status):
        return None
    amounts = requests_of(spec, resource)
    if amounts == NONE:
        return None
    selector, terms = node_terms(spec)
    return WaitingPod(
        name=f"{metadata['namespace']}/{metadata['name']}",
        priority=spec.get("priority") or 0,
        created=metadata.get("creationTimestamp", ""),
        amounts=amounts,
        selector=selector,
        terms=terms,
        tolerations=tuple(spec.get("tolerations") or ()),
        nominated=NodeName(status["nominatedNodeName"]) if status.get("nominatedNodeName") else None,
    )


def demands_of(waiting: Iterable[WaitingPod], nodes: Iterable[NodeFacts], priority_min: int) -> tuple[Demand, ...]:
    """Demands of pods of at least this priority, the most important and oldest first."""
    facts = list(nodes)
    chosen = [pod for pod in waiting if pod.priority >= priority_min]
    chosen.sort(key=lambda pod: (-pod.priority, pod.created, pod.name))
    return tuple(pod.demand(facts) for pod in chosen)


def _unschedulable(status: Mapping[str, Any]) -> bool:
    return any(
        condition["type"] == "PodScheduled"
        and condition["status"] == "False"
        and condition.get("reason") == "Unschedulable"
        for condition in status.get("conditions") or ()
    )
