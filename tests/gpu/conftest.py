"""Skips what needs an NVIDIA GPU where there is none, and says why."""

from pathlib import Path

import pytest

from scheduler.clusters.local.gpus import Gpu
from tests.gpu.reading import read_gpus

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder carry the marker."""
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.gpu)


@pytest.fixture(scope="session")
def gpus() -> tuple[Gpu, ...]:
    """The GPUs of this machine, of which there is at least one."""
    found = tuple(Gpu(uuid, gpu.name) for uuid, gpu in read_gpus().items())
    if not found:
        pytest.skip("no NVIDIA GPU here")
    return found


@pytest.fixture(scope="session")
def cuda(gpus: tuple[Gpu, ...]) -> Gpu:
    """The GPU that torch uses by default."""
    import torch

    if not torch.cuda.is_available():
        pytest.skip("torch is built without CUDA")
    return gpus[0]
