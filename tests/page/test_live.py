"""The page beside a real daemon: it follows what happens, and what is asked on it happens."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.daemon import Daemon, SharedDaemon, running_daemon
from tests.eventually import eventually
from tests.page.browser import Viewer
from tests.page.conftest import Look

pytestmark = pytest.mark.browser

SLEEP = ["sleep", "1000"]
TOKEN = "0123456789abcdef"


@pytest.fixture(scope="module")
def shared_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedDaemon]:
    """In place of the one of all tests: four slots, and no other policy."""
    shared = SharedDaemon(lambda: tmp_path_factory.mktemp("page"), slots=4)
    yield shared
    shared.close()


def submit(daemon: Daemon, **fields: Any) -> int:
    answer = daemon.client.post("/v1/jobs", json={"command": SLEEP, "grace_seconds": 0, **fields})
    assert answer.status_code == 201, answer.text
    return int(answer.json()["id"])


def test_the_map_changes_as_jobs_resize(daemon: Daemon, look: Look) -> None:
    viewer = look(daemon.url).open().live()
    viewer.until_text("#figures", "0 of 4 slots used")
    assert viewer.colours() == 0
    wide = submit(daemon, name="wide", min_workers=1, max_workers=4)
    viewer.until_text("#figures", "4 of 4 slots used")
    viewer.until_text("#jobs", "4 of 1–4")
    assert viewer.colours() > 0
    urgent = submit(daemon, name="urgent", priority=9, workers=2)
    viewer.until_text("#jobs", "2 of 1–4")
    viewer.until_text("#jobs", "2 of 2")
    viewer.until_text("#events", f"job shrank job {wide} wide")
    viewer.page.click("#map-as-table summary")
    viewer.until_text("#nodes", f"job {wide}: 2 slots job {urgent}: 2 slots")
    colours = viewer.colours()
    daemon.client.post(f"/v1/jobs/{wide}/cancel")
    viewer.until_text("#figures", "2 of 4 slots used")
    viewer.until_shown(lambda: viewer.colours() < colours, "the slots of a job that has ended keep its colour")


@pytest.mark.slow
def test_the_queue_stands_in_order_with_reasons(daemon: Daemon, look: Look) -> None:
    submit(daemon, name="first", workers=4, preemptible=False, priority=5)
    submit(daemon, name="later", workers=2)
    submit(daemon, name="sooner", workers=2, priority=3)
    submit(daemon, name="never", workers=9)
    viewer = look(daemon.url).open().live()
    viewer.until_text("#queue", "too large for the suitable nodes")
    rows = [row.split("\t") for row in viewer.text("#queue").splitlines()]
    assert [(row[0].strip(), row[2].strip()) for row in rows] == [("1", "sooner"), ("2", "later"), ("3", "never")]
    assert "not enough free slots" in rows[0][-1]


def open_job(viewer: Viewer, number: int) -> Viewer:
    # By the keyboard: the focus stays on a link whose row is made anew meanwhile, a click would be lost.
    viewer.page.get_by_role("link", name=f"{number}", exact=True).first.press("Enter")
    viewer.until_text("#job h2", f"Job {number}:")
    return viewer


@pytest.mark.slow
def test_what_is_asked_on_a_jobs_page_happens(daemon: Daemon, look: Look) -> None:
    job = submit(daemon, name="mine", min_workers=1, max_workers=2)
    viewer = look(daemon.url).open().live()
    viewer.until_text("#jobs", "2 of 1–2")
    open_job(viewer, job)
    page = viewer.page
    page.get_by_label("Priority").fill("7")
    page.get_by_role("button", name="Set priority").click()
    viewer.until_text(".actions", "Priority 7 requested.")
    viewer.until_text(".facts", "Priority\n7")
    page.get_by_label("Maximum workers").fill("4")
    page.get_by_role("button", name="Scale").click()
    viewer.until_text(".facts", "4 of 1–4")
    page.get_by_role("button", name="Suspend").click()
    viewer.until_text(".facts", "suspended")
    page.get_by_role("button", name="Resume").click()
    viewer.until_text(".facts", "running")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="No").click()
    assert daemon.client.get(f"/v1/jobs/{job}").json()["state"] != "CANCELLED"
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Yes").click()
    viewer.until_text(".facts", "cancelled")
    stored = daemon.client.get(f"/v1/jobs/{job}").json()
    assert (stored["state"], stored["priority"], stored["max_workers"]) == ("CANCELLED", 7, 4)


@pytest.mark.slow
def test_what_is_refused_is_said(daemon: Daemon, look: Look) -> None:
    job = submit(daemon, min_workers=1, max_workers=2)
    viewer = look(daemon.url).open(f"/#/jobs/{job}")
    viewer.until_text(".facts", "running")
    viewer.page.get_by_label("Minimum workers").fill("3")
    viewer.page.get_by_role("button", name="Scale").click()
    viewer.until_text(".actions", "3 must not exceed max_workers 2")
    viewer.forgive("422")


@pytest.mark.slow
def test_a_jobs_page_shows_its_explanation_workers_sizes_and_output(daemon: Daemon, look: Look) -> None:
    job = submit(daemon, command="echo hello from the worker; exec sleep 1000", name="talker")
    viewer = look(daemon.url).open(f"/#/jobs/{job}")
    viewer.until_text("#job .log", "hello from the worker")
    viewer.until_text(".summary", "1 worker")
    viewer.until_text("#job tbody", f"{job}-1")
    viewer.until_text("#job .log ol", "job running")
    viewer.until("() => document.querySelector('svg.sizes').getAttribute('aria-label').includes('1 worker now')")
    submit(daemon, name="urgent", priority=9, workers=4)
    viewer.until_text(".facts", "queued")
    viewer.until_text(".summary", "slot")


@pytest.mark.slow
def test_a_jobs_page_says_who_gave_workers_to_whom_and_what_a_priority_would_do(daemon: Daemon, look: Look) -> None:
    low = submit(daemon, name="low", min_workers=1, max_workers=4, priority=3)
    viewer = look(daemon.url).open(f"/#/jobs/{low}")
    viewer.until_text(".facts", "4 of 1–4")
    viewer.until_text(".reasons", "In this state since")
    high = submit(daemon, name="high", priority=9, workers=2)
    viewer.until_text(".reasons", f"It gave up workers (4 → 2 workers) for job {high}")
    waits = submit(daemon, name="waits", priority=2)
    # A preview is of what has been decided on.
    path = f"/v1/jobs/{waits}/whatif?priority=2"
    eventually(lambda: daemon.client.get(path).is_success, f"job {waits} is not decided on")
    page = viewer.page
    page.get_by_label("Priority").fill("1")
    page.get_by_role("button", name="Preview").click()
    viewer.until_text(".actions", "it would settle at 1 worker. It has 2 now; without the change it settles at 2.")
    viewer.until_text(".actions", f"job {waits} (waits): 0 → 1 workers")
    assert daemon.client.get(f"/v1/jobs/{low}").json()["priority"] == 3
    page.goto(f"{daemon.url}/#/jobs/{waits}")
    viewer.until_text(".reasons", "What would change it: A priority of at least 4")
    page.get_by_label("Priority").fill("4")
    page.get_by_role("button", name="Preview").click()
    viewer.until_text(".actions", f"It would take workers from job {low} (low): 2 → 1 workers")


@pytest.mark.slow
def test_the_page_comes_back_with_the_daemon(daemon: Daemon, look: Look) -> None:
    submit(daemon, name="survivor", workers=3)
    viewer = look(daemon.url).open().live()
    viewer.until_text("#figures", "3 of 4 slots used")
    daemon.kill()
    viewer.until_text("#trouble", "Connection to the daemon lost")
    assert "survivor" in viewer.text("#jobs")
    daemon.start()
    viewer.until_text("#standing", "Live")
    viewer.until("() => document.getElementById('trouble').hidden")
    submit(daemon, name="newcomer")
    viewer.until_text("#figures", "4 of 4 slots used")
    viewer.forgive("ERR_")


@pytest.mark.slow
def test_a_token_opens_the_page_where_one_is_needed(tmp_path: Path, look: Look) -> None:
    with running_daemon(tmp_path, slots=4, http={"token": TOKEN}) as daemon:
        job = submit(daemon, name="secret")
        viewer = look(daemon.url).open()
        for guess in ("wrong-token-wrong-token", TOKEN):
            viewer.page.get_by_role("textbox", name="Token").fill(guess)
            viewer.page.get_by_role("button", name="Continue").click()
            viewer.until_text(
                "#standing" if guess == TOKEN else "#token-why", "Live" if guess == TOKEN else "rejected this token"
            )
        viewer.until_text("#jobs", "secret")
        open_job(viewer, job)
        viewer.page.get_by_label("Priority").fill("3")
        viewer.page.get_by_role("button", name="Set priority").click()
        viewer.until_text(".facts", "Priority\n3")
        assert TOKEN not in viewer.page.url
        viewer.page.get_by_role("button", name="Forget token").click()
        viewer.page.get_by_role("textbox", name="Token").wait_for()
        viewer.forgive("401")


@pytest.mark.slow
def test_a_code_in_the_address_logs_in_once_and_leaves_no_trace(tmp_path: Path, look: Look) -> None:
    with running_daemon(tmp_path, slots=4, http={"token": TOKEN}) as daemon:
        headers = {"authorization": f"Bearer {TOKEN}"}
        made = httpx.post(f"{daemon.url}/v1/tokens", json={"user": "ann"}, headers=headers).json()
        mine = {"authorization": f"Bearer {made['token']}"}
        code = httpx.post(f"{daemon.url}/v1/page-codes", headers=mine).json()["code"]
        viewer = look(daemon.url).open(f"/#code={code}")
        viewer.until_text("#standing", "Live")
        assert viewer.page.url == f"{daemon.url}/"
        assert viewer.page.evaluate("history.length") <= 2
        httpx.delete(f"{daemon.url}/v1/tokens/{made['id']}", headers=headers)
        viewer.until_text("#token-why", "was revoked")
        again = look(daemon.url).open(f"/#code={code}")
        again.until_text("#trouble", "The login failed: the code was used")
        for each in (viewer, again):
            each.forgive("401")


@pytest.mark.slow
def test_a_code_that_comes_to_a_page_that_is_open_logs_in_too(tmp_path: Path, look: Look) -> None:
    with running_daemon(tmp_path, slots=4, http={"token": TOKEN}) as daemon:
        viewer = look(daemon.url).open()
        viewer.page.get_by_role("textbox", name="Token").wait_for()
        code = daemon.client.post("/v1/page-codes").json()["code"]
        viewer.page.goto(f"{daemon.url}/#code={code}")
        viewer.until_text("#standing", "Live")
        assert viewer.page.url == f"{daemon.url}/"
        viewer.forgive("401")


@pytest.mark.slow
def test_a_question_for_a_token_that_was_closed_can_be_asked_again(tmp_path: Path, look: Look) -> None:
    with running_daemon(tmp_path, slots=4, http={"token": TOKEN}) as daemon:
        viewer = look(daemon.url).open()
        box = viewer.page.get_by_role("textbox", name="Token")
        box.wait_for()
        viewer.page.keyboard.press("Escape")
        box.wait_for(state="hidden")
        viewer.page.get_by_role("button", name="Enter token").click()
        box.fill(TOKEN)
        viewer.page.get_by_role("button", name="Continue").click()
        viewer.until_text("#standing", "Live")
        assert not viewer.page.get_by_role("button", name="Enter token").is_visible()
        viewer.forgive("401")
