"""The machine of tests of GPUs: three of one type, and two of another that it may get."""

from collections.abc import Mapping

from scheduler.model.ids import NodeName
from scheduler.model.slot import ClosedSlot, SlotClosure
from tests.nvml.machine import GIB, FakeGpu

NODE = NodeName("local")
H100, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-PCIE-40GB"
A, B, C = (FakeGpu(f"GPU-{letter * 4}", H100) for letter in "abc")
D, E = (FakeGpu(f"GPU-{letter * 4}", A100, memory=40 * GIB) for letter in "de")


def at(slot: int, closure: SlotClosure, detail: str) -> Mapping[NodeName, tuple[ClosedSlot, ...]]:
    """This slot of the plain node is closed, and no other."""
    return {NODE: (ClosedSlot(slot, closure, detail),)}
