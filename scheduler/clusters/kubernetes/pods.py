"""What matters of a pod: whose it is, where it is, what it holds; and who a worker's pod is of."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.clusters.kubernetes.addresses import pod_name
from scheduler.clusters.kubernetes.connection import Document
from scheduler.clusters.kubernetes.quantities import NONE, Amounts, amounts_of, total
from scheduler.model.ids import JobId, NodeName, WorkerId, job_of

PREFIX = "elastic-gpu-scheduler"
INSTANCE = f"{PREFIX}/instance"
JOB = f"{PREFIX}/job"
WORKER = f"{PREFIX}/worker"
GENERATION = f"{PREFIX}/generation"
#: Of the scaled workers of its job, or of its fixed group.
ROLE = f"{PREFIX}/role"
#: Annotations: where it was sent, and what it holds there.
NODE = f"{PREFIX}/node"
SLOTS = f"{PREFIX}/slots"
CPUS = f"{PREFIX}/cpus"
MEMORY_MIB = f"{PREFIX}/memory-mib"

_ENDED = ("Succeeded", "Failed")
#: More than any worker of a job has.
_SLOT_MAX, _CPUS_MAX, _MEMORY_MIB_MAX = 2**20, 2.0**20, 2**50


@dataclass(frozen=True, slots=True)
class WorkerPod:
    """Which worker a pod is, as its labels and annotations say."""

    worker_id: WorkerId
    job_id: JobId
    #: Of the pod.
    namespace: str
    node: NodeName
    slot_ids: tuple[int, ...]
    cpus: float
    memory_mib: int
    #: As the cluster's scheduler counts it.
    priority: int = 0


@dataclass(frozen=True, slots=True)
class ForeignPod:
    """What somebody else's pod holds of a node."""

    node: NodeName
    amounts: Amounts


def worker_pod(pod: Document, namespaces: Container[str], instance: str) -> WorkerPod | None:
    """The worker that this pod is; None for anybody else's pod."""
    metadata = pod["metadata"]
    labels, notes = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if metadata["namespace"] not in namespaces or labels.get(INSTANCE) != instance:
        return None
    try:
        who = WorkerPod(
            worker_id=WorkerId(labels[WORKER]),
            job_id=JobId(int(labels[JOB])),
            namespace=metadata["namespace"],
            node=NodeName(notes[NODE]),
            slot_ids=tuple(int(slot) for slot in notes[SLOTS].split(",") if slot),
            cpus=float(notes[CPUS]),
            memory_mib=int(notes[MEMORY_MIB]),
            priority=pod.get("spec", {}).get("priority") or 0,
        )
        return who if _is_credible(who, metadata["name"], instance) else None
    except (KeyError, ValueError):
        return None  # somebody wrote our label on a pod of his own


def _is_credible(who: WorkerPod, name: str, instance: str) -> bool:
    """Whether a daemon may have made such a pod. No two pods of a namespace have the name of one worker."""
    return (
        name == pod_name(instance, who.worker_id)
        and job_of(who.worker_id) == who.job_id
        and all(0 <= slot <= _SLOT_MAX for slot in who.slot_ids)
        and 0 <= who.cpus <= _CPUS_MAX
        and 0 <= who.memory_mib <= _MEMORY_MIB_MAX
    )


def foreign_pod(pod: Document, resource: str) -> ForeignPod | None:
    """What the pod holds; None if it is on no node, has ended, or asks for nothing that counts here."""
    node = pod.get("spec", {}).get("nodeName")
    if not node or pod.get("status", {}).get("phase") in _ENDED:
        return None
    amounts = requests_of(pod["spec"], resource)
    return None if amounts == NONE else ForeignPod(NodeName(node), amounts)


def requests_of(spec: Mapping[str, Any], resource: str) -> Amounts:
    """What the cluster's scheduler counts for a pod: its containers together, or the largest moment of its start."""

    def asked(container: Mapping[str, Any]) -> Amounts:
        return amounts_of((container.get("resources") or {}).get("requests") or {}, resource)

    running = total(asked(container) for container in spec.get("containers", ()))
    sidecars, largest = NONE, NONE
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":  # goes on beside those that come later
            sidecars = sidecars.plus(asked(container))
            largest = largest.at_least(sidecars)
        else:
            largest = largest.at_least(sidecars.plus(asked(container)))
    overhead = amounts_of(spec.get("overhead") or {}, resource)
    whole = amounts_of((spec.get("resources") or {}).get("requests") or {}, resource)
    return running.plus(sidecars).at_least(largest).at_least(whole).plus(overhead)


def slots_text(slot_ids: tuple[int, ...]) -> str:
    return ",".join(map(str, slot_ids))
