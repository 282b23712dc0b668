"""`python -m benchmarks.page_pictures [DIRECTORY]`: the live page at 4 and 10,000 slots, for the documents."""

import sys
import tempfile
from pathlib import Path

from benchmarks.page import JOBS, NODES, SLOTS, fill, tick
from tests.http.site import Site
from tests.page.browser import Viewer, missing_reason, started_browser

DOCS = Path(__file__).parent.parent / "docs"
#: How long before the picture the cluster was filled, so that the last hour has something to show.
BEFORE_SECONDS = 1500


def main(directory: Path) -> int:
    reason = missing_reason()
    if reason is not None:
        print(f"not drawn: {reason}", file=sys.stderr)
        return 1
    _draw(directory / "page-4.png", nodes=1, slots=4, jobs=0, scheme="light")
    _draw(directory / "page-10000.png", nodes=NODES, slots=SLOTS, jobs=JOBS, scheme="dark")
    return 0


def _draw(path: Path, *, nodes: int, slots: int, jobs: int, scheme: str) -> None:
    with tempfile.TemporaryDirectory(prefix="sched-page-") as state:
        site = Site(Path(state))
        with site.served(), started_browser() as browser:
            fill(site, nodes, slots, jobs)
            if jobs == 0:
                site.submit(name="background", user="ada", min_workers=1, max_workers=4)
                site.submit(name="ablation", user="mary", workers=2, priority=-1)
                tick(site)
            for _ in range(3):
                site.clock.advance(BEFORE_SECONDS / 3)
                tick(site)
            site.submit(name="urgent", user="grace", priority=9, workers=max(2, nodes * slots // 20))
            for _ in range(1 if jobs else 30):
                tick(site)
                site.clock.advance(1 if jobs else 20)
            viewer = Viewer(browser, site.url, color_scheme=scheme).open().live()
            viewer.page.wait_for_selector("svg.utilization")
            viewer.page.screenshot(path=path, full_page=jobs == 0)
            print(path)
        site.close()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS))
