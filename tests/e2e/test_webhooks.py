"""Webhooks of real daemons that are killed: every event arrives, in order, and as `sched webhooks` says."""

import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from examples.webhook_receiver import verified
from tests.daemon import ROOT, Daemon, running_daemon
from tests.e2e.replicas import leader_and_standby
from tests.eventually import becomes, eventually
from tests.webhooks.receiver import SECRET, Receiver

pytestmark = pytest.mark.slow


def hook(receiver: Receiver, kinds: str) -> dict[str, str]:
    """Settings of a webhook that does not wait long."""
    fast = {"hook__backoff_seconds": "0.2", "hook__backoff_max_seconds": "1"}
    return {"hook__url": receiver.url, "hook__secret": SECRET, "hook__events": kinds, **fast}


def shown(daemon: Daemon) -> dict[str, Any]:
    (webhook,) = daemon.client.get("/v1/webhooks").json()["webhooks"]
    return dict(webhook)


def sched(daemon: Daemon, *words: str) -> str:
    command = [sys.executable, "-m", "scheduler.cli", *words, "--url", daemon.url]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def run_jobs(daemon: Daemon, count: int) -> list[int]:
    jobs = [int(daemon.client.post("/v1/jobs", json={"command": "true"}).json()["id"]) for _ in range(count)]
    for job in jobs:
        becomes(lambda job=job: daemon.client.get(f"/v1/jobs/{job}").json()["state"], "SUCCEEDED")  # type: ignore[misc]
    return jobs


def test_a_daemon_that_is_killed_goes_on_telling(tmp_path: Path) -> None:
    receiver = Receiver()
    with receiver.listening(), running_daemon(tmp_path, webhooks=hook(receiver, "JOB_SUCCEEDED")) as daemon:
        eventually(lambda: shown(daemon)["position"] is not None, "the webhook does not begin")
        jobs = run_jobs(daemon, 2)
        receiver.until(lambda: len(set(receiver.ids)) == 2)
        eventually(lambda: shown(daemon)["waiting"] == 0, "what was taken is not stored")
        receiver.statuses = [500] * 1000
        jobs += run_jobs(daemon, 3)
        receiver.until(lambda: len(receiver.refused) >= 2)
        eventually(lambda: shown(daemon)["attempts"] >= 2, "failures are not shown")
        view = shown(daemon)
        assert (view["error"], view["waiting"]) == ("the receiver responded with status 500", 3)
        assert "hidden" not in str(view)
        metrics = daemon.client.get("/metrics").text
        assert "sched_failing_webhooks 1" in metrics
        assert 'sched_webhook_tries_total{outcome="ok"} 2' in metrics
        shown_state = sched(daemon, "webhooks")
        assert "JOB_SUCCEEDED" in shown_state
        assert "tries: the receiver responded with status 500" in shown_state
        daemon.kill()
        assert daemon.log().count("webhook delivery failed") == 1
        receiver.statuses = []
        daemon.start()
        receiver.until(lambda: len(set(receiver.ids)) == 5)
        eventually(lambda: shown(daemon)["waiting"] == 0, "what was taken is not stored")
        assert shown(daemon)["attempts"] == 0
        assert SECRET not in daemon.log()
    # An answer that comes after the death is not heard: what it was for is told once more.
    assert sorted({event["job_id"] for event in receiver.events}) == jobs
    assert receiver.ids == sorted(receiver.ids)
    now = time.time()
    assert all(verified(SECRET, headers, body, now) for headers, body in receiver.taken)


@pytest.mark.postgres
def test_the_next_leader_goes_on_where_the_last_one_was(tmp_path: Path, database: str) -> None:
    receiver = Receiver()
    with ExitStack() as stack:
        stack.enter_context(receiver.listening())
        settings = {"webhooks": hook(receiver, "JOB_SUBMITTED")}
        leader, standby = stack.enter_context(leader_and_standby(tmp_path, database, settings))
        eventually(lambda: shown(standby)["position"] is not None, "the webhook does not begin")
        jobs = run_jobs(leader, 2)
        receiver.until(lambda: len(set(receiver.ids)) == 2)
        eventually(lambda: shown(standby)["waiting"] == 0, "what was taken is not stored")
        receiver.statuses = [503] * 1000
        jobs += run_jobs(standby, 2)
        receiver.until(lambda: len(receiver.refused) >= 1)
        leader.kill()
        receiver.statuses = []
        jobs += run_jobs(standby, 2)
        receiver.until(lambda: len(set(receiver.ids)) == 6)
        eventually(lambda: shown(standby)["waiting"] == 0, "what was taken is not stored")
    assert list(dict.fromkeys(event["job_id"] for event in receiver.events)) == jobs
