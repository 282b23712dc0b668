"""`python -m benchmarks.page_pictures [DIRECTORY]`: the live page, at 4 and 10,000 slots and 1,000 queues, for docs."""

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.page import JOBS, NODES, SLOTS, fill, tick
from scheduler.model.queue_tree import QUEUES_MAX
from tests.http.queue_tree import crowd, plant
from tests.http.site import Site
from tests.page.browser import Viewer, missing_reason, started_browser

DOCS = Path(__file__).parent.parent / "docs"
#: How long before the picture the cluster was filled, so that the last hour has something to show.
BEFORE_SECONDS = 1500
#: Of the cluster with many queues.
QUEUED_NODES, QUEUED_JOBS, USERS = 100, 1_500, 600


def main(directory: Path) -> int:
    reason = missing_reason()
    if reason is not None:
        print(f"not drawn: {reason}", file=sys.stderr)
        return 1
    with _viewer(_few_slots, "light") as viewer:
        viewer.page.screenshot(path=directory / "page-4.png", full_page=True)
    with _viewer(_many_slots, "dark") as viewer:
        viewer.page.screenshot(path=directory / "page-10000.png")
    with _viewer(_many_queues, "light") as viewer:
        for path in ("q2", "q2/q4"):
            viewer.page.get_by_role("button", name=path, exact=True).click()
        viewer.page.locator("#queues-part").screenshot(path=directory / "page-queues.png")
    return 0


@contextmanager
def _viewer(fill_site: Callable[[Site], None], scheme: str) -> Iterator[Viewer]:
    """One who looks at the page of a site, when all that it shows is there."""
    with tempfile.TemporaryDirectory(prefix="sched-page-") as state:
        site = Site(Path(state))
        with site.served(), started_browser() as browser:
            fill_site(site)
            viewer = Viewer(browser, site.url, color_scheme=scheme).open().live()
            viewer.page.wait_for_selector("svg.utilization")
            yield viewer
        site.close()


def _few_slots(site: Site) -> None:
    fill(site, 1, 4, 0)
    for path, guarantee in (("lab", 3), ("lab/text", 1), ("lab/vision", 2), ("guests", 0)):
        site.client.post("/v1/queues", json={"path": path, "guarantee": {"*": guarantee}}).raise_for_status()
    site.submit(name="background", user="ada", min_workers=1, max_workers=4, queue="guests")
    site.submit(name="ablation", user="mary", workers=2, priority=-1, queue="lab/text")
    tick(site)
    _pass_time(site)
    site.submit(name="urgent", user="grace", priority=9, workers=2, queue="lab/vision")
    for _ in range(30):
        tick(site)
        site.clock.advance(20)


def _many_slots(site: Site) -> None:
    fill(site, NODES, SLOTS, JOBS)
    _pass_time(site)
    site.submit(name="urgent", user="grace", priority=9, workers=NODES * SLOTS // 20)
    tick(site)
    site.clock.advance(1)


def _many_queues(site: Site) -> None:
    fill(site, QUEUED_NODES, SLOTS, 0)
    leaves = plant(site, QUEUES_MAX, QUEUED_NODES * SLOTS)
    crowd(site, leaves, QUEUED_JOBS, USERS)
    _pass_time(site)


def _pass_time(site: Site) -> None:
    for _ in range(3):
        site.clock.advance(BEFORE_SECONDS / 3)
        tick(site)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS))
