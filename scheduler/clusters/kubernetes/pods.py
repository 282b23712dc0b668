"""Facts of a pod: its owner, its node and what it holds; for a worker's pod, which worker it is."""

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduler import bounds
from scheduler.clusters.kubernetes.addresses import pod_name
from scheduler.clusters.kubernetes.api.documents import Document
from scheduler.clusters.kubernetes.api.quantities import NONE, Amounts, amounts_of, total
from scheduler.config import KubernetesSettings
from scheduler.errors import InvalidInput
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
#: Annotations of workers that share their slots: that they do, and the UUIDs of the GPUs that these stand for.
SHARED = f"{PREFIX}/shared"
GPUS = f"{PREFIX}/gpus"
#: Annotation: shows that this scheduler has made the pod.
SEAL = f"{PREFIX}/seal"
#: Annotation: name of the container that the worker runs in; an admission webhook may put others before it.
CONTAINER = f"{PREFIX}/container"
#: Annotation: its template asks for CPUs, memory or slots beyond the numbers of its job.
ASKS_MORE = f"{PREFIX}/asks-more"
#: Annotation: of its job; none where it has none.
NONCE = f"{PREFIX}/nonce"

_ENDED = ("Succeeded", "Failed")
_WORKER_ID = re.compile(r"[1-9][0-9]{0,17}-[1-9][0-9]{0,17}")
#: Below the most that a node may have.
_SLOT = re.compile(r"[0-9]|[1-9][0-9]{1,2}|[1-3][0-9]{3}|40[0-8][0-9]|409[0-5]")
#: Of a whole GPU of NVIDIA.
UUID = re.compile(r"GPU-[0-9A-Za-z-]{1,60}")


@dataclass(frozen=True, slots=True)
class WorkerPod:
    """The worker that a pod belongs to, from its labels and annotations."""

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
    #: Whether it shares its slots; and UUIDs of GPUs, one for each of them, where it shares GPUs.
    shared: bool = False
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodKey:
    """A pod by its names."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class ForeignPod:
    """Resources on a node that a pod holds and no worker counts: a foreign one, or the rest of a worker's."""

    key: PodKey
    node: NodeName
    amounts: Amounts


class WorkerPods:
    """Tells the pods of this scheduler's workers from all others.

    Whoever may make pods in a namespace of workers can label them as workers of any job. Each pod of ours has a seal,
    which goes with its name and namespace, and which nobody can make without the scheduler's secret.
    """

    def __init__(self, settings: KubernetesSettings, secret: bytes) -> None:
        """`secret`: shared by all daemons of one database."""
        self._namespaces = frozenset(settings.worker_namespaces)
        self._instance = settings.instance
        self._secret = secret

    def seal(self, namespace: str, name: str) -> str:
        """Seal of the pod of this name."""
        return hmac.new(self._secret, f"{namespace}/{name}".encode(), hashlib.sha256).hexdigest()

    def worker(self, pod: Document) -> WorkerPod | None:
        """The worker of this pod; None for a foreign pod."""
        metadata = pod["metadata"]
        labels, notes = metadata.get("labels") or {}, metadata.get("annotations") or {}
        namespace, name = metadata["namespace"], metadata["name"]
        if namespace not in self._namespaces or labels.get(INSTANCE) != self._instance:
            return None
        if not hmac.compare_digest(notes.get(SEAL, "").encode(), self.seal(namespace, name).encode()):
            return None
        try:
            who = _as_written(pod)
        except (KeyError, ValueError, InvalidInput):
            return None  # somebody has changed what we wrote
        return who if name == pod_name(self._instance, who.worker_id, who.nonce) else None


def _as_written(pod: Document) -> WorkerPod:
    """Read the annotations. Raises `KeyError`, `ValueError` or `InvalidInput` for values that no daemon writes."""
    labels, notes = pod["metadata"]["labels"], pod["metadata"]["annotations"]
    if not _WORKER_ID.fullmatch(labels[WORKER]) or str(job_of(WorkerId(labels[WORKER]))) != labels[JOB]:
        raise ValueError(WORKER)
    slots = _words(notes[SLOTS])
    if len(slots) > bounds.SLOTS.high or not all(_SLOT.fullmatch(slot) for slot in slots):
        raise ValueError(SLOTS)
    gpus = _words(notes.get(GPUS, ""))
    if gpus and (len(gpus) != len(slots) or not all(UUID.fullmatch(gpu) for gpu in gpus)):
        raise ValueError(GPUS)
    cpus, memory_mib = float(notes[CPUS]), float(notes[MEMORY_MIB])
    bounds.CPUS_HELD.check(CPUS, cpus)
    bounds.MEMORY_HELD_MIB.check(MEMORY_MIB, memory_mib)
    return WorkerPod(
        worker_id=WorkerId(labels[WORKER]),
        job_id=job_of(WorkerId(labels[WORKER])),
        namespace=pod["metadata"]["namespace"],
        node=NodeName(notes[NODE]),
        slot_ids=tuple(map(int, slots)),
        cpus=cpus,
        memory_mib=int(memory_mib),
        priority=pod.get("spec", {}).get("priority") or 0,
        nonce=notes.get(NONCE, ""),
        shared=SHARED in notes,
        gpus=tuple(gpus),
    )


def _words(text: str) -> list[str]:
    return text.split(",") if text else []


def foreign_pod(pod: Document, resource: str, own: Amounts = NONE) -> ForeignPod | None:
    """Resources that the pod holds beyond those of a worker in it (`own`).

    None if it is on no node, has ended, or requests nothing that counts here.
    """
    node = pod.get("spec", {}).get("nodeName")
    if not node or pod.get("status", {}).get("phase") in _ENDED:
        return None
    amounts = requests_of(pod["spec"], resource).beyond(own)
    key = PodKey(pod["metadata"]["namespace"], pod["metadata"]["name"])
    return None if amounts == NONE else ForeignPod(key, NodeName(node), amounts)


def requests_of(spec: Mapping[str, Any], resource: str) -> Amounts:
    """Requests of a pod as the cluster's scheduler counts them: the sum of its containers, or the peak of its start."""

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
