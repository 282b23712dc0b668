"""A fresh world per test whose ticks are measured."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.metrics.observed import Observed


@pytest.fixture
def w(tmp_path: Path) -> Iterator[Observed]:
    world = Observed(tmp_path)
    yield world
    world.close()
