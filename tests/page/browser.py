"""Debian's Chromium, driven by Playwright: pages that must not complain."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium")
#: For what the daemon and the page do together.
PATIENCE_MS = 120_000


def missing_reason() -> str | None:
    """Why there is no browser; None: there is one."""
    if find_spec("playwright") is None:
        return "no playwright here: pip install playwright"
    return None if CHROMIUM else "no Chromium here: apt-get install chromium"


@contextmanager
def started_browser() -> Iterator["Browser"]:
    """A browser without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=PATIENCE_MS)
        try:
            yield browser
        finally:
            browser.close()


class Viewer:
    """One who looks at the page, and hears every complaint of it: errors, refused content, failed requests."""

    def __init__(self, browser: "Browser", url: str, **context: Any) -> None:
        self.context = browser.new_context(viewport={"width": 1400, "height": 1000}, **context)
        self.context.set_default_timeout(PATIENCE_MS)
        self.page: Page = self.context.new_page()
        self.url = url
        self.complaints: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda said: self._hear(said.type, said.text))
        self.page.on("request", lambda request: self._see(request.url))

    def open(self, path: str = "/") -> "Viewer":
        self.page.goto(self.url + path)
        return self

    def live(self) -> "Viewer":
        """Wait until the stream has brought the first picture and it was drawn."""
        self.until("() => performance.getEntriesByName('sched-first-map').length > 0")
        return self

    def until(self, holds: str, argument: Any = None) -> None:
        """Wait until a function of the page says so."""
        self.page.wait_for_function(holds, arg=argument)

    def open_table(self) -> None:
        """Show the map as a table and wait for its rows: browsers tell the page of what was opened a moment later."""
        self.page.get_by_text("The map as a table").click()
        self.until("() => document.querySelectorAll('#nodes tr').length > 0")

    def text(self, selector: str) -> str:
        return self.page.inner_text(selector)

    def until_text(self, selector: str, wanted: str) -> None:
        """Wait until an element's text holds this."""
        self.until("([s, t]) => document.querySelector(s)?.innerText.includes(t)", [selector, wanted])

    def colours(self) -> int:
        """How many pixels of the map have a colour: those of jobs."""
        script = """() => {
            const map = document.getElementById("map");
            const copy = new OffscreenCanvas(map.width, map.height).getContext("2d", { willReadFrequently: true });
            copy.drawImage(map, 0, 0);
            const { data } = copy.getImageData(0, 0, map.width, map.height);
            let count = 0;
            for (let at = 0; at < data.length; at += 4) {
                const [red, green, blue] = [data[at], data[at + 1], data[at + 2]];
                if (Math.max(red, green, blue) - Math.min(red, green, blue) > 40) count += 1;
            }
            return count;
        }"""
        return int(self.page.evaluate(script))

    def until_shown(self, seen: Callable[[], bool], what: str) -> None:
        """Look again after each frame until it is seen."""
        until = time.monotonic() + PATIENCE_MS / 1000
        while not seen():
            assert time.monotonic() < until, what
            self.page.evaluate("() => new Promise((done) => requestAnimationFrame(done))")

    def forgive(self, word: str) -> None:
        """Complaints with this word were to be expected."""
        self.complaints = [complaint for complaint in self.complaints if word not in complaint]

    def close(self) -> None:
        self.context.close()

    def _hear(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(text)

    def _see(self, url: str) -> None:
        if not url.startswith(self.url):
            self.complaints.append(f"something from elsewhere: {url}")
