"""The page beside a real daemon: it follows what happens, and what is asked on it happens."""

from pathlib import Path

from tests.daemon import running_daemon
from tests.page.conftest import Look

SLEEP = ["sleep", "1000"]


def test_the_map_changes_as_jobs_resize(tmp_path: Path, look: Look) -> None:
    with running_daemon(tmp_path, slots=4) as daemon:
        viewer = look(daemon.url).open().live()
        assert viewer.colours() == 0
        assert "0 of 4 slots used" in viewer.text("#figures")
        job = {"command": SLEEP, "name": "wide", "min_workers": 1, "max_workers": 4, "grace_seconds": 0}
        daemon.client.post("/v1/jobs", json=job)
        viewer.until_text("#figures", "4 of 4 slots used")
        viewer.until_text("#jobs", "4 of 1–4")
        alone = viewer.colours()
        assert alone > 0
        daemon.client.post("/v1/jobs", json={"command": SLEEP, "name": "urgent", "priority": 9, "workers": 2})
        viewer.until_text("#jobs", "2 of 1–4")
        viewer.until_text("#jobs", "2 of 2")
        viewer.until_text("#events", "job shrank")
        viewer.page.click("#map-as-table summary")
        viewer.until_text("#nodes", "job 1: 2 slots job 2: 2 slots")
