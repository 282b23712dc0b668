"""What matters of a pod: whose it is, where it is, what it holds; and who a worker's pod is of."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.clusters.kubernetes.addresses import pod_name
from scheduler.clusters.kubernetes.connection import Document
from scheduler.clusters.kubernetes.quantities import NONE, Amounts, amounts_of, total
from scheduler.config import KubernetesSettings
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
#: Annotation: shows that this scheduler has made the pod.
SEAL = f"{PREFIX}/seal"
#: Annotation: of its job; none where it has none.
NONCE = f"{PREFIX}/nonce"

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
    #: Of its job.
    nonce: str = ""


@dataclass(frozen=True, slots=True)
class ForeignPod:
    """What somebody else's pod holds of a node."""

    node: NodeName
    amounts: Amounts


class WorkerPods:
    """Tells the pods of this scheduler's workers from all others.

    Whoever may make pods in a namespace of workers can label them as workers of any job. Each pod of ours has a seal,
    which goes with its name and namespace, and which nobody can make without the scheduler's secret.
    """

    def __init__(self, settings: KubernetesSettings, secret: bytes) -> None:
        """`secret`: the same for all daemons of one database."""
        self._namespaces = frozenset(settings.worker_namespaces)
        self._instance = settings.instance
        self._secret = secret

    def seal(self, namespace: str, name: str) -> str:
        """Of the pod of this name."""
        return hmac.new(self._secret, f"{namespace}/{name}".encode(), hashlib.sha256).hexdigest()

    def worker(self, pod: Document) -> WorkerPod | None:
        """The worker that this pod is; None for anybody else's pod."""
        metadata = pod["metadata"]
        labels, notes = metadata.get("labels") or {}, metadata.get("annotations") or {}
        namespace, name = metadata["namespace"], metadata["name"]
        if namespace not in self._namespaces or labels.get(INSTANCE) != self._instance:
            return None
        if not hmac.compare_digest(notes.get(SEAL, "").encode(), self.seal(namespace, name).encode()):
            return None
        try:
            who = WorkerPod(
                worker_id=WorkerId(labels[WORKER]),
                job_id=JobId(int(labels[JOB])),
                namespace=namespace,
                node=NodeName(notes[NODE]),
                slot_ids=tuple(int(slot) for slot in notes[SLOTS].split(",") if slot),
                cpus=float(notes[CPUS]),
                memory_mib=int(notes[MEMORY_MIB]),
                priority=pod.get("spec", {}).get("priority") or 0,
                nonce=notes.get(NONCE, ""),
            )
            return who if _is_credible(who, name, self._instance) else None
        except (KeyError, ValueError):
            return None  # somebody has changed what we wrote


def _is_credible(who: WorkerPod, name: str, instance: str) -> bool:
    """Whether a daemon may have written this, or somebody has changed it since."""
    return (
        name == pod_name(instance, who.worker_id, who.nonce)
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
