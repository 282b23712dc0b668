"""What a worker's pod asks of the cluster by the numbers of its job."""

from collections.abc import Mapping
from typing import Any

from scheduler.clusters.kubernetes.api.quantities import NONE, Amounts, amounts_of
from scheduler.clusters.kubernetes.names import NAME
from scheduler.clusters.kubernetes.pods import WorkerPod, requests_of
from scheduler.config import KubernetesSettings
from scheduler.engine.ports import StartWorker

_PARTS = ("containers", "initContainers")


def own_resources(who: StartWorker | WorkerPod, settings: KubernetesSettings) -> tuple[dict[str, str], dict[str, str]]:
    """Requests and limits. CPUs are not limited: a worker may use idle ones.

    The cluster gives a slot to one pod only: who shares slots asks for none of them.
    """
    slots = len(who.slot_ids)
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    cpus = who.cpus
    if settings.has_gpus:
        requests[settings.resource] = limits[settings.resource] = "0" if who.shared else str(slots)
    elif who.shared:
        cpus = max(cpus - slots, 0.0)
        requests["cpu"] = "0"  # else the default of its namespace would count
    else:
        cpus = max(cpus, float(slots))
    if cpus > 0:
        requests["cpu"] = f"{round(cpus * 1000)}m"
    if who.memory_mib > 0:
        requests["memory"] = limits["memory"] = f"{who.memory_mib}Mi"
    return requests, limits


def own_amounts(who: StartWorker | WorkerPod, settings: KubernetesSettings) -> Amounts:
    """What the pod asks for by its job's numbers; its template, and defaults of the namespace, may ask for more."""
    return amounts_of(own_resources(who, settings)[0], settings.resource)


def asks_more(spec: Mapping[str, Any], start: StartWorker, settings: KubernetesSettings) -> bool:
    """Whether the pod that the template gives asks for more than its job's numbers say."""
    asked = {part: [_as_defaulted(each) for each in spec.get(part, ()) if each.get("name") != NAME] for part in _PARTS}
    more = requests_of({**spec, **asked}, settings.resource).beyond(own_amounts(start, settings))
    return more != NONE


def _as_defaulted(container: Mapping[str, Any]) -> dict[str, Any]:
    """The container with its limits as requests where it has none, as the API server has it."""
    resources = container.get("resources") or {}
    requests = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {**container, "resources": {"requests": requests}}
