"""An authority of the tests."""

from pathlib import Path

import pytest

from tests.certificates import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.made(tmp_path / "authority")
