"""What carries a group's CUDA tensors: NCCL, or gloo where ranks share a GPU. Imports torch."""

import os
import socket
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ErrorType, Store

NCCL, GLOO = "nccl", "gloo"

#: How torch answers a failed or overdue NCCL collective. By default it waits a minute for debugging dumps and then ends
#: the process, even where the group was left long ago; here the collective is aborted at once and the process goes on.
#: What the user has set stays.
_SETTINGS = {
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "2",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
    "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "0",
    "TORCH_FR_BUFFER_SIZE": "0",
}


@dataclass(frozen=True, slots=True)
class Choice:
    """Backend of CUDA tensors; all ranks with GPUs make the same choice."""

    #: None where this rank has no GPU.
    backend: str | None
    #: Whether all ranks use a GPU already, so that these can be connected.
    in_use: bool


def choose(store: Store, rank: int, size: int) -> Choice:
    """The backend of CUDA tensors. NCCL refuses two ranks on one GPU, as workers have it that share slots.

    Args:
        store: of the group; all ranks must call this.
    """
    store.set(f"gpu/{rank}", _gpu())
    if not torch.cuda.is_available():
        return Choice(None, in_use=False)
    gpus = [gpu for gpu in store.multi_get([f"gpu/{other}" for other in range(size)]) if gpu]
    shared = len(set(gpus)) < len(gpus)
    return Choice(GLOO if shared else NCCL, in_use=len(gpus) == size)


class NcclGroup:
    """The NCCL side of torch's default group."""

    def __init__(self) -> None:
        world = dist.group.WORLD
        assert world is not None
        self._backend: Any = world._get_backend(torch.device("cuda"))

    def connect(self) -> None:
        """Connects the ranks' GPUs now rather than at the first collective, where they are in use; a collective.

        Nothing bounds the wait for a rank that died before: see `Connections.opening`.
        """
        self._backend.eager_connect_single_device(torch.device("cuda", torch.cuda.current_device()))

    def abort(self) -> None:
        """Ends all collectives, on the device as well."""
        self._backend.abort()

    def failed(self) -> bool:
        """Whether a collective failed or was overdue: it was aborted, and what it computed is worth nothing."""
        return bool(self._backend.get_error() != ErrorType.SUCCESS)


def apply_settings() -> None:
    """For groups that are made from now on."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)


def _gpu() -> str:
    """The GPU that this rank uses, as NCCL tells them apart: host and PCI address; empty if it uses none yet."""
    if not torch.cuda.is_initialized():
        return ""
    properties: Any = torch.cuda.get_device_properties(torch.cuda.current_device())
    host = os.environ.get("NCCL_HOSTID") or f"{socket.gethostname()}/{_boot_id()}"
    return f"{host}/{properties.pci_domain_id:x}:{properties.pci_bus_id:x}:{properties.pci_device_id:x}"


def _boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()
