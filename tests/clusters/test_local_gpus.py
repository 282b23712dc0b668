"""Which GPUs become slots, and what a worker sees of them."""

import pytest

from scheduler.clusters.local_gpus import Gpu, gpu_type, read_gpus, select_gpus, visible_devices, visible_gpus

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


def test_the_gpu_type_is_the_devices_name() -> None:
    assert gpu_type((A, B)) == "NVIDIA H200"
    assert gpu_type(()) is None


def test_the_gpus_of_this_machine_are_read_or_there_are_none() -> None:
    gpus = read_gpus()
    assert visible_gpus(None) == gpus
    assert visible_gpus("") == ()
    assert all(gpu.uuid.startswith("GPU-") and gpu.name for gpu in gpus)
