"""A fresh test world per test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.world import World


@pytest.fixture
def w(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()
