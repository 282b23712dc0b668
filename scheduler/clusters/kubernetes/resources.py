"""What a worker's pod asks of the cluster by the numbers of its job."""

from scheduler.clusters.kubernetes.api.quantities import Amounts, amounts_of
from scheduler.clusters.kubernetes.pods import WorkerPod
from scheduler.config import KubernetesSettings
from scheduler.engine.ports import StartWorker


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


def own_amounts(who: WorkerPod, settings: KubernetesSettings) -> Amounts:
    """What the pod asks for by its job's numbers; its template, and defaults of the namespace, may ask for more."""
    return amounts_of(own_resources(who, settings)[0], settings.resource)
