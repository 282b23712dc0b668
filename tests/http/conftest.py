"""Served sites: one per test, and one for tests that change nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.http.site import TOKEN, Site


@contextmanager
def _loaded_site(directory: Path) -> Iterator[Site]:
    site = Site(directory)
    site.node("a", slots=4)
    site.tick()
    # Captured, so that a test may fill the disk without breaking what pytest writes.
    with capture_logs(), site.served():
        yield site
    site.close()


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Site]:
    """A site with a token; its client sends none."""
    site = Site(tmp_path, token=TOKEN)
    site.node("a", slots=4)
    with capture_logs(), site.served():
        yield site
    site.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A site without a token, with one node of four slots, its world loaded."""
    with _loaded_site(tmp_path) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def still_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A `site` shared by a module, for requests that leave no trace: job 1 runs there with worker 1-1."""
    with _loaded_site(tmp_path_factory.mktemp("site")) as loaded:
        loaded.submit()
        loaded.advance(1)
        yield loaded


@pytest.fixture
def known(tmp_path: Path) -> Iterator[Site]:
    """A site whose users are known by their tokens; its client is an administrator."""
    site = Site(tmp_path, token=TOKEN)
    with site.served():
        site.client.headers["authorization"] = f"Bearer {TOKEN}"
        yield site
    site.close()
