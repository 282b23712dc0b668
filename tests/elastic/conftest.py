"""A scheduler in this process for those tests that ask for one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.elastic.becoming import served_site
from tests.http.site import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with served_site(tmp_path) as site:
        yield site
