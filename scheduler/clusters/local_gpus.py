"""The GPUs of this machine, as NVML tells them."""

from collections.abc import Sequence
from dataclasses import dataclass

import pynvml
import structlog

from scheduler.model.observation import SlotLoad

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Gpu:
    uuid: str
    name: str


def visible_gpus(mask: str | None) -> tuple[Gpu, ...]:
    """The GPUs that workers may use, in the order of their slots; none where there is no working driver.

    `mask`: CUDA_VISIBLE_DEVICES of the daemon, which bounds what it may hand out; None for all.
    """
    return select_gpus(read_gpus(), mask)


def read_gpus() -> tuple[Gpu, ...]:
    """All GPUs in the order of their PCI addresses; none, and one line in the log, if the driver fails."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_LibraryNotFound:
        return ()  # a machine without the driver: nothing to tell
    except pynvml.NVMLError as error:
        _log.warning("cannot read GPUs; using CPU slots", error=str(error))
        return ()
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return tuple(Gpu(_text(pynvml.nvmlDeviceGetUUID(h)), _text(pynvml.nvmlDeviceGetName(h))) for h in handles)
    except pynvml.NVMLError as error:
        _log.warning("cannot read GPUs; using CPU slots", error=str(error))
        return ()
    finally:
        pynvml.nvmlShutdown()


def read_loads(gpus: Sequence[Gpu]) -> tuple[SlotLoad, ...]:
    """How busy each GPU is now; nothing is known of one that does not tell."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return (SlotLoad(),) * len(gpus)
    try:
        return tuple(_read_load(gpu) for gpu in gpus)
    finally:
        pynvml.nvmlShutdown()


def _read_load(gpu: Gpu) -> SlotLoad:
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
        utilization = pynvml.nvmlDeviceGetUtilizationRates(handle)
    except pynvml.NVMLError:
        return SlotLoad()
    return SlotLoad(memory.used / memory.total if memory.total else None, utilization.gpu / 100)


def select_gpus(gpus: Sequence[Gpu], mask: str | None) -> tuple[Gpu, ...]:
    """What CUDA_VISIBLE_DEVICES leaves of `gpus`: indices or beginnings of UUIDs, up to the first that names none.

    Indices count in the order of PCI addresses.
    """
    if mask is None:
        return tuple(gpus)
    chosen: list[Gpu] = []
    for entry in (part.strip() for part in mask.split(",")):
        gpu = _named(gpus, entry)
        if gpu is None:
            break  # as CUDA does: what follows an invalid entry is invisible
        if gpu not in chosen:
            chosen.append(gpu)
    return tuple(chosen)


def visible_devices(gpus: Sequence[Gpu], slot_ids: Sequence[int]) -> str:
    """CUDA_VISIBLE_DEVICES of a worker that holds these slots, as its own or shared with others."""
    return ",".join(gpus[slot].uuid for slot in slot_ids)


def gpu_type(gpus: Sequence[Gpu]) -> str | None:
    """One name for the node's GPUs; the first one's where they differ."""
    return gpus[0].name if gpus else None


def _named(gpus: Sequence[Gpu], entry: str) -> Gpu | None:
    if entry.isascii() and entry.isdecimal():
        return gpus[int(entry)] if int(entry) < len(gpus) else None
    matching = [gpu for gpu in gpus if entry and gpu.uuid.startswith(entry)]
    return matching[0] if len(matching) == 1 else None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
