"""One browser for all tests; each has pages of its own, which are not to complain."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.page.browser import Viewer, missing_reason, started_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser

#: Opens the page that is served at a URL.
Look = Callable[..., Viewer]


# Only as long as these tests: while it is driven, no other test of the process can run a loop of asyncio.
@pytest.fixture(scope="package")
def browser() -> Iterator["Browser"]:
    reason = missing_reason()
    if reason is not None:
        pytest.skip(reason)
    with started_browser() as started:
        yield started


@pytest.fixture
def look(browser: "Browser") -> Iterator[Look]:
    """Who expects complaints forgives them."""
    viewers: list[Viewer] = []

    def new_viewer(url: str, **context: Any) -> Viewer:
        viewers.append(Viewer(browser, url, **context))
        return viewers[-1]

    yield new_viewer
    complaints = [complaint for viewer in viewers for complaint in viewer.complaints]
    for viewer in viewers:
        viewer.close()
    assert not complaints
