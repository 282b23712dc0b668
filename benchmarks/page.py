"""The live page over 1,250 nodes × 8 slots with 800 jobs, in Chromium: first paint, and updates as jobs resize.

The real engine, store and HTTP server over the simulated cluster; the browser is Debian's and shares the machine with
them. The page itself says when it had painted what it was sent.
"""

import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.figure import Figure, percentile
from benchmarks.trouble import Skipped
from scheduler.http.live.live import Frame, next_frame
from scheduler.http.live.snapshot import Drawer
from tests.http.site import Site
from tests.page.browser import Viewer, missing_reason, started_browser

NODES, SLOTS = 1_250, 8
JOBS = 800
LOADS, UPDATES = 9, 30
#: Between two updates, so that each is drawn by itself.
PAUSE_MS = 300
_KEEP_UPDATES = """
window.updates = [];
new PerformanceObserver((list) => {
  for (const { startTime, duration } of list.getEntriesByName("sched-update")) {
    window.updates.push([performance.timeOrigin + startTime + duration, duration]);
  }
}).observe({ type: "measure" });
"""


def run() -> list[Figure]:
    reason = missing_reason()
    if reason is not None:
        raise Skipped(reason)
    with tempfile.TemporaryDirectory(prefix="sched-bench-") as directory:
        site = Site(Path(directory))
        try:
            with site.served(), started_browser() as browser:
                fill(site, NODES, SLOTS, JOBS)
                return _measure(site, lambda: Viewer(browser, site.url))
        finally:
            site.close()


def fill(site: Site, nodes: int, slots: int, jobs: int) -> None:
    """A well filled cluster of elastic jobs, all of them running."""
    dice = random.Random(1)
    for number in range(nodes):
        site.node(f"n{number:04d}", slots=slots)
    tick(site)
    batch = [_job(dice, number, nodes * slots / jobs) for number in range(jobs)]
    if batch:
        site.client.post("/v1/jobs/batch", json={"jobs": batch}, timeout=60).raise_for_status()
    for _ in range(5):
        site.clock.advance(5)
        tick(site)


def _job(dice: random.Random, number: int, slots: float) -> dict[str, object]:
    least = dice.randint(1, max(1, int(slots * 0.7)))
    fields = {"name": f"training-{number}", "user": f"user{number % 20}", "priority": dice.randrange(10)}
    return {"command": ["train"], "min_workers": least, "max_workers": least + dice.randint(1, int(slots)), **fields}


def tick(site: Site) -> float:
    """When all who listen were told of it, in unix milliseconds."""
    report = site.engine.tick()
    if report.error is not None:
        raise RuntimeError(f"the tick decided nothing: {report.error}")
    told_at = time.time() * 1000
    site.services.events_bell.ring({None, *(event.job_id for event in report.events)})
    return told_at


def _measure(site: Site, viewer_of: Callable[[], Viewer]) -> list[Figure]:
    loads = [_load(viewer_of()) for _ in range(LOADS)]
    drawer = Drawer()
    frame = next_frame(site.services, drawer, Frame(), "")
    spans = [_update(site, viewer) for viewer in [_watched(viewer_of())] for _ in range(UPDATES)]
    painted, whole_way = [span[0] for span in spans], [span[1] for span in spans]
    began = time.perf_counter()
    next_frame(site.services, drawer, frame, "")
    drawn_ms = (time.perf_counter() - began) * 1000
    there = f"{NODES * SLOTS:,} slots, {JOBS} jobs"
    return [
        Figure("page: first paint of the map, median", statistics.median(loads), "ms", at_most=1000, note=there),
        Figure("page: first paint of the map, worst", max(loads), "ms", at_most=1000, note=f"{LOADS} loads"),
        Figure("page: update, received → painted, median", statistics.median(painted), "ms", at_most=100),
        Figure("page: update, received → painted, p95", percentile(painted, 0.95), "ms", at_most=100),
        Figure("page: update, committed → painted, median", statistics.median(whole_way), "ms"),
        Figure("page: the daemon makes the next picture", drawn_ms, "ms"),
        Figure("page: the whole picture as sent", len(frame.whole) / 1024, "KiB"),
    ]


def _load(viewer: Viewer) -> float:
    """From the beginning of the navigation until the map was painted, in milliseconds."""
    viewer.open().live()
    mark = viewer.page.evaluate("() => performance.getEntriesByName('sched-first-map')[0].startTime")
    viewer.close()
    return float(mark)


def _watched(viewer: Viewer) -> Viewer:
    viewer.page.add_init_script(_KEEP_UPDATES)
    return viewer.open().live()


def _update(site: Site, viewer: Viewer) -> tuple[float, float]:
    """A new important job shrinks others: milliseconds from its message, and from its commit, until that is painted."""
    viewer.page.wait_for_timeout(PAUSE_MS)
    before = viewer.page.evaluate("() => window.updates.length")
    site.client.post("/v1/jobs", json={"command": ["train"], "priority": 99, "workers": 8}).raise_for_status()
    viewer.until("(count) => window.updates.length > count", before)  # that it was submitted
    viewer.page.wait_for_timeout(PAUSE_MS)
    before = viewer.page.evaluate("() => window.updates.length")
    site.clock.advance(1)
    told_at = tick(site)
    viewer.until("(count) => window.updates.length > count", before)
    painted_at, duration = viewer.page.evaluate("(count) => window.updates[count]", before)
    return duration, painted_at - told_at
