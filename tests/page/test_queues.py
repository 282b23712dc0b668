"""The page over a thousand queues: what is seen first, what is opened and found, and how much is sent for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler.model.queue_tree import QUEUES_MAX
from tests.http.queue_tree import crowd, plant
from tests.http.site import TOKEN, Site
from tests.page.browser import Viewer
from tests.page.conftest import Look
from tests.page.test_accessibility import findings
from tests.store import garbage

pytestmark = [pytest.mark.browser, pytest.mark.slow]

FIRST_LEVEL = [f"q{number}" for number in range(10)]
ROWS_FIRST = 50
#: Received for one job that grows: its line, those of its queues, its node, and the event.
BYTES_MAX = 20_000
ADMIN = {"authorization": f"Bearer {TOKEN}"}
BUSY = ("q3/", "q8/")


@contextmanager
def planted(directory: Path, **http: Any) -> Iterator[Site]:
    """Served with a thousand queues, of which those inside q3 and q8 have jobs."""
    site = Site(directory, **http)
    site.node("a", slots=40)
    leaves = plant(site, QUEUES_MAX, slots=40)
    with capture_logs(), site.served():
        site.client.headers.update(ADMIN if http else {})
        crowd(site, [path for path in leaves if path.startswith(BUSY)], jobs=400, users=300)
        site.advance(2)
        yield site
    site.close()


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """For those who only look."""
    with planted(tmp_path_factory.mktemp("queues")) as made:
        yield made


def rows(viewer: Viewer) -> list[str]:
    """Paths of the rows that are shown."""
    names = "() => [...document.querySelectorAll('#queues th :is(.opener, .leaf)')].map((each) => each.textContent)"
    return list(viewer.page.evaluate(names))


def until_rows(viewer: Viewer, count: int) -> None:
    viewer.until("(count) => document.querySelectorAll('#queues tr').length === count", count)


def test_of_many_queues_the_first_level_is_shown_and_those_with_jobs_first(still: Site, look: Look) -> None:
    viewer = look(still.url).open().live()
    until_rows(viewer, len(FIRST_LEVEL))
    assert rows(viewer) == ["q3", "q8", *(path for path in FIRST_LEVEL if path not in ("q3", "q8"))]
    assert viewer.text("#queues-title") == "Queues 1,000"
    assert findings(viewer) == []


@pytest.mark.parametrize("key", ["Enter", "Space", None])
def test_a_queue_is_opened_and_closed_by_click_and_by_key(still: Site, look: Look, key: str | None) -> None:
    viewer = look(still.url).open().live()
    until_rows(viewer, 10)

    def press(name: str) -> None:
        opener = viewer.page.get_by_role("button", name=name, exact=True)
        if key is None:
            opener.click()
        else:
            opener.press(key)

    press("q8")
    until_rows(viewer, 19)
    press("q8/q0")
    shown = rows(viewer)
    assert shown[1:3] == ["q8", "q8/q0"]
    assert shown[3].startswith("q8/q0/")
    assert viewer.page.evaluate("() => document.activeElement.textContent") == "q8/q0"
    assert viewer.page.get_by_role("button", name="q8/q0", exact=True).get_attribute("aria-expanded") == "true"
    assert findings(viewer) == []
    press("q8")
    until_rows(viewer, 10)


def test_no_more_rows_are_made_than_are_asked_for(still: Site, look: Look) -> None:
    viewer = look(still.url).open().live()
    viewer.page.get_by_label("Show only queue or user").fill("q")
    until_rows(viewer, ROWS_FIRST)
    assert viewer.text("#queues-title") == "Queues 1,000 of 1,000"
    viewer.page.locator("#queues-more").click()
    until_rows(viewer, 4 * ROWS_FIRST)
    viewer.page.get_by_label("Show only queue or user").fill("")
    until_rows(viewer, 10)


def test_queues_and_jobs_are_found_by_path_and_by_user_also_on_the_next_visit(still: Site, look: Look) -> None:
    viewer = look(still.url).open().live()
    until_rows(viewer, 10)
    job = still.client.get("/v1/jobs?state=QUEUED&limit=1").json()["jobs"][0]
    ways = [job["queue"].rsplit("/", levels)[0] for levels in (2, 1, 0)]
    field = viewer.page.get_by_label("Show only queue or user")
    field.fill(f" {job['user'].upper()} ")
    until_rows(viewer, 3)
    assert rows(viewer) == ways
    assert viewer.text("#queues-title") == "Queues 1 of 1,000"
    users = "() => [...document.querySelectorAll('#queue tr a')].map((link) => link.getAttribute('href'))"
    assert f"#/jobs/{job['id']}" in viewer.page.evaluate(users)
    assert " of " in viewer.text("#queue-title")
    field.fill(job["queue"])
    assert rows(viewer) == ways
    viewer.page.reload()
    viewer.live()
    until_rows(viewer, 3)
    assert viewer.page.get_by_label("Show only queue or user").input_value() == job["queue"]
    viewer.page.get_by_label("Show only queue or user").fill("nothing of this name")
    until_rows(viewer, 0)
    assert viewer.text("#queues-title") == "Queues 0 of 1,000"
    assert viewer.page.locator("#jobs tr").count() == 0


def test_who_looks_sees_the_queues_of_their_token_and_jobs_first_and_open(tmp_path: Path, look: Look) -> None:
    with planted(tmp_path, token=TOKEN) as site:
        site.submit(queue="q7/q5", user="ann")
        site.tick()
        of_bob = {"user": "bob", "queue": "q4/q2"}
        token = site.client.post("/v1/tokens", json=of_bob).json()["token"]
        ann = site.user_header("ann")["authorization"].removeprefix("Bearer ")
        for secret, own in ((ann, "q7/q5"), (token, "q4/q2")):
            viewer = look(site.url)
            viewer.page.add_init_script(f"sessionStorage.setItem('sched-token', '{secret}')")
            viewer.open().live()
            viewer.until("(own) => document.querySelectorAll('#queues tr')[1]?.textContent.startsWith(own)", own)
            shown = rows(viewer)
            assert shown[0] == own.split("/")[0]
            assert all(path.startswith(f"{own}/") for path in shown[2:12])


def test_queues_whose_jobs_cannot_start_say_so_and_come_before_idle_ones(tmp_path: Path, look: Look) -> None:
    with planted(tmp_path) as site:
        viewer = look(site.url).open().live()
        until_rows(viewer, 10)
        with garbage.connected(f"sqlite:///{site.store.file}") as session:
            session.execute("UPDATE queues SET members = '[[' WHERE path = 'q9/q0'")
        site.client.patch("/v1/queues/q0", json={"weight": 2}).raise_for_status()
        site.tick()
        viewer.until_text("#queues", "jobs of queues inside cannot start")
        assert rows(viewer)[:3] == ["q3", "q8", "q9"]
        viewer.page.get_by_role("button", name="q9", exact=True).click()
        viewer.until_text("#queues", "its row cannot be read")
        assert rows(viewer)[3] == "q9/q0"
        assert "inside cannot start" not in viewer.text("#queues")


def entitled(site: Site, path: str) -> float:
    return next(each.entitled for each in site.services.board.shares if (each.path, each.user) == (path, None))


def test_a_change_of_one_job_sends_little_and_a_change_of_all_queues_arrives(tmp_path: Path, look: Look) -> None:
    with planted(tmp_path) as site:
        viewer = look(site.url)
        received = streamed(viewer)
        viewer.open().live()
        until_rows(viewer, 10)
        assert sum(received) > 5 * BYTES_MAX, "the whole picture"
        received.clear()
        site.submit(queue="q1", name="newcomer")
        site.tick()
        cell = "(path) => [...document.querySelectorAll('#queues tr')].find((row) => row.cells[0].textContent === path)"
        jobs = (
            f"(path) => {{ const row = ({cell})(path); return row?.cells[4].textContent + row?.cells[5].textContent; }}"
        )
        viewer.until(f"(path) => ['01', '10'].includes(({jobs})(path))", "q1")
        assert 0 < sum(received) < BYTES_MAX
        path = site.services.board.shares[-1].path
        before = entitled(site, path)
        site.node("b", slots=4000)
        site.tick()
        assert entitled(site, path) != before
        viewer.page.get_by_label("Show only queue or user").fill(path)
        slots = f"([path, slots]) => ({cell})(path)?.cells[1].textContent.endsWith(slots)"
        viewer.until(slots, [path, f" of {entitled(site, path):,.0f}"])


def streamed(viewer: Viewer) -> list[int]:
    """The lengths of what comes by the live stream from now on."""
    received: list[int] = []
    streams: set[str] = set()
    network = viewer.context.new_cdp_session(viewer.page)

    def see(asked: dict[str, Any]) -> None:
        if asked["request"]["url"].endswith("/v1/live"):
            streams.add(asked["requestId"])

    network.on("Network.requestWillBeSent", see)
    network.on(
        "Network.dataReceived", lambda said: said["requestId"] in streams and received.append(said["dataLength"])
    )
    network.send("Network.enable")
    return received
