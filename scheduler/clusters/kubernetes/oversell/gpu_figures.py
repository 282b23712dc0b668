"""Figures of the GPUs of one node from NVIDIA's DCGM exporter, in the text format of Prometheus.

They name the pod that the device plugin has given each GPU to, and the GPU's load:
https://docs.nvidia.com/datacenter/dcgm/latest/reference/dcgm-exporter-metrics.html
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.clusters.kubernetes.pods import UUID, PodKey
from scheduler.errors import ClusterError
from scheduler.model.observation import SlotLoad

if TYPE_CHECKING:
    import httpx

#: Limit on an answer; far more than an exporter of 16 GPUs sends.
BYTES_MAX = 2 * 1024 * 1024
_UTILIZATION = "DCGM_FI_DEV_GPU_UTIL"
#: MiB of used memory, and its parts; the driver's own part is not always exported.
_USED = "DCGM_FI_DEV_FB_USED"
_PARTS = (_USED, "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_RESERVED")
_READ = (_UTILIZATION, *_PARTS)
#: A value that a GPU does not provide is exported as a number near 2^63.
_MIB_MAX = 2.0**40


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU of a node."""

    uuid: str
    #: The pod that has it; None: none has.
    pod: PodKey | None
    load: SlotLoad


def gpus_of(text: str) -> tuple[Gpu, ...]:
    """All GPUs of the node, in the order of their numbers. Raises `ValueError` for a malformed answer.

    GPUs that are divided (MIG) are refused: no slot stands for one of them.
    """
    from prometheus_client.parser import text_string_to_metric_families  # few daemons need it

    pods: dict[tuple[int, str], PodKey | None] = {}
    values: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples if family.name in _READ else ():
            labels = sample.labels
            uuid = labels.get("UUID", "")
            if not UUID.fullmatch(uuid):
                raise ValueError(f"{family.name} names no GPU by its UUID")
            if labels.get("GPU_I_ID"):
                raise ValueError("a GPU is divided (MIG)")
            pods[int(labels.get("gpu", "0")), uuid] = _pod(labels)
            values.setdefault(uuid, {})[family.name] = sample.value
    return tuple(Gpu(uuid, pods[number, uuid], _load(values[uuid])) for number, uuid in sorted(pods))


def fetch(client: "httpx.Client", url: str, seconds_max: float, monotonic: Callable[[], float]) -> str:
    """The answer of an exporter. Raises `ClusterError` if it is too large or too slow, and errors of httpx."""
    until, body = monotonic() + seconds_max, bytearray()
    with client.stream("GET", url, timeout=seconds_max, headers={"Accept-Encoding": "identity"}) as answer:
        if not answer.is_success:
            raise ClusterError(f"it responds with status {answer.status_code}")
        for chunk in answer.iter_raw():
            body += chunk
            if len(body) > BYTES_MAX:
                raise ClusterError(f"it says more than {BYTES_MAX} bytes")
            if monotonic() > until:
                raise ClusterError(f"it takes more than {seconds_max:g} s")
    return body.decode()


def _pod(labels: Mapping[str, str]) -> PodKey | None:
    return PodKey(labels.get("namespace", ""), labels["pod"]) if labels.get("pod") else None


def _load(values: Mapping[str, float]) -> SlotLoad:
    utilization = values.get(_UTILIZATION, -1.0) / 100
    parts = [values[part] for part in _PARTS if 0 <= values.get(part, -1.0) <= _MIB_MAX]
    used, whole = values.get(_USED, -1.0), sum(parts)
    known = 0 <= used <= _MIB_MAX and len(parts) > 1 and whole > 0
    return SlotLoad(used / whole if known else None, utilization if 0 <= utilization <= 1 else None)
