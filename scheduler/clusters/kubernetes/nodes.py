"""Facts of a node: its address, its capacity, and whether it accepts workers."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.clusters.kubernetes.api.documents import Document
from scheduler.clusters.kubernetes.api.quantities import NONE, Amounts, amounts_of
from scheduler.config import KubernetesSettings
from scheduler.model.foreign import NO_FOREIGN, ForeignUse
from scheduler.model.ids import NodeName
from scheduler.model.observation import NodeObservation

#: Says the same as the node's name. Nodes that differ in nothing else are alike, which makes planning fast.
NAME_LABEL = "kubernetes.io/hostname"
#: Labels that a pod selects its node by.
Selector = tuple[tuple[str, str], ...]
#: AffinityTerms of a pod's required node affinity, of which one has to match; empty: any node.
AffinityTerms = tuple[Mapping[str, Any], ...]
_KEEPING_OUT = ("NoSchedule", "NoExecute")
#: What the cluster itself sets on nodes that are cordoned or not ready, which is told otherwise.
_OWN_TAINTS = "node.kubernetes.io/"


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node without what others use of it."""

    name: NodeName
    host: str
    allocatable: Amounts
    labels: tuple[tuple[str, str], ...]
    gpu_type: str | None
    ready: bool
    closed: str
    #: Taints that keep out pods that do not tolerate them.
    taints: tuple[Mapping[str, Any], ...] = ()

    @property
    def known_by(self) -> dict[str, str]:
        """Its labels, its name among them."""
        return {**dict(self.labels), NAME_LABEL: self.name}

    def beside(self, foreign: Amounts, settings: KubernetesSettings, *, oversold: bool) -> NodeObservation:
        """The observation of the node while others hold `foreign`. `oversold`: whether its slots may be shared."""
        return NodeObservation(
            name=self.name,
            host=self.host,
            slots=self.allocatable.whole_slots,
            cpus=self.allocatable.finite_cpus,
            memory_mib=self.allocatable.whole_mib,
            labels=self.labels,
            gpu_type=self.gpu_type,
            has_gpus=settings.has_gpus,
            oversell=settings.oversell if oversold else 1.0,
            up=self.ready,
            closed=self.closed,
            foreign=foreign_use_of(foreign),
        )


def foreign_use_of(amounts: Amounts) -> ForeignUse:
    """What others hold, rounded up so that the rest is really free."""
    if amounts == NONE:
        return NO_FOREIGN
    return ForeignUse(amounts.touched_slots, amounts.finite_cpus, amounts.touched_mib)


def node_facts(node: Document, settings: KubernetesSettings) -> NodeFacts:
    """Read the facts of a node from its API object."""
    metadata, spec, status = node["metadata"], node.get("spec", {}), node.get("status", {})
    labels = {key: value for key, value in metadata.get("labels", {}).items() if key != NAME_LABEL}
    allocatable = amounts_of(status.get("allocatable", {}), settings.resource)
    return NodeFacts(
        name=NodeName(metadata["name"]),
        host=_address(status.get("addresses", ()), metadata["name"]),
        allocatable=allocatable,
        labels=tuple(sorted(labels.items())),
        gpu_type=labels.get(settings.gpu_type_label),
        ready=any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", ())),
        closed=_closed(spec, settings.tolerations)
        or ("" if allocatable.whole_slots else f"offers no {settings.resource}"),
        taints=tuple(_taints(spec)),
    )


def _address(addresses: Iterable[Mapping[str, str]], name: str) -> str:
    """Where workers on the network of the node are reached. Of a node with IPv4 and IPv6, its main address is first."""
    by_type: dict[str, str] = {}
    for each in addresses:
        by_type.setdefault(each["type"], each["address"])
    return by_type.get("InternalIP") or by_type.get("Hostname") or name


def _closed(spec: Mapping[str, Any], tolerations: Iterable[Mapping[str, Any]]) -> str:
    """Why the node accepts no new workers; empty if it does."""
    if spec.get("unschedulable"):
        return "cordoned in Kubernetes"
    for taint in _taints(spec):
        if not tolerated((taint,), tolerations):
            value = f"={taint['value']}" if taint.get("value") else ""
            return f"taint {taint['key']}{value}:{taint['effect']} is not tolerated"
    return ""


#: Taints that go with `unschedulable` and with a node that is not ready.
_TOLD_OTHERWISE = frozenset({"unschedulable", "not-ready", "unreachable"})


def _taints(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Taints that keep pods out, except those that only repeat another field."""
    for taint in spec.get("taints") or ():
        own = taint["key"].startswith(_OWN_TAINTS) and taint["key"].rpartition("/")[2] in _TOLD_OTHERWISE
        if taint["effect"] in _KEEPING_OUT and not own:
            yield taint


def tolerated(taints: Iterable[Mapping[str, Any]], tolerations: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a pod with these tolerations gets onto a node with these taints."""
    given = list(tolerations)
    return all(any(_tolerates(each, taint) for each in given) for taint in taints)


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return bool(toleration.get("key") == taint["key"] and toleration.get("value", "") == taint.get("value", ""))


def node_terms(spec: Mapping[str, Any]) -> tuple[Selector, AffinityTerms]:
    """What a pod requires of its node."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return tuple(sorted((spec.get("nodeSelector") or {}).items())), tuple(required.get("nodeSelectorTerms") or ())


def qualifies(labels: Mapping[str, str], selector: Selector, terms: AffinityTerms) -> bool:
    """Whether a node with these labels, its name among them, is one that a pod may be bound to."""
    if any(labels.get(key) != value for key, value in selector):
        return False
    return not terms or any(_matches(term, labels) for term in terms)


def _matches(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False  # as Kubernetes has it
    return all(_holds(each, labels.get(each["key"])) for each in expressions) and all(
        _holds(each, labels.get(NAME_LABEL)) for each in fields
    )


def _holds(rule: Mapping[str, Any], value: str | None) -> bool:
    values: list[str] = rule.get("values") or []
    match rule["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            try:
                left, right = int(value or ""), int(values[0])
            except (ValueError, IndexError):
                return False
            return left > right if rule["operator"] == "Gt" else left < right
        case _:
            return False
