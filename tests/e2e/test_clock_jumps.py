"""Somebody sets the clock of the machine of a real daemon, while it runs and while it is away."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon import ROOT, Daemon, running_daemon
from tests.eventually import becomes, eventually
from tests.wall_clock import WallClock, needs_compiler

pytestmark = [needs_compiler]

HOUR, DAY = 3600, 86400
#: Refuses to end.
STUBBORN = "trap : TERM; echo ready; while :; do sleep 0.1; done"


@pytest.fixture
def wall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WallClock:
    return WallClock(tmp_path, monkeypatch)


@pytest.fixture
def daemon(tmp_path: Path, wall: WallClock) -> Iterator[Daemon]:
    with running_daemon(tmp_path, slots=8) as daemon:
        yield daemon


def submit(daemon: Daemon, command: str, **fields: object) -> int:
    answer = daemon.client.post("/v1/jobs", json={"command": command, **fields})
    assert answer.status_code == 201, answer.text
    return int(answer.json()["id"])


def state(daemon: Daemon, job: int) -> str:
    return str(daemon.client.get(f"/v1/jobs/{job}").json()["state"])


def one_job_comes_and_goes(daemon: Daemon) -> None:
    """So that ticks have seen what was done before."""
    job = submit(daemon, "true")
    becomes(lambda: state(daemon, job), "SUCCEEDED")


def restart(daemon: Daemon, wall: WallClock, seconds: int, *, away: bool) -> None:
    """The clock is set, while the daemon is away or not."""
    if away:
        daemon.kill()
    wall.jump(seconds)
    if away:
        daemon.start()


@pytest.mark.parametrize(("seconds", "away"), [(120, True), (2 * HOUR, False), (40 * DAY, True), (-HOUR, False)])
def test_durations_are_what_they_were(daemon: Daemon, wall: WallClock, seconds: int, away: bool) -> None:
    stubborn = submit(daemon, STUBBORN, grace_seconds=300)
    limited = submit(daemon, "sleep 1000", time_limit_seconds=HOUR)
    done = submit(daemon, "true")
    becomes(lambda: state(daemon, limited), "RUNNING")
    becomes(lambda: daemon.client.get(f"/v1/jobs/{stubborn}/logs").text, "ready\n")
    becomes(lambda: state(daemon, done), "SUCCEEDED")
    daemon.client.post(f"/v1/jobs/{stubborn}/cancel").raise_for_status()
    becomes(lambda: state(daemon, stubborn), "STOPPING")
    restart(daemon, wall, seconds, away=away)
    jumped = next(event for event in daemon.events() if event["kind"] == "CLOCK_JUMPED")
    assert abs(jumped["amount"] - seconds) < 5
    one_job_comes_and_goes(daemon)
    assert state(daemon, stubborn) == "STOPPING", "a grace of 300 s is not over"
    assert state(daemon, limited) == "RUNNING"
    assert state(daemon, done) == "SUCCEEDED"
    cluster = daemon.client.get("/v1/cluster").json()
    assert abs(cluster["time"] - time.time() - seconds) < 60, "people are shown what their clocks say"
    view = next(job for job in cluster["jobs"] if job["id"] == stubborn)
    [worker] = daemon.client.get(f"/v1/jobs/{stubborn}").json()["live_workers"]
    assert view["state"] == "STOPPING"
    assert 0 < worker["stop_deadline"] - cluster["time"] <= 300
    assert [line for line in cluster["troubles"] if "the machine's clock was set" in line]
    assert "sched_clock_jumps_total 1.0" in daemon.client.get("/metrics").text
    assert "the machine's clock was set" in health(daemon)


def test_a_pause_after_a_failure_is_no_longer_for_a_clock_that_was_set_back(daemon: Daemon, wall: WallClock) -> None:
    one_job_comes_and_goes(daemon)
    failing = submit(daemon, "exit 1", max_retries=2)
    eventually(lambda: daemon.client.get(f"/v1/jobs/{failing}").json()["retries_used"] > 0, "it does not fail")
    wall.jump(-HOUR)
    becomes(lambda: state(daemon, failing), "FAILED")


def health(daemon: Daemon) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    answer = subprocess.run(
        [sys.executable, "-m", "scheduler.cli", "health", "-o", "json"],
        env={**environment, "SCHED_URL": daemon.url},
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    return " ".join(json.loads(answer.stdout)["troubles"])
