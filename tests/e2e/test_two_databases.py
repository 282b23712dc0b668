"""Two daemons with different databases and one directory for workers: nobody ends the other's workers."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.clusters.local.records import any_recorded
from tests.daemon import ROOT, Daemon
from tests.e2e.test_two_places import ENDS, left, running, start_job
from tests.eventually import becomes
from tests.test_daemon import run_daemon

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def workers(tmp_path: Path) -> Path:
    return tmp_path / "workers"


@pytest.fixture
def pair(tmp_path: Path, workers: Path) -> Iterator[tuple[Daemon, Daemon]]:
    settings = {"local": {"slots": 2, "directory": str(workers)}}
    daemons = [Daemon(tmp_path / name, settings, workers_dir=workers) for name in ("first", "second")]
    yield daemons[0], daemons[1]
    for daemon in daemons:  # before workers are ended through the supervisor, which one that lives on would take over
        daemon.kill()
    for daemon in daemons:
        daemon.close()


@pytest.fixture
def first(pair: tuple[Daemon, Daemon]) -> Daemon:
    pair[0].start()
    return pair[0]


@pytest.fixture
def second(pair: tuple[Daemon, Daemon]) -> Daemon:
    """Not started."""
    return pair[1]


def refusal(state_dir: Path, **environment: str) -> str:
    """The one line that a daemon gives up with."""
    answer = run_daemon(state_dir, **environment)
    assert answer.returncode != 0
    assert answer.stderr.count("\n") == 1
    return answer.stderr


def disown(directory: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scheduler.cli", "db", "disown", "--directory", str(directory), "-o", "json"]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


@pytest.mark.parametrize("end", ENDS)
def test_a_daemon_of_another_database_is_refused_where_workers_live(
    first: Daemon, second: Daemon, workers: Path, tmp_path: Path, end: str
) -> None:
    marker = start_job(first, tmp_path)
    with left(first, marker, end):
        told = refusal(second.state_dir, SCHED_LOCAL__DIRECTORY=str(workers))
        assert f"another database, {first.state_dir / 'sched.db'}" in told
        assert str(workers) in told


def test_a_directory_goes_to_another_database_once_nothing_runs_and_comes_back(
    first: Daemon, second: Daemon, workers: Path
) -> None:
    first.stop()
    second.start()
    job = second.client.post("/v1/jobs", json={"command": "true"}).json()["id"]
    becomes(lambda: second.client.get(f"/v1/jobs/{job}").json()["state"], "SUCCEEDED")
    becomes(lambda: any_recorded(workers), False)
    with pytest.raises(AssertionError, match=f"another database, {second.state_dir / 'sched.db'}"):
        first.start()
    second.kill()
    first.start()


def test_a_state_directory_with_workers_is_refused_to_another_database(tmp_path: Path) -> None:
    """Its daemon is stopped, and somebody starts it with another database."""
    daemon = Daemon(tmp_path / "state", {"local": {"slots": 2}})
    daemon.start()
    try:
        marker = start_job(daemon, tmp_path)
        daemon.kill()
        told = refusal(daemon.state_dir, SCHED_DATABASE_URL=f"sqlite:///{tmp_path / 'other.db'}")
        assert f"{daemon.state_dir} has workers of another database, {daemon.state_dir / 'sched.db'}" in told
        daemon.start()
        assert running(marker) == 1
    finally:
        daemon.close()


def test_a_directory_whose_database_is_lost_can_be_forgotten(
    first: Daemon, second: Daemon, workers: Path, tmp_path: Path
) -> None:
    """And workers that nobody knows any more are ended."""
    marker = start_job(first, tmp_path)
    refused = disown(workers)
    assert refused.returncode != 0
    assert "stop it first" in refused.stderr
    first.kill()
    forgotten = disown(workers)
    assert json.loads(forgotten.stdout) == {"directory": str(workers)}
    second.start()
    becomes(lambda: running(marker), 0)
