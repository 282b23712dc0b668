"""What an audit by axe-core finds on the page: nothing, in either theme, on each view and with each dialog open."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from structlog.testing import capture_logs

from tests.http.site import Site
from tests.page.browser import Viewer
from tests.page.conftest import Look

pytestmark = [pytest.mark.browser, pytest.mark.slow]

#: WCAG's levels, and what axe's authors hold to be good practice.
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
#: The width of a page at 400 % zoom (WCAG 1.4.10).
NARROW_PX = 320


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Served, with every kind of job and node that the page tells apart."""
    made = Site(tmp_path)
    for name in ("a", "b", "c"):
        made.node(name, slots=4)
    made.tick()
    with capture_logs(), made.served():
        for path in ("lab", "lab/vision"):
            made.client.post("/v1/queues", json={"path": path, "share_users": True})
        made.submit(name="steady", workers=5, queue="lab/vision", user="ann")
        made.submit(name="elastic", min_workers=1, max_workers=2)
        made.submit(name="too large", workers=12, priority=-1)
        put_away = made.submit(name="put away", workers=1)
        made.advance(1)
        made.client.post(f"/v1/jobs/{put_away}/suspend")
        made.client.post("/v1/nodes/c/cordon")
        made.advance(2)
        yield made
    made.close()


def findings(viewer: Viewer) -> list[str]:
    """One line for each element that breaks a rule."""
    options = {"runOnly": RULES, "resultTypes": ["violations"]}
    found = Axe().run(viewer.page, options=options).response["violations"]
    return [f"{rule['id']}: {node['html'][:120]} {node['failureSummary']}" for rule in found for node in rule["nodes"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_cluster_can_be_perceived_by_all(site: Site, look: Look, scheme: str) -> None:
    viewer = look(site.url, color_scheme=scheme).open().live()
    viewer.until_text("#queue", "too large")
    viewer.until_text("#suspended", "put away")
    viewer.until_text("#queues", "ann: 5 of")
    viewer.open_table()
    assert findings(viewer) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_so_can_a_job_and_what_is_asked_before_it_is_cancelled(site: Site, look: Look, scheme: str) -> None:
    viewer = look(site.url, color_scheme=scheme).open("/#/jobs/1").live()
    viewer.until_text("#job h2", "Job 1: steady")
    viewer.until_text("#job .log ol", "submitted")
    assert findings(viewer) == []
    viewer.page.get_by_role("button", name="Cancel").click()
    viewer.until("() => document.getElementById('confirm-dialog').open")
    assert findings(viewer) == []


def test_so_can_a_refusal_and_the_question_for_a_token(tmp_path: Path, look: Look) -> None:
    guarded = Site(tmp_path, token="a" * 16)
    with capture_logs(), guarded.served():
        viewer = look(guarded.url).open()
        viewer.until("() => document.getElementById('token-dialog').open")
        assert findings(viewer) == []
        viewer.forgive("401")
    guarded.close()


@pytest.mark.parametrize("path", ["/", "/#/jobs/1"])
def test_four_times_larger_nothing_is_scrolled_sideways(site: Site, look: Look, path: str) -> None:
    viewer = look(site.url).open(path)
    viewer.page.set_viewport_size({"width": NARROW_PX, "height": 600})
    viewer.live()
    viewer.until_text("main", "steady")
    # The map is drawn for the new width a moment later.
    viewer.until("(width) => document.documentElement.scrollWidth <= width", NARROW_PX)
    assert findings(viewer) == []
