"""The page over the simulated cluster: large ones, others' names, the keyboard, themes, a standby."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from scheduler.model.ids import WorkerId
from scheduler.model.slot import ClosedSlot, SlotClosure
from tests.http.site import Site
from tests.page.conftest import Look

if TYPE_CHECKING:
    from playwright.sync_api import Route

pytestmark = [pytest.mark.browser, pytest.mark.slow]

NASTY = "<img src=x onerror=alert(1)>"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Served, with two nodes of four slots."""
    made = Site(tmp_path)
    made.node("a", slots=4)
    made.node("b", slots=4)
    made.tick()
    with capture_logs(), made.served():
        yield made
    made.close()


def test_names_of_users_stay_text(site: Site, look: Look) -> None:
    job = site.submit(name=NASTY, user=NASTY, command=["echo", NASTY])
    site.submit(name=NASTY, workers=8, priority=-1)
    site.advance(1)
    viewer = look(site.url).open().live()
    viewer.until_text("#jobs", NASTY)
    assert NASTY in viewer.text("#queue")
    assert NASTY in viewer.text("#events")
    viewer.page.goto(f"{site.url}/#/jobs/{job}")
    viewer.until_text(".facts", f"echo {NASTY}")
    assert viewer.page.locator("img").count() == 0


@pytest.mark.parametrize("path", ["/", "/#/jobs/1"])
def test_long_names_without_a_gap_make_nothing_scroll_sideways(tmp_path: Path, look: Look, path: str) -> None:
    site = Site(tmp_path)
    site.node("n" * 120, slots=4)
    site.tick()
    with capture_logs(), site.served():
        site.submit(name="W" * 128, user="U" * 128, command=["x" * 1000])
        site.submit(name="W" * 128, user="U" * 128, workers=4, priority=-1)
        site.advance(1)
        viewer = look(site.url).open(path).live()
        viewer.until_text("main", "WWWW")
        for width in (1400, 320):
            viewer.page.set_viewport_size({"width": width, "height": 800})
            # The map is drawn for the new width a moment later.
            viewer.until("(width) => document.documentElement.scrollWidth <= width", width)
    site.close()


def test_it_is_live_again_after_a_break_in_which_nothing_has_changed(site: Site, look: Look) -> None:
    with site.client.stream("GET", "/v1/live") as answer:
        lines = answer.iter_lines()
        picture = "\n".join(next(lines) for _ in ("id", "event", "data", "end")) + "\n"
    viewer = look(site.url)
    held: list[Route] = []

    def stream(route: "Route") -> None:
        """The first one breaks off after the picture, the second is answered as soon as the test says so."""
        held.append(route)
        if len(held) == 1:
            route.fulfill(body=picture, content_type="text/event-stream")

    viewer.page.route("**/v1/live", stream)
    viewer.open().live()
    viewer.until_text("#trouble", "Connection to the daemon lost")
    viewer.until_shown(lambda: len(held) == 2, "the page does not ask again")
    held[1].continue_()
    viewer.until_text("#standing", "Live")
    assert not viewer.page.locator("#trouble").is_visible()


def test_what_has_left_the_cluster_is_neither_drawn_nor_remembered(site: Site, look: Look) -> None:
    viewer = look(site.url).open().live()
    left = """async () => {
      const [{ Cluster }, { SlotMap }] = await Promise.all([import('/page/cluster.js'), import('/page/map.js')]);
      const cluster = new Cluster();
      const canvas = document.createElement("canvas");
      const around = document.getElementById("overview").appendChild(document.createElement("div"));
      around.append(canvas);
      const map = new SlotMap(canvas, cluster, () => {}, () => {});
      const node = (name) => ({ name, slots: 2, away: "", held: [], shared: [], closed: [], reserved: [], foreign: 0 });
      const job = (id) => ({ id, workers: 1, since: 0, state: "RUNNING", priority: 0 });
      cluster.take("picture", { time: 1, nodes: [node("a"), node("b")], jobs: [job(1), job(2), job(3)] });
      map.layout();
      around.hidden = true; // as while the page of a job is shown
      cluster.take("change", { time: 2, nodes_gone: ["b"], jobs_gone: [1] });
      map.layout();
      map.draw(); // in the colours of another theme
      const sizes = [[...cluster.sizes.keys()]];
      cluster.take("picture", { time: 3, nodes: [node("a")], jobs: [job(3)] });
      sizes.push([...cluster.sizes.keys()]);
      around.hidden = false;
      map.layout();
      return { sizes, drawn: map.order.map(({ name }) => name) };
    }"""
    assert viewer.page.evaluate(left) == {"sizes": [[2, 3], [3]], "drawn": ["a"]}


def test_a_job_that_does_not_exist_is_said_so_and_nothing_is_offered_or_asked_for_any_more(
    site: Site, look: Look
) -> None:
    viewer = look(site.url)
    asked: list[str] = []
    viewer.page.on("request", lambda request: asked.append(request.url))
    viewer.page.clock.install()
    viewer.open("/#/jobs/999")
    viewer.until_text("#job", "Job 999 does not exist")
    assert viewer.text("#job h2") == "Job 999 not found"
    assert viewer.page.locator("#job button, #job input, #job table, #job section").count() == 0
    viewer.page.clock.run_for(10_000)
    assert [url for url in asked if "999" in url.removesuffix("#/jobs/999")] == [f"{site.url}/v1/jobs/999"]
    viewer.forgive("404")


def test_the_map_is_walked_by_keys(site: Site, look: Look) -> None:
    site.submit(name="steady", workers=5)
    site.advance(1)
    viewer = look(site.url).open().live()
    page = viewer.page
    page.get_by_role("application").focus()
    assert viewer.text("#map-told") == "a, slot 0: job 1 (steady), ready"
    page.keyboard.press("End")
    assert viewer.text("#map-told") == "b, slot 3: free"
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert viewer.text("#map-told") == "a, slot 1: job 1 (steady), ready"
    page.keyboard.press("Enter")
    viewer.until_text("#job h2", "Job 1: steady")
    assert page.evaluate("() => document.activeElement.tagName") == "H2"
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.tagName") == "INPUT"


ACTIVE_LINK = "() => document.activeElement.getAttribute('href')"


def test_the_focus_stays_on_a_link_whose_row_is_made_anew(site: Site, look: Look) -> None:
    site.submit(name="less important", workers=1, priority=1)
    first = site.submit(name="first", min_workers=1, max_workers=4, priority=5)
    site.advance(1)
    viewer = look(site.url).open().live()
    link = viewer.page.get_by_role("link", name="first", exact=True)
    link.focus()
    site.client.patch(f"/v1/jobs/{first}", json={"max_workers": 6})
    site.advance(10)
    viewer.until_text("#jobs", "of 1–6")
    assert viewer.page.evaluate(ACTIVE_LINK) == f"#/jobs/{first}"
    site.client.patch(f"/v1/jobs/{first}", json={"priority": 0})
    site.advance(10)
    viewer.until("() => document.querySelector('#jobs tr').innerText.includes('less important')")
    assert viewer.page.evaluate(ACTIVE_LINK) == f"#/jobs/{first}"
    assert viewer.page.evaluate("() => document.activeElement.textContent") == "first"


def test_a_jobs_page_that_is_left_open_goes_with_the_time(site: Site, look: Look) -> None:
    job = site.submit(name="long", workers=4)
    site.advance(5)
    viewer = look(site.url)
    viewer.page.clock.install()
    viewer.open(f"/#/jobs/{job}")
    viewer.until_text(".reasons", "In this state since")
    assert "2 h" not in viewer.text(".reasons")
    viewer.page.clock.fast_forward(7_200_000)
    viewer.until_text(".reasons", "for 2 h.")


def test_what_is_not_today_is_told_with_its_day(site: Site, look: Look) -> None:
    site.submit(name="before", workers=8, time_limit_seconds=3 * 86400, preemptible=False)
    waits = site.submit(name="waits", workers=8)
    site.advance(5)
    viewer = look(site.url, locale="en-GB", timezone_id="UTC")
    viewer.page.clock.install(time=site.clock.now())
    viewer.open(f"/#/jobs/{waits}")
    viewer.until_text(".summary", "It starts")
    today, later = "12 Jan 1970", "15 Jan 1970"
    assert later in viewer.text(".summary")
    assert today not in viewer.text("#job .log ol")
    viewer.page.clock.fast_forward(86_400_000)
    viewer.until_text("#job .log ol", today)


def test_a_jobs_page_shows_the_newest_workers_however_many_pages_they_fill(tmp_path: Path, look: Look) -> None:
    site = Site(tmp_path, page_size_max=1)
    site.node("a", slots=12)
    site.tick()
    with capture_logs(), site.served():
        job = site.submit(workers=12)
        site.advance(1)
        viewer = look(site.url).open(f"/#/jobs/{job}")
        viewer.until_text("#job tbody", f"{job}-12")
        assert viewer.page.locator("#job tbody tr").count() == 12
        site.cluster.crash(WorkerId(f"{job}-1"))
        site.advance(60)
        viewer.until_text("#job tbody", f"{job}-13")
        asked: list[str] = []
        viewer.page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
        for priority in (1, 2):
            asked.clear()
            site.client.patch(f"/v1/jobs/{job}", json={"priority": priority})
            site.advance(1)
            viewer.until_text(".facts", f"Priority\n{priority}")
        assert any(path.startswith("workers?after=") for path in asked)
        assert "workers?after=0&limit=1000" not in asked, "what has ended is read again"
    site.close()


def test_screen_readers_get_the_map_in_words_and_as_a_table(site: Site, look: Look) -> None:
    site.submit(name="steady", workers=5)
    site.advance(1)
    viewer = look(site.url).open().live()
    assert viewer.page.get_by_role("application", name="Map of slots: 5 of 8 used on 2 nodes").count() == 1
    viewer.open_table()
    rows = viewer.page.locator("#nodes tr").all_inner_texts()
    assert [row.split("\t")[:3] for row in rows] == [["a", "4", "4"], ["b", "1", "4"]]
    unnamed = "() => [...document.querySelectorAll('button, input, select, svg[role=img]')].filter((each) =>\
      !each.closest('[hidden], dialog:not([open])') && !(each.textContent.trim() || each.labels?.length\
      || each.getAttribute('aria-label')?.trim())).length"
    assert viewer.page.evaluate(unnamed) == 0


def test_the_table_tells_who_shares_slots(tmp_path: Path, look: Look) -> None:
    site = Site(tmp_path)
    site.node("a", slots=4, oversell=1.25)
    site.tick()
    with capture_logs(), site.served():
        site.submit(workers=4, priority=5)
        site.advance(5)
        site.submit(oversell=True)
        site.advance(5)
        viewer = look(site.url).open().live()
        viewer.open_table()
        viewer.until_text("#nodes", "job 1: 4 slots job 2: 1 slot shared")
    site.close()


def test_the_table_tells_which_slots_are_closed(tmp_path: Path, look: Look) -> None:
    site = Site(tmp_path)
    closed = (
        ClosedSlot(0, SlotClosure.FOREIGN, "used by process 7 (python)"),
        ClosedSlot(2, SlotClosure.UNHEALTHY, "Xid 79: GPU has fallen off the bus"),
    )
    site.node("a", slots=4, closed_slots=closed)
    site.tick()
    with capture_logs(), site.served():
        viewer = look(site.url).open().live()
        viewer.open_table()
        viewer.until_text("#nodes", "outside this scheduler: 1 slot; slot 2: Xid 79: GPU has fallen off the bus")
        cells = """() => import('/page/cells.js').then(({ cellsOf, cellText }) => {
          const node = { name: "a", slots: 3, away: "", held: [[5, "ready", [0]]], shared: [], foreign: 0, reserved: [],
                         closed: [[0, "FOREIGN", "used by process 7"], [1, "UNHEALTHY", "Xid 79"]] };
          return cellsOf(node).map((cell, slot) => cellText(node, slot, cell, new Map()));
        })"""
        assert viewer.page.evaluate(cells) == [
            "a, slot 0: job 5, ready, closed to new workers: used by process 7",
            "a, slot 1: free, but closed to new workers: Xid 79",
            "a, slot 2: free",
        ]
    site.close()


def test_queues_are_shown_as_a_tree_as_long_as_there_are_any(site: Site, look: Look) -> None:
    viewer = look(site.url).open().live()
    page = viewer.page
    hidden = "() => document.getElementById('queues-part').hidden"
    cells = "(row) => [...row.cells].map((each) => each.textContent)"
    columns = "() => [...document.querySelectorAll('th.of-queue')].filter((head) => !head.hidden).length"
    site.submit(workers=1, name="nobody's")
    site.advance(1)
    viewer.until_text("#jobs", "nobody's")
    assert (page.evaluate(hidden), page.evaluate(columns)) == (True, 0)
    for path, fields in (
        ("lab", {"guarantee": {"*": 4}}),
        ("lab/vision", {"share_users": True}),
        ("lab-2", {}),
    ):
        assert site.client.post("/v1/queues", json={"path": path, **fields}).status_code == 201
    site.submit(workers=3, queue="lab/vision", user=NASTY, name="sees")
    site.submit(workers=7, queue="lab-2", name="waits")
    site.advance(2)
    viewer.until_text("#queues", f"{NASTY}: 3 of 3")
    viewer.until_text("#queue", "waits")
    texts = f"() => [...document.querySelectorAll('#queues tr')].map({cells})"
    assert [(row[0], row[1][:4], row[-3], row[-2]) for row in page.evaluate(texts)] == [
        ("lab", "3 of", "1", "0"),
        ("lab/vision", "3 of", "1", "0"),
        ("lab-2", "0 of", "0", "1"),
    ]
    assert viewer.text("#queues-title") == "Queues 3"
    assert page.evaluate(columns) == 3
    indent = "(head) => parseFloat(getComputedStyle(head).paddingLeft)"
    first, second, third = page.evaluate(f"() => [...document.querySelectorAll('#queues th')].map({indent})")
    assert first == third < second
    jobs = page.evaluate(f"() => [...document.querySelectorAll('#jobs tr')].map({cells})")
    assert [(row[1], row[2]) for row in jobs] == [("nobody's", "–"), ("sees", "lab/vision")]
    assert "lab-2" in viewer.text("#queue")
    page.get_by_role("link", name="sees", exact=True).press("Enter")
    viewer.until_text(".facts", "Queue\nlab/vision")
    page.get_by_role("link", name="Cluster").press("Enter")
    for job in (2, 3):
        site.client.post(f"/v1/jobs/{job}/cancel")
    site.advance(60)
    for path in ("lab-2", "lab/vision", "lab"):
        assert site.client.delete(f"/v1/queues/{path}").status_code == 200
    site.advance(1)
    viewer.until(hidden)
    assert page.evaluate(columns) == 0


def test_states_differ_by_shape_as_well_as_by_colour(site: Site, look: Look) -> None:
    viewer = look(site.url).open().live()
    shapes = """() => import('/page/cells.js').then(({ drawCell }) => {
      const states = ["free", "ready", "starting", "leaving", "reserved", "foreign", "away"];
      return states.map((state) => {
        const context = new OffscreenCanvas(8, 8).getContext("2d");
        drawCell(context, { state, job: 1, shared: [] }, 0, 0, 7, { of: () => "#888", faint: "#888" });
        return [...context.getImageData(0, 0, 8, 8).data].map((value) => (value > 100 ? 1 : 0)).join("");
      });
    })"""
    drawn = viewer.page.evaluate(shapes)
    assert len(set(drawn)) == len(drawn) == 7


@pytest.mark.parametrize(("scheme", "ground"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(18, 22, 27)")])
def test_it_is_light_or_dark_as_the_system_says_or_as_chosen(site: Site, look: Look, scheme: str, ground: str) -> None:
    viewer = look(site.url, color_scheme=scheme).open().live()
    colour = "() => getComputedStyle(document.body).backgroundColor"
    assert viewer.page.evaluate(colour) == ground
    button = viewer.page.get_by_role("button", name="Theme")
    button.click()
    assert viewer.page.evaluate(colour) == "rgb(255, 255, 255)"
    button.click()
    assert viewer.page.evaluate(colour) == "rgb(18, 22, 27)"
    viewer.page.reload()
    viewer.live()
    assert viewer.page.evaluate(colour) == "rgb(18, 22, 27)"


def test_a_standby_shows_what_the_leader_decides(tmp_path: Path, look: Look) -> None:
    leader, standby = Site(tmp_path), Site(tmp_path)
    leader.node("a", slots=4)
    with capture_logs(), leader.served(), standby.served():
        leader.engine = leader._new_engine("leader", leader.url)
        standby.engine = standby._new_engine("standby", standby.url)
        leader.tick()
        assert standby.tick().following
        viewer = look(standby.url).open().live()
        assert viewer.text("#standing") == "Live, from a standby; leader leads"
        assert viewer.page.get_by_role("link", name="leader").get_attribute("href") == leader.url
        leader.submit(workers=3)
        leader.advance(1)
        standby.tick()
        viewer.until_text("#figures", "3 of 4 slots used")
    leader.close()
    standby.close()


def test_ten_thousand_slots_are_drawn_and_followed(tmp_path: Path, look: Look) -> None:
    site = Site(tmp_path)
    for number in range(1250):
        site.node(f"n{number:04d}", slots=8)
    site.engine.tick()
    with capture_logs(), site.served():
        site.client.post("/v1/jobs/batch", json={"jobs": [{"command": ["true"], "workers": 50}] * 200}, timeout=60)
        for _ in range(2):
            site.engine.tick()
            site.clock.advance(1)
        viewer = look(site.url).open().live()
        viewer.until_text("#figures", "10,000 of 10,000 slots used (100 %)")
        full = viewer.colours()
        assert full > 10_000 * 4 * 4
        site.client.post("/v1/jobs/1/cancel")
        for _ in range(3):
            site.engine.tick()
            site.clock.advance(60)
        site.services.events_bell.ring([None])
        viewer.until_text("#figures", "9,950 of 10,000 slots used")
        viewer.until_shown(lambda: viewer.colours() < full, "the map stays as it was")
        assert viewer.page.locator("#jobs tr").count() == 50
        viewer.page.locator("#jobs-more").click()
        assert viewer.page.locator("#jobs tr").count() == 199
    site.close()
