"""What is read of GPUs through NVML, with a library in the place of NVIDIA's."""

from collections.abc import Callable

import pytest

from scheduler.clusters.local_gpus import Gpu, read_gpus, read_loads, visible_gpus
from scheduler.model.observation import SlotLoad
from tests.nvml.machine import (
    DRIVER_NOT_LOADED,
    GIB,
    GPU_IS_LOST,
    UNKNOWN,
    VERSION_MISMATCH,
    FakeGpu,
    FakeMachine,
)

MakeMachine = Callable[..., FakeMachine]

A = FakeGpu("GPU-aaaa", used=20 * GIB, utilization=75)
B = FakeGpu("GPU-bbbb", "NVIDIA A100-PCIE-40GB", memory=40 * GIB)
A_GPU, B_GPU = Gpu("GPU-aaaa", "NVIDIA H100 80GB HBM3"), Gpu("GPU-bbbb", "NVIDIA A100-PCIE-40GB")


def test_gpus_are_read_in_their_order_and_a_mask_bounds_them(gpu_machine: MakeMachine) -> None:
    machine = gpu_machine(B, A)
    with machine.process() as process:
        assert process.call(read_gpus) == (B_GPU, A_GPU)
        assert process.call(visible_gpus, "1") == (A_GPU,)


def test_how_busy_gpus_are_is_read_as_far_as_they_tell(gpu_machine: MakeMachine) -> None:
    machine = gpu_machine(A, FakeGpu("GPU-cccc", utilization=None))
    gone = Gpu("GPU-dddd", "gone")
    with machine.process() as process:
        loads = process.call(read_loads, (A_GPU, Gpu("GPU-cccc", ""), gone))
        assert loads == (SlotLoad(0.25, 0.75), SlotLoad(), SlotLoad())
        machine.unload()
        assert process.call(read_loads, (A_GPU,)) == (SlotLoad(),)
        machine.load()
        assert process.call(read_loads, (A_GPU,)) == (SlotLoad(0.25, 0.75),)


@pytest.mark.parametrize("error", [DRIVER_NOT_LOADED, VERSION_MISMATCH, UNKNOWN])
def test_a_library_that_fails_has_no_gpus(error: int, gpu_machine: MakeMachine) -> None:
    machine = gpu_machine(A)
    with machine.process() as process:
        machine.fail(init=error)
        assert process.call(read_gpus) == ()
        machine.fail(call=error)
        assert process.call(read_gpus) == ()
        machine.fail()
        assert process.call(read_gpus) == (A_GPU,)


def test_a_gpu_that_cannot_be_opened_hides_all(gpu_machine: MakeMachine) -> None:
    machine = gpu_machine(A, FakeGpu("GPU-bbbb", error=GPU_IS_LOST))
    with machine.process() as process:
        assert process.call(read_gpus) == ()
