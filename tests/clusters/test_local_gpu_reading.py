"""What is read of GPUs through NVML, with a library in the place of NVIDIA's."""

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from scheduler.clusters.local.nvml import GpuProcess, GpuReading, Reading, Xid
from scheduler.model.observation import SlotLoad
from tests.nvml import child
from tests.nvml.machine import (
    DRIVER_NOT_LOADED,
    GIB,
    GPU_IS_LOST,
    NOT_SUPPORTED,
    RESET_REQUIRED,
    UNKNOWN,
    VERSION_MISMATCH,
    FakeGpu,
    FakeMachine,
    Process,
)

MakeMachine = Callable[..., FakeMachine]

A = FakeGpu("GPU-aaaa", used=20 * GIB, utilization=75)
B = FakeGpu("GPU-bbbb", "NVIDIA A100-PCIE-40GB", memory=40 * GIB)


def test_gpus_are_read_in_their_order(gpu_machine: MakeMachine) -> None:
    with gpu_machine(B, A).process() as process:
        reading = process.call(child.read)
    assert reading == Reading(
        {
            "GPU-bbbb": GpuReading("NVIDIA A100-PCIE-40GB", SlotLoad(0.0, 0.0), 40 * GIB),
            "GPU-aaaa": GpuReading("NVIDIA H100 80GB HBM3", SlotLoad(0.25, 0.75), 80 * GIB),
        }
    )
    assert list(reading.gpus) == ["GPU-bbbb", "GPU-aaaa"]


def test_a_gpu_tells_what_it_can(gpu_machine: MakeMachine) -> None:
    dumb = FakeGpu("GPU-dddd", memory=None, utilization=None, ecc=None, rows_failed=None, processes=(Process(1),))
    with gpu_machine(dumb, replace(A, utilization=None)).process() as process:
        gpus = process.call(child.read).gpus
    assert gpus["GPU-dddd"] == GpuReading(dumb.name, processes=(GpuProcess(1, 4 * GIB),))
    assert gpus["GPU-aaaa"].load == SlotLoad(0.25, None)


def test_processes_are_listed_with_what_they_hold(gpu_machine: MakeMachine) -> None:
    processes = (Process(11, 2 * GIB), Process(12, None), *(Process(100 + k, 1) for k in range(20)))
    with gpu_machine(replace(A, processes=processes)).process() as process:
        found = process.call(child.read).gpus["GPU-aaaa"].processes
    assert found == (GpuProcess(11, 2 * GIB), GpuProcess(12, 0), *(GpuProcess(100 + k, 1) for k in range(20)))


@pytest.mark.parametrize(
    ("broken", "fault"),
    [
        ({"ecc": 1}, "1 uncorrectable ECC error since the driver was loaded"),
        ({"ecc": 3}, "3 uncorrectable ECC errors since the driver was loaded"),
        ({"rows_failed": 1}, "rows of its memory could not be remapped"),
        ({"rows_pending": 1}, ""),
        ({"retired_pending": 1}, "pages of its memory are to be retired when the driver is loaded again"),
        ({"retired_pending": 0}, ""),
        ({"broken": RESET_REQUIRED}, "GPU requires restart"),
        ({"broken": GPU_IS_LOST}, "GPU is lost"),
        ({"broken": UNKNOWN}, ""),
        (
            {"ecc": 2, "rows_failed": 1},
            "2 uncorrectable ECC errors since the driver was loaded; rows of its memory could not be remapped",
        ),
    ],
)
def test_what_makes_a_gpu_unfit(broken: dict[str, int], fault: str, gpu_machine: MakeMachine) -> None:
    machine = gpu_machine(A, B)
    with machine.process() as process:
        process.call(child.read)
        machine.change("GPU-aaaa", **broken)
        gpus = process.call(child.read).gpus
        assert gpus["GPU-aaaa"].fault == fault
        assert gpus["GPU-bbbb"].fault == ""


def test_a_gpu_that_cannot_be_opened_hides_no_other(gpu_machine: MakeMachine) -> None:
    with gpu_machine(replace(A, error=GPU_IS_LOST), B).process() as process:
        reading = process.call(child.read)
    assert list(reading.gpus) == ["GPU-bbbb"]
    assert (reading.unopened, reading.trouble) == (("GPU 0: GPU is lost",), "")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (DRIVER_NOT_LOADED, "Driver Not Loaded"),
        (VERSION_MISMATCH, "RM has detected an NVML/RM version mismatch"),
        (UNKNOWN, "Unknown Error"),
    ],
)
def test_a_library_that_fails_says_why_and_is_opened_again(error: int, told: str, gpu_machine: MakeMachine) -> None:
    machine = gpu_machine(A)
    with machine.process() as process:
        for failing in ({"init": error}, {"call": error}):
            machine.fail(**failing)
            assert process.call(child.read) == Reading(trouble=told, unloaded=error == DRIVER_NOT_LOADED)
            machine.fail()
            assert list(process.call(child.read).gpus) == ["GPU-aaaa"]


def test_a_driver_that_was_reloaded_is_read_again_at_once_or_at_the_next_time(gpu_machine: MakeMachine) -> None:
    machine = gpu_machine(A, B)
    with machine.process() as process:
        process.call(child.read)
        machine.load()
        assert process.call(child.read).trouble == "Unknown Error"
        assert len(process.call(child.read).gpus) == 2


def test_errors_of_gpus_are_told_once_and_at_once(gpu_machine: MakeMachine) -> None:
    machine = gpu_machine(A, B)
    with machine.process() as process:
        assert process.call(child.wait, 0.0) == (), "nobody has opened the library"
        machine.xid("GPU-aaaa", 31)
        process.call(child.read)
        assert process.call(child.wait, 0.0) == (), "what was before nobody hears of"
        machine.xid("GPU-bbbb", 79, 48)
        began = time.monotonic()
        assert process.call(child.wait, 600.0) == (Xid("GPU-bbbb", 79), Xid("GPU-bbbb", 48))
        assert time.monotonic() - began < 60.0
        process.call(child.read)
        assert process.call(child.wait, 0.0) == ()
        machine.load()
        assert process.call(child.wait, 600.0) == (), "it fails at once"
        process.call(child.read)
        machine.xid("GPU-aaaa", 13)
        assert process.call(child.wait, 600.0) == (Xid("GPU-aaaa", 13),)


def test_a_library_that_knows_of_no_events_is_read_on(gpu_machine: MakeMachine) -> None:
    machine = gpu_machine(A)
    with machine.process() as process:
        process.call(child.read)
        machine.fail(events=NOT_SUPPORTED)
        assert process.call(child.wait, 600.0) == ()
        machine.load()
        process.call(child.read)
        assert process.call(child.read).gpus
        assert process.call(child.wait, 600.0) == (), "nobody waits for what never comes"


def test_a_wait_that_fails_because_a_gpu_is_lost_goes_on_at_the_next_reading(gpu_machine: MakeMachine) -> None:
    machine = gpu_machine(A, B)
    with machine.process() as process:
        process.call(child.read)
        machine.fail(events=GPU_IS_LOST)
        assert process.call(child.wait, 600.0) == ()
        machine.fail()
        process.call(child.read)
        machine.xid("GPU-bbbb", 79)
        assert process.call(child.wait, 600.0) == (Xid("GPU-bbbb", 79),)


def test_errors_of_gpus_that_come_later_are_told(gpu_machine: MakeMachine) -> None:
    machine = gpu_machine(A)
    with machine.process() as process:
        process.call(child.read)
        machine.has(A, B)
        process.call(child.read)
        machine.xid("GPU-bbbb", 79)
        assert process.call(child.wait, 600.0) == (Xid("GPU-bbbb", 79),)


def test_a_machine_without_the_library_has_no_gpus() -> None:
    reading = child.Nvml().read()
    if reading.installed:
        pytest.skip("this machine has NVML")
    assert (reading.gpus, reading.trouble) == ({}, "NVML Shared Library Not Found")
