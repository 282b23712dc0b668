"""What the watch makes of GPUs that come, vanish or break, and of a library that fails.

The machine is told by a library in the place of NVIDIA's; time passes as the test says.
"""

import json
from pathlib import Path

import pytest

from scheduler.model.ids import NodeName
from scheduler.model.observation import SlotLoad
from scheduler.model.slot import ClosedSlot, SlotClosure
from tests.clusters.gpus import H100, NODE, A, B, C, D, E, at
from tests.nvml import child
from tests.nvml.machine import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    UNKNOWN,
    VERSION_MISMATCH,
    FakeGpu,
    FakeMachine,
    MachineProcess,
)

UNHEALTHY, UNREADABLE = SlotClosure.UNHEALTHY, SlotClosure.UNREADABLE


# GPUs that are there


def test_the_slots_are_the_gpus_in_their_order(process: MachineProcess, state: Path) -> None:
    seen = process.call(child.watch, state)
    assert seen is not None
    assert seen.nodes == {NODE: ("GPU-aaaa", "GPU-bbbb", "GPU-cccc")}
    assert seen.loads == {NODE: (SlotLoad(0.0, 0.0),) * 3}
    assert (seen.closed, seen.troubles) == ({}, [])


def test_a_mask_bounds_what_is_handed_out_also_when_gpus_come(
    machine: FakeMachine, process: MachineProcess, state: Path
) -> None:
    seen = process.call(child.watch, state, "2,GPU-aaaa")
    assert seen is not None
    assert seen.nodes == {NODE: ("GPU-cccc", "GPU-aaaa")}
    machine.has(A, B, C, FakeGpu("GPU-ffff", H100))
    assert process.call(child.look).nodes == seen.nodes


def test_a_mask_that_names_none_leaves_no_gpus(process: MachineProcess, state: Path) -> None:
    assert process.call(child.watch, state, "") is None


def test_a_gpu_that_appears_gets_the_next_slot(machine: FakeMachine, process: MachineProcess, state: Path) -> None:
    machine.has(B)
    process.call(child.watch, state)
    machine.has(A, B)
    seen = process.call(child.look)
    assert seen.nodes == {NODE: ("GPU-bbbb", "GPU-aaaa")}
    assert seen.changes == 2, "once at the start, once now"
    assert process.call(child.look).changes == 2


def test_a_gpu_that_vanishes_keeps_its_slot_which_is_unhealthy_until_it_is_back(
    machine: FakeMachine, process: MachineProcess, state: Path
) -> None:
    process.call(child.watch, state)
    machine.has(A, C)
    assert process.call(child.look).closed == {}, "one reading may err"
    seen = process.call(child.look)
    assert seen.nodes == {NODE: ("GPU-aaaa", "GPU-bbbb", "GPU-cccc")}
    assert seen.closed == at(1, UNHEALTHY, "NVML lists GPU-bbbb no more")
    assert seen.loads[NODE] == (SlotLoad(0.0, 0.0), SlotLoad(), SlotLoad(0.0, 0.0))
    machine.has(A, B, C)
    assert process.call(child.look).closed == {}


def test_a_gpu_that_cannot_be_opened_any_more_is_unhealthy(
    machine: FakeMachine, process: MachineProcess, state: Path
) -> None:
    process.call(child.watch, state)
    machine.change("GPU-bbbb", error=GPU_IS_LOST)
    process.call(child.look)
    seen = process.call(child.look)
    assert seen.closed == at(1, UNHEALTHY, "NVML lists GPU-bbbb no more (GPU 1: GPU is lost)")
    assert seen.troubles == ["a GPU cannot be used: GPU 1: GPU is lost"]


# a library that fails


@pytest.mark.parametrize(
    ("error", "told"),
    [(UNKNOWN, "Unknown Error"), (VERSION_MISMATCH, "RM has detected an NVML/RM version mismatch")],
)
def test_slots_cannot_be_read_while_the_library_fails(
    error: int, told: str, machine: FakeMachine, process: MachineProcess, state: Path
) -> None:
    process.call(child.watch, state)
    machine.fail(init=error, call=error)
    assert process.call(child.look).closed == {}, "one failure may pass"
    seen = process.call(child.look)
    assert seen.closed == {NODE: tuple(ClosedSlot(slot, UNREADABLE, f"NVML: {told}") for slot in range(3))}
    assert seen.troubles == [f"GPUs cannot be read: NVML: {told}"]
    assert seen.changes == 2
    assert process.call(child.look).changes == 2
    machine.fail()
    seen = process.call(child.look)
    assert (seen.closed, seen.troubles, seen.changes) == ({}, [], 3)


def test_a_driver_that_is_reloaded_is_noticed_at_most(
    machine: FakeMachine, process: MachineProcess, state: Path
) -> None:
    process.call(child.watch, state)
    machine.load()
    for _ in range(3):
        seen = process.call(child.look)
    assert (seen.closed, seen.changes) == ({}, 1)


def test_a_daemon_that_starts_while_the_driver_is_gone_knows_its_gpus(
    machine: FakeMachine, process: MachineProcess, state: Path
) -> None:
    process.call(child.watch, state)
    machine.unload()
    for boot in ("first", "second"):
        seen = process.call(child.watch, state, boot=boot)
        assert seen is not None
        assert [each.closure for each in seen.closed[NODE]] == [UNREADABLE] * 3
    machine.load()
    assert process.call(child.look).closed == {}


def test_a_machine_whose_gpus_were_never_read_has_none(
    machine: FakeMachine, process: MachineProcess, state: Path
) -> None:
    machine.fail(init=DRIVER_NOT_LOADED)
    assert process.call(child.watch, state) is None


# slots keep their GPUs


def test_a_new_daemon_gives_each_gpu_the_slot_that_it_had(
    machine: FakeMachine, process: MachineProcess, state: Path
) -> None:
    machine.has(B, C)
    process.call(child.watch, state)
    machine.has(A, C)
    seen = process.call(child.watch, state)
    assert seen is not None
    assert seen.nodes == {NODE: ("GPU-bbbb", "GPU-cccc", "GPU-aaaa")}
    assert seen.closed == at(0, UNHEALTHY, "NVML lists GPU-bbbb no more")


def test_after_a_restart_of_the_machine_slots_are_dealt_anew(
    machine: FakeMachine, process: MachineProcess, state: Path
) -> None:
    machine.has(B, C)
    process.call(child.watch, state)
    process.call(child.look)
    machine.xid("GPU-bbbb", 79)
    assert process.call(child.look).closed
    machine.has(A, B)
    seen = process.call(child.watch, state, boot="second")
    assert seen is not None
    assert (seen.nodes, seen.closed) == ({NODE: ("GPU-aaaa", "GPU-bbbb")}, {})


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"boot": "first", "mask": null, "primary": "x", "gpus": []}',
        '{"boot": "first", "mask": null, "primary": "x", "gpus": [{"uuid": 1, "name": "x", "xids": []}]}',
        '{"boot": "first", "mask": null, "primary": "x", "gpus": [{"uuid": "u", "name": "x", "xids": [-1]}]}',
        '{"boot": "first", "mask": null, "primary": "x", "gpus": [{"uuid": "u", "name": "x", "xids": 5}]}',
    ],
)
def test_what_cannot_be_read_of_the_slots_is_dealt_anew(process: MachineProcess, state: Path, content: str) -> None:
    (state / "gpus.json").write_text(content)
    seen = process.call(child.watch, state)
    assert seen is not None
    assert seen.nodes == {NODE: ("GPU-aaaa", "GPU-bbbb", "GPU-cccc")}
    assert len(json.loads((state / "gpus.json").read_text())["gpus"]) == 3


def test_a_disk_that_refuses_is_told_and_stops_nothing(
    machine: FakeMachine, process: MachineProcess, state: Path
) -> None:
    process.call(child.watch, state)
    (state / "gpus.new").mkdir()
    machine.has(A, B, C, FakeGpu("GPU-ffff", H100))
    seen = process.call(child.look)
    assert (len(seen.nodes[NODE]), seen.troubles) == (4, ["which GPU is which slot cannot be kept"])
    (state / "gpus.new").rmdir()
    assert process.call(child.look).troubles == []


# GPUs that are unfit


def test_a_gpu_with_an_error_of_its_hardware_is_unhealthy_until_it_comes_back(
    machine: FakeMachine, process: MachineProcess, state: Path
) -> None:
    process.call(child.watch, state)
    machine.xid("GPU-bbbb", 13, 31, 43, 45)
    assert process.call(child.look).closed == {}, "programs cause these"
    machine.xid("GPU-bbbb", 79)
    expected = at(1, UNHEALTHY, "Xid 79: the GPU has fallen off the bus")
    assert process.call(child.look).closed == expected
    assert process.call(child.look).closed == expected
    seen = process.call(child.watch, state)
    assert seen is not None
    assert seen.closed == expected, "the next daemon knows"
    machine.xid("GPU-bbbb", 48)
    both = "Xid 79: the GPU has fallen off the bus; Xid 48: uncorrectable ECC error"
    assert process.call(child.look).closed == at(1, UNHEALTHY, both)
    machine.has(A, C)
    process.call(child.look)
    process.call(child.look)
    machine.has(A, B, C)
    assert process.call(child.look).closed == {}


def test_errors_are_over_when_the_driver_was_unloaded_and_not_when_the_library_failed_otherwise(
    machine: FakeMachine, process: MachineProcess, state: Path
) -> None:
    process.call(child.watch, state)
    machine.xid("GPU-bbbb", 119)
    broken = process.call(child.look).closed
    assert broken
    machine.fail(init=UNKNOWN, call=UNKNOWN)
    process.call(child.look)
    process.call(child.look)
    machine.fail()
    assert process.call(child.look).closed == broken
    machine.unload()
    process.call(child.look)
    assert process.call(child.look).closed[NODE][1].closure is UNHEALTHY, "it stays so while nothing can be read"
    machine.load()
    assert process.call(child.look).closed == {}


def test_which_errors_count_is_set(machine: FakeMachine, process: MachineProcess, state: Path) -> None:
    process.call(child.watch, state, unhealthy_xids=(31,))
    machine.xid("GPU-aaaa", 79)
    machine.xid("GPU-cccc", 31)
    assert process.call(child.look).closed == at(2, UNHEALTHY, "Xid 31")


def test_uncorrectable_errors_and_failed_remappings_are_unhealthy_as_long_as_they_are_read(
    machine: FakeMachine, process: MachineProcess, state: Path
) -> None:
    process.call(child.watch, state)
    machine.change("GPU-aaaa", ecc=2)
    told = "2 uncorrectable ECC errors since the driver was loaded"
    assert process.call(child.look).closed == at(0, UNHEALTHY, told)
    machine.fail(init=UNKNOWN, call=UNKNOWN)
    process.call(child.look)
    assert process.call(child.look).closed[NODE][0] == ClosedSlot(0, UNHEALTHY, told)
    machine.fail()
    machine.change("GPU-aaaa", ecc=0, rows_failed=1)
    assert process.call(child.look).closed == at(0, UNHEALTHY, "rows of its memory could not be remapped")
    machine.change("GPU-aaaa", rows_failed=0)
    assert process.call(child.look).closed == {}


# GPUs of several types


def test_each_type_is_a_node_of_its_own(machine: FakeMachine, process: MachineProcess, state: Path) -> None:
    machine.has(A, D, B, E)
    other = NodeName("local-NVIDIA-A100-PCIE-40GB")
    seen = process.call(child.watch, state)
    assert seen is not None
    assert seen.nodes == {NODE: ("GPU-aaaa", "GPU-bbbb"), other: ("GPU-dddd", "GPU-eeee")}
    machine.change("GPU-eeee", ecc=1)
    told = "1 uncorrectable ECC error since the driver was loaded"
    assert process.call(child.look).closed == {other: (ClosedSlot(1, UNHEALTHY, told),)}


def test_a_type_keeps_its_name_over_restarts_whichever_gpu_comes_first(
    machine: FakeMachine, process: MachineProcess, state: Path
) -> None:
    other = NodeName("local-NVIDIA-A100-PCIE-40GB")
    process.call(child.watch, state)
    machine.has(D, A)
    for boot in ("first", "second"):
        seen = process.call(child.watch, state, boot=boot)
        assert seen is not None
        assert set(seen.nodes) == {NODE, other}
        assert seen.nodes[other] == ("GPU-dddd",)
    machine.has(D)
    seen = process.call(child.watch, state, boot="third")
    assert seen is not None
    assert seen.nodes == {NODE: ("GPU-dddd",)}
