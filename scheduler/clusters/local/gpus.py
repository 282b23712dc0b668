"""GPUs by name, and CUDA_VISIBLE_DEVICES of the daemon and of workers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Gpu:
    uuid: str
    name: str


class HasUuid(Protocol):
    """A GPU that can be named."""

    @property
    def uuid(self) -> str: ...


def select_gpus(gpus: Sequence[Gpu], mask: str | None) -> tuple[Gpu, ...]:
    """GPUs that CUDA_VISIBLE_DEVICES selects by index or beginning of a UUID, up to the first entry that names none.

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


def visible_devices(gpus: Sequence[HasUuid], slot_ids: Sequence[int]) -> str:
    """CUDA_VISIBLE_DEVICES of a worker that holds these slots, as its own or shared with others."""
    return ",".join(gpus[slot].uuid for slot in slot_ids)


def _named(gpus: Sequence[Gpu], entry: str) -> Gpu | None:
    if entry.isascii() and entry.isdecimal():
        return gpus[int(entry)] if int(entry) < len(gpus) else None
    matching = [gpu for gpu in gpus if entry and gpu.uuid.startswith(entry)]
    return matching[0] if len(matching) == 1 else None
