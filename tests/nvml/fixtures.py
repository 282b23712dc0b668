"""Fixtures of machines with GPUs, for tests of any folder; `tests/conftest.py` names this file."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.nvml.machine import FakeGpu, FakeMachine, build_library, why_no_library


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, built once for all tests of a process."""
    missing = why_no_library()
    if missing is not None:
        pytest.skip(missing)
    return build_library(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def gpu_machine(nvml_library: Path, tmp_path: Path) -> Callable[..., FakeMachine]:
    """Makes the machine of a test, with these GPUs."""

    def make(*gpus: FakeGpu) -> FakeMachine:
        return FakeMachine(nvml_library, tmp_path, *gpus)

    return make
