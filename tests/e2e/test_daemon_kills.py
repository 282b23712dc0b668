"""SIGKILL of the daemon at random moments while a mixed load runs: every job ends as it should, none twice, none lost.

A failure prints its seed; `SCHED_TEST_SEED=<seed> pytest tests/e2e/test_daemon_kills.py` replays the same moments.
"""

import os
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import Daemon, running_daemon

KILLS = 12
#: From a start of the daemon to its death: before it serves, while it loads, while it decides.
LIFE_SECONDS = (0.05, 2.2)
END_SECONDS_MAX = 300.0

#: Each worker writes a line when it starts, so that a double start shows.
NOTE = 'echo "$SCHED_WORKER_ID" >> "$STARTS"; '
#: Leaves in order when asked, as a cooperative worker does.
POLITE = NOTE + "trap 'exit 64' TERM; i=0; while [ $i -lt {ticks} ]; do sleep 0.1; i=$((i+1)); done"


def _jobs(starts: Path) -> list[dict[str, Any]]:
    """Twenty jobs: plain, gangs, elastic, failing, and urgent ones."""

    def job(name: str, command: str, **fields: Any) -> dict[str, Any]:
        return {"name": name, "command": command, "env": {"STARTS": str(starts)}, "grace_seconds": 5.0, **fields}

    return [
        *(job(f"plain-{i}", NOTE + f"sleep {0.3 + 0.4 * i}") for i in range(6)),
        *(job(f"gang-{i}", NOTE + f"sleep {1 + i}", workers=2) for i in range(3)),
        *(
            job(f"elastic-{i}", POLITE.format(ticks=30 + 10 * i), min_workers=1, max_workers=3, priority=1)
            for i in range(4)
        ),
        *(job(f"failing-{i}", NOTE + "exit 3", max_retries=1) for i in range(3)),
        *(job(f"urgent-{i}", NOTE + "sleep 0.5", priority=9, workers=2) for i in range(4)),
    ]


def _expected(name: str) -> str:
    return "FAILED" if name.startswith("failing") else "SUCCEEDED"


@pytest.mark.slow
def test_kills_of_the_daemon_harm_no_job(tmp_path: Path) -> None:
    seed = int(os.environ.get("SCHED_TEST_SEED", "7"))
    print(f"seed {seed}: SCHED_TEST_SEED={seed} pytest {__file__}")
    moments = random.Random(seed)
    starts = tmp_path / "starts"
    starts.touch()
    with running_daemon(tmp_path, slots=6, engine={"backoff_seconds": 0.2}) as daemon:
        answer = daemon.client.post("/v1/jobs/batch", json={"jobs": _jobs(starts)})
        assert answer.status_code == 201, answer.text
        for _ in range(KILLS):
            daemon.kill()
            daemon.start_unready()
            time.sleep(moments.uniform(*LIFE_SECONDS))  # the moment of death is what is random here
        daemon.restart()
        jobs = _wait_until_all_ended(daemon)
    assert len(jobs) == 20
    wrong = {job["name"]: (job["state"], job["detail"]) for job in jobs if job["state"] != _expected(job["name"])}
    assert not wrong
    twice = [worker for worker, times in Counter(starts.read_text().split()).items() if times > 1]
    assert not twice, f"started twice: {twice}"
    assert all(job["retries_used"] == (2 if job["state"] == "FAILED" else 0) for job in jobs), jobs


def _wait_until_all_ended(daemon: Daemon) -> list[dict[str, Any]]:
    after = 0
    until = time.monotonic() + END_SECONDS_MAX
    while True:
        active = daemon.client.get("/v1/jobs", params={"active": "true", "limit": 100}).json()["jobs"]
        if not active:
            jobs: list[dict[str, Any]] = daemon.client.get("/v1/jobs", params={"limit": 100}).json()["jobs"]
            return jobs
        assert time.monotonic() < until, f"still not ended: {[_history(daemon, job) for job in active]}"
        events = daemon.client.get("/v1/events", params={"after": after, "wait": 10, "limit": 1000}).json()
        after = events["next"] or after


def _history(daemon: Daemon, job: dict[str, Any]) -> str:
    events = daemon.client.get("/v1/events", params={"job": job["id"], "limit": 20}).json()["events"]
    lines = [f"{e['at']:.2f} {e['kind']} {e['worker_id'] or ''} {e['cause']} {e['detail']}" for e in events]
    return "\n".join([f"{job['name']} is {job['state']} ({job['reason']})", *lines])
