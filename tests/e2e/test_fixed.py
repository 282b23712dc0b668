"""A job with parameter servers on one machine: real processes that talk to each other over sockets."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.daemon import ROOT, Daemon
from tests.eventually import becomes

#: More than a test lives for.
WITHOUT_END = 10**9


def submit(daemon: Daemon, story: Path, count: int, **fields: Any) -> int:
    """Two workers and two servers that need no slot."""
    command = [sys.executable, str(ROOT / "tests" / "servers.py"), str(story), str(count)]
    body = {"name": "sums", "command": command, "workers": 2, "fixed": {"replicas": 2}, "grace_seconds": 60.0, **fields}
    answer = daemon.client.post("/v1/jobs", json=body)
    assert answer.status_code == 201, answer.text
    assert answer.json()["warnings"] == []
    return int(answer.json()["id"])


def reach(daemon: Daemon, number: int, state: str) -> dict[str, Any]:
    def view() -> dict[str, Any]:
        found: dict[str, Any] = daemon.client.get(f"/v1/jobs/{number}").json()
        return found

    becomes(lambda: view()["state"], state)
    return view()


def workers(daemon: Daemon, number: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = daemon.client.get(f"/v1/jobs/{number}/workers").json()["workers"]
    return found


def test_servers_start_before_the_workers_and_stop_after_them(daemon: Daemon, tmp_path: Path) -> None:
    story = tmp_path / "story"
    number = submit(daemon, story, 20)
    job = reach(daemon, number, "SUCCEEDED")
    assert (job["retries_used"], job["fixed"]["replicas"], job["fixed"]["workers"]) == (0, 2, 0)
    lines = story.read_text().splitlines()
    assert lines == ["done", "done", "down 40", "down 40"]
    servers = [worker for worker in workers(daemon, number) if worker["fixed_index"] is not None]
    others = [worker for worker in workers(daemon, number) if worker["fixed_index"] is None]
    assert [worker["fixed_index"] for worker in servers] == [0, 1]
    assert [worker["slot_ids"] for worker in servers] == [[], []]
    assert max(each["ready_at"] for each in servers) <= min(each["started_at"] for each in others)
    assert max(each["ended_at"] for each in others) <= min(each["ended_at"] for each in servers)
    assert [each["exit_reason"] for each in servers] == ["ASKED", "ASKED"]


def test_a_server_that_dies_takes_the_attempt_with_it_and_the_daemon_s_death_does_not(
    daemon: Daemon, tmp_path: Path
) -> None:
    story = tmp_path / "story"
    number = submit(daemon, story, WITHOUT_END)
    before = reach(daemon, number, "RUNNING")
    daemon.restart()
    assert reach(daemon, number, "RUNNING")["live_workers"] == before["live_workers"]
    os.kill(_server_pid(daemon, before), signal.SIGKILL)
    becomes(lambda: daemon.client.get(f"/v1/jobs/{number}").json()["attempt"], 2)
    job = reach(daemon, number, "RUNNING")
    assert job["retries_used"] == 1
    assert set(job["fixed"]["hosts"]).isdisjoint(before["fixed"]["hosts"])
    daemon.client.post(f"/v1/jobs/{number}/cancel").raise_for_status()
    reach(daemon, number, "CANCELLED")


def _server_pid(daemon: Daemon, job: dict[str, Any]) -> int:
    """The process of the job's first server, found by its environment."""
    name = next(worker["id"] for worker in job["live_workers"] if worker["fixed_index"] == 0)
    wanted = {f"SCHED_WORKER_ID={name}".encode(), f"SCHED_URL={daemon.url}".encode()}
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and wanted <= set((entry / "environ").read_bytes().split(b"\0")):
                return int(entry.name)
        except OSError:
            continue  # it has ended
    raise AssertionError(f"no process of worker {name}")
