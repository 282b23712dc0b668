"""Which GPUs become slots, and what a worker sees of them."""

import pytest

from scheduler.clusters.local.gpus import Gpu, select_gpus, visible_devices
from scheduler.clusters.local.nvml import Nvml
from scheduler.clusters.local.xids import meaning
from scheduler.config import LocalSettings

A, B, C = (Gpu(f"GPU-{letter}{letter}-1", "NVIDIA H200") for letter in "abc")


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (None, (A, B, C)),
        ("0,1,2", (A, B, C)),
        ("2, 0", (C, A)),
        ("GPU-bb", (B,)),
        ("GPU-bb-1,0", (B, A)),
        ("1,1", (B,)),
        ("", ()),
        ("-1", ()),
        ("NoDevFiles", ()),
        ("0,7,1", (A,)),
        ("GPU-", ()),
    ],
)
def test_the_daemons_own_mask_bounds_what_workers_may_use(mask: str | None, expected: tuple[Gpu, ...]) -> None:
    assert select_gpus((A, B, C), mask) == expected


def test_a_worker_sees_the_gpus_of_its_slots() -> None:
    assert visible_devices((A, B, C), (2, 0)) == "GPU-cc-1,GPU-aa-1"
    assert visible_devices((A, B, C), ()) == ""


def test_the_gpus_of_this_machine_are_read_or_the_library_says_why_not() -> None:
    nvml = Nvml()
    reading = nvml.read()
    nvml.close()
    assert bool(reading.gpus) != bool(reading.trouble)
    assert all(uuid.startswith("GPU-") and gpu.name for uuid, gpu in reading.gpus.items())


def test_every_error_that_makes_a_gpu_unhealthy_has_a_meaning() -> None:
    for number in LocalSettings().unhealthy_xids:
        assert meaning(number).startswith(f"Xid {number}: ")
    assert meaning(31) == "Xid 31"
