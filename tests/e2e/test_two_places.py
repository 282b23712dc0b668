"""Two daemons with different state directories and one database: workers of a job never run twice."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.daemon import ROOT, Daemon
from tests.eventually import becomes, eventually
from tests.test_daemon import run_daemon

#: A leader that only waits for a core is never silent for the length of this lease.
SETTINGS = {"local": {"slots": 2}, "engine": {"lease_seconds": 6.0}}
#: What a daemon does while another one is started.
ENDS = ("runs", "is stopped", "is killed")


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'shared.db'}"


@pytest.fixture
def first(tmp_path: Path, database_url: str) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path / "first", SETTINGS, database_url=database_url)
    daemon.start()
    yield daemon
    daemon.close()


@pytest.fixture
def second(tmp_path: Path, database_url: str) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path / "second", SETTINGS, database_url=database_url)
    yield daemon
    daemon.close()


def run_second(daemon: Daemon, database_url: str) -> subprocess.CompletedProcess[str]:
    return run_daemon(daemon.state_dir, SCHED_DATABASE_URL=database_url)


def running(marker: Path) -> int:
    """Processes that have the marker in their command."""
    lines = (" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))
    return sum(line.startswith("sleep") and str(marker) in line for line in lines)


def start_job(daemon: Daemon, tmp_path: Path) -> Path:
    """A job one of whose processes is named after the marker that is returned."""
    marker = tmp_path / "marker"
    body = {"command": ["bash", "-c", f"exec -a 'sleep {marker}' sleep 1000"]}
    job = daemon.client.post("/v1/jobs", json=body).json()["id"]
    becomes(lambda: daemon.client.get(f"/v1/jobs/{job}").json()["state"], "RUNNING")
    becomes(lambda: running(marker), 1)
    return marker


@contextmanager
def left(daemon: Daemon, marker: Path, end: str) -> Iterator[None]:
    """The daemon runs on, or ends so; afterwards it finds the process of the marker again."""
    if end == "is stopped":
        daemon.stop()
    elif end == "is killed":
        daemon.kill()
    yield
    if end != "runs":
        daemon.start()
    becomes(lambda: daemon.client.get("/readyz").status_code, 200)
    assert running(marker) == 1, "its own daemon finds them again"


@pytest.mark.parametrize("end", ENDS)
def test_a_second_daemon_is_refused_while_workers_live_at_another_place(
    first: Daemon, second: Daemon, database_url: str, tmp_path: Path, end: str
) -> None:
    marker = start_job(first, tmp_path)
    with left(first, marker, end):
        answer = run_second(second, database_url)
        assert answer.returncode != 0
        assert answer.stderr.count("\n") == 1
        assert f"the workers of this database run at state directory {first.state_dir}" in answer.stderr
        assert running(marker) == 1


def test_a_second_daemon_is_refused_while_the_first_leads_without_workers(
    first: Daemon, second: Daemon, database_url: str
) -> None:
    answer = run_second(second, database_url)
    assert answer.returncode != 0
    assert answer.stderr.count("\n") == 1
    assert f"runs workers of this database at state directory {first.state_dir}" in answer.stderr


@pytest.mark.parametrize("killed", [False, True])
def test_a_database_moves_to_another_place_once_nothing_runs(first: Daemon, second: Daemon, killed: bool) -> None:
    """And the first one is then refused in its turn."""
    if killed:
        first.kill()
    else:
        first.stop()
    second.start()
    job = second.client.post("/v1/jobs", json={"command": "true"}).json()["id"]
    becomes(lambda: second.client.get(f"/v1/jobs/{job}").json()["state"], "SUCCEEDED")
    with pytest.raises(AssertionError, match=f"at state directory {second.state_dir}"):
        first.start()


def test_a_daemon_that_comes_back_does_not_lead_while_workers_live_elsewhere(
    first: Daemon, second: Daemon, tmp_path: Path
) -> None:
    """It stood still without workers, and another place took the database over meanwhile."""
    process = psutil.Process(first.pid)
    process.suspend()
    try:
        second.start()
        marker = start_job(second, tmp_path)
    finally:
        process.resume()
    second.kill()
    reason = f"the workers of this database run at state directory {second.state_dir}"
    eventually(lambda: reason in first.client.get("/readyz").text, lambda: first.client.get("/readyz").text)
    assert running(marker) == 1


def test_a_place_that_is_lost_can_be_forgotten(
    first: Daemon, second: Daemon, database_url: str, tmp_path: Path
) -> None:
    def disown() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "scheduler.cli", "db", "disown", "--database-url", database_url]
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)

    start_job(first, tmp_path)
    refused = disown()
    assert refused.returncode != 0
    assert "stop it first" in refused.stderr
    first.kill()
    assert disown().returncode == 0
    second.start()


def test_a_copy_of_a_state_directory_is_another_place(first: Daemon, database_url: str, tmp_path: Path) -> None:
    start_job(first, tmp_path)
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-a", first.state_dir, copy], check=False, capture_output=True)
    answer = run_daemon(copy, SCHED_DATABASE_URL=database_url)
    assert answer.returncode != 0
    assert f"the workers of this database run at state directory {first.state_dir}" in answer.stderr
