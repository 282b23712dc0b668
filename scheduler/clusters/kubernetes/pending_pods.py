"""Pending foreign pods, for which workers may have to leave."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any

from scheduler.clusters.kubernetes.api.documents import Document
from scheduler.clusters.kubernetes.api.quantities import NONE, Amounts
from scheduler.clusters.kubernetes.nodes import AffinityTerms, NodeFacts, Selector, node_terms, qualifies, tolerated
from scheduler.clusters.kubernetes.pods import requests_of
from scheduler.model.foreign import Demand
from scheduler.model.ids import NodeName
from scheduler.model.shape import WorkerShape

#: Demands at a time: those of the most important and oldest pods.
DEMANDS_MAX = 200
#: Rules and values by which one pod may choose its nodes; one with more counts as suiting any.
RULES_MAX = 100
#: Rules that are held against nodes for all demands, so that pods of others delay no tick by seconds. Kinds of pods
#: beyond that count as suiting any node.
COMPARISONS_MAX = 500_000
_KINDS_OF_RULES = ("matchExpressions", "matchFields")
#: A node, and its labels with its name.
_Labelled = tuple[NodeFacts, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Requirements:
    """What a pod says about its node."""

    selector: Selector
    terms: AffinityTerms
    tolerations: tuple[Mapping[str, Any], ...]

    @property
    def rules(self) -> int:
        """How much there is to be compared with each node; at least one."""
        each = [rule for term in self.terms for kind in _KINDS_OF_RULES for rule in term.get(kind) or ()]
        values = sum(len(rule.get("values") or ()) for rule in each)
        return 1 + len(self.selector) + len(self.terms) + len(each) + values + len(self.tolerations)

    def suits(self, node: NodeFacts, labels: Mapping[str, str]) -> bool:
        return tolerated(node.taints, self.tolerations) and qualifies(labels, self.selector, self.terms)


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod that the cluster's scheduler found no room for."""

    name: str
    priority: int
    created: str
    amounts: Amounts
    #: None: too many to be looked at.
    requirements: Requirements | None
    #: Node where the cluster's scheduler is already making room for it.
    nominated: NodeName | None

    @property
    def rank(self) -> tuple[int, str, str]:
        """The most important and oldest come first."""
        return -self.priority, self.created, self.name

    @property
    def shape(self) -> WorkerShape:
        return WorkerShape(self.amounts.touched_slots, self.amounts.finite_cpus, self.amounts.touched_mib)


class _Places:
    """Nodes that may serve pods, found once for each kind of pod."""

    def __init__(self, nodes: Iterable[NodeFacts]) -> None:
        self._nodes: list[_Labelled] = [(node, node.known_by) for node in nodes]
        self._found: dict[str, frozenset[NodeName] | None] = {}
        self._comparisons_left = COMPARISONS_MAX

    def of(self, pod: WaitingPod) -> frozenset[NodeName] | None:
        """Those of the pod; None: any."""
        if pod.nominated is not None:
            return frozenset({pod.nominated})
        if pod.requirements is None:
            return None
        kind = repr(pod.requirements)
        if kind not in self._found:
            self._found[kind] = self._suitable(pod.requirements)
        return self._found[kind]

    def _suitable(self, wanted: Requirements) -> frozenset[NodeName] | None:
        comparisons = wanted.rules * len(self._nodes)
        if comparisons > self._comparisons_left:
            return None
        self._comparisons_left -= comparisons
        suitable = frozenset(node.name for node, labels in self._nodes if wanted.suits(node, labels))
        return suitable if len(suitable) < len(self._nodes) else None


def waiting_pod(pod: Document, resource: str) -> WaitingPod | None:
    """The pod as a pending one that workers could make room for; None if it is not."""
    metadata, spec, status = pod["metadata"], pod.get("spec", {}), pod.get("status", {})
    if spec.get("nodeName") or metadata.get("deletionTimestamp") or not _unschedulable(status):
        return None
    amounts = requests_of(spec, resource)
    if amounts == NONE:
        return None
    requirements = Requirements(*node_terms(spec), tuple(spec.get("tolerations") or ()))
    return WaitingPod(
        name=f"{metadata['namespace']}/{metadata['name']}",
        priority=spec.get("priority") or 0,
        created=metadata.get("creationTimestamp", ""),
        amounts=amounts,
        requirements=requirements if requirements.rules <= RULES_MAX else None,
        nominated=NodeName(status["nominatedNodeName"]) if status.get("nominatedNodeName") else None,
    )


def demands_of(waiting: Iterable[WaitingPod], nodes: Iterable[NodeFacts], priority_min: int) -> tuple[Demand, ...]:
    """Demands of pods of at least this priority, the most important and oldest first; no more than `DEMANDS_MAX`."""
    places = _Places(nodes)
    chosen = nsmallest(DEMANDS_MAX, (pod for pod in waiting if pod.priority >= priority_min), key=lambda pod: pod.rank)
    return tuple(Demand(pod.name, pod.shape, places.of(pod)) for pod in chosen)


def _unschedulable(status: Mapping[str, Any]) -> bool:
    return any(
        condition["type"] == "PodScheduled"
        and condition["status"] == "False"
        and condition.get("reason") == "Unschedulable"
        for condition in status.get("conditions") or ()
    )
