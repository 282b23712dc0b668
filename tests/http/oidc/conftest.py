"""An issuer, and a site that believes it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.http.oidc.lab import Lab, lab_at
from tests.issuer import Issuer


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer().listening() as listening:
        yield listening


@pytest.fixture
def lab(tmp_path: Path, issuer: Issuer) -> Iterator[Lab]:
    with lab_at(tmp_path, issuer) as served:
        yield served
