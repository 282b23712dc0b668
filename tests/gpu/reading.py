"""What NVML tells of the GPUs of this machine at this moment."""

from collections.abc import Mapping

from scheduler.clusters.local.gpus import Gpu
from scheduler.clusters.local.nvml import GpuReading, Nvml
from scheduler.model.observation import SlotLoad


def read_gpus() -> Mapping[str, GpuReading]:
    """All GPUs by UUID; none where there is no working driver."""
    nvml = Nvml()
    try:
        return nvml.read().gpus
    finally:
        nvml.close()


def read_load(gpu: Gpu) -> SlotLoad:
    """How busy it is."""
    return read_gpus()[gpu.uuid].load
