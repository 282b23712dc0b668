"""A poisoned job on a real daemon harms nobody else, whatever the poison."""

import json
import os
import random
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.daemon import ROOT, Daemon, running_daemon
from tests.e2e.poisons import Poisoned, poisons
from tests.eventually import becomes, eventually

MODULE = "tests.poisoned_daemon"
KINDS = 200
JSON = {"content-type": "application/json"}
GOOD = 100
#: A tick of theirs looks for a few dozen culprits, one after the other.
SECONDS_MAX = 240.0


def submit(daemon: Daemon, *jobs: dict[str, Any]) -> list[int]:
    answer = daemon.client.post("/v1/jobs/batch", json={"jobs": list(jobs)})
    assert answer.status_code < 300, answer.text
    return [int(job_id) for job_id in answer.json()["ids"]]


def state_of(daemon: Daemon, job_id: int) -> str:
    return str(daemon.client.get(f"/v1/jobs/{job_id}").json()["state"])


def health(daemon: Daemon) -> dict[str, Any]:
    command = [sys.executable, "-m", "scheduler.cli", "health", "-o", "json"]
    environment = {**os.environ, "SCHED_URL": daemon.url}
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT, check=False)
    assert answer.returncode == 0, answer.stderr
    view: dict[str, Any] = json.loads(answer.stdout)
    return view


def test_a_job_that_every_tick_raises_at_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    with running_daemon(tmp_path, module=MODULE, slots=2) as daemon:
        (bad,) = submit(daemon, {"command": "true", "name": "poison-raise-7"})
        (good,) = submit(daemon, {"command": "true"})
        becomes(lambda: state_of(daemon, bad), "HELD")
        becomes(lambda: state_of(daemon, good), "SUCCEEDED")
        (held,) = health(daemon)["held"]
        assert (held["kind"], held["name"]) == ("job", str(bad))
        assert "Poison: this job is not to be handled, in scheduler/policy/" in held["why"]
        metrics = daemon.client.get("/metrics").text
        assert 'sched_held{kind="job"} 1' in metrics
        explained = daemon.client.get(f"/v1/jobs/{bad}/explain").json()
        assert explained["summary"].startswith("Held: the scheduler failed while it dealt with this job (Poison: ")
        daemon.client.post(f"/v1/jobs/{bad}/cancel").raise_for_status()
        becomes(lambda: state_of(daemon, bad), "CANCELLED")
        assert health(daemon)["held"] == []


@pytest.mark.slow
def test_a_job_that_a_tick_hangs_at_is_held_by_the_process_that_follows(tmp_path: Path) -> None:
    with running_daemon(tmp_path, module=MODULE, slots=2) as daemon:
        pid = daemon.pid
        (good,) = submit(daemon, {"command": "sleep 1000"})
        becomes(lambda: state_of(daemon, good), "RUNNING")
        (bad,) = submit(daemon, {"command": "true", "name": "poison-hang-7"})
        eventually(lambda: "held: ticks fail at it" in daemon.log(), "nothing is held", 240.0)
        assert daemon.pid == pid
        assert daemon.is_running()
        becomes(lambda: state_of(daemon, bad), "HELD")
        assert "the engine hangs: starting anew" in daemon.log()
        assert "in _hang" in (daemon.state_dir / "hang.txt").read_text()
        assert list((daemon.state_dir / "cases").glob("case-*.json"))
        (next_one,) = submit(daemon, {"command": "true"})
        becomes(lambda: state_of(daemon, next_one), "SUCCEEDED")
        assert daemon.client.get(f"/v1/jobs/{good}").json()["attempt"] == 1
        assert daemon.stop() == 0


def test_sigterm_ends_a_daemon_whose_tick_hangs(tmp_path: Path) -> None:
    never = {"decide_seconds_max": 1e6}
    with running_daemon(tmp_path, module=MODULE, slots=2, engine=never) as daemon:
        submit(daemon, {"command": "true", "name": "poison-hang-7"})
        (other,) = submit(daemon, {"command": "true"})
        eventually(lambda: "poison-hang-7 is handled" in daemon.log(), "no tick hangs")
        assert daemon.stop() == 1
        assert "stopped while a tick does not end" in daemon.log()
        assert other


def test_a_job_that_kills_the_process_is_held_by_the_next_start(tmp_path: Path) -> None:
    with running_daemon(tmp_path, module=MODULE, slots=2) as daemon:
        with suppress(httpx.TransportError):  # it may die before it has answered
            submit(daemon, {"command": "true", "name": "poison-kill-7"}, {"command": "true", "name": "good"})
        eventually(lambda: not daemon.is_running(), "the daemon lives", 60.0)
        daemon.start()
        named = {job["name"]: job["id"] for job in daemon.client.get("/v1/jobs").json()["jobs"]}
        bad, good = named["poison-kill-7"], named["good"]
        becomes(lambda: state_of(daemon, bad), "HELD")
        becomes(lambda: state_of(daemon, good), "SUCCEEDED")
        (event,) = daemon.client.get("/v1/events", params={"job": bad, "limit": 100}).json()["events"][-1:]
        assert (event["kind"], event["cause"]) == ("JOB_HELD", "TICK_DIED")
        assert daemon.is_running()


@pytest.mark.slow
def test_two_hundred_kinds_of_poison_among_a_hundred_good_jobs(tmp_path: Path) -> None:
    seed = time.time_ns() % 1_000_000
    print(f"poisons of seed {seed}")
    kinds = poisons(random.Random(seed), KINDS)
    hooked = sum(kind.hook for kind in kinds)  # they keep their slots while they are held
    with running_daemon(tmp_path, module=MODULE, slots=hooked + 8) as daemon:
        held, good = _submit_all(daemon, kinds, random.Random(seed))
        for job_id in good:
            becomes(lambda job_id=job_id: state_of(daemon, job_id), "SUCCEEDED", SECONDS_MAX)
        for job_id, kind in held.items():  # the last may have begun after all others
            if kind.hook:
                becomes(lambda job_id=job_id: state_of(daemon, job_id), "HELD", SECONDS_MAX)
            eventually(lambda job_id=job_id, kind=kind: _explained(daemon, job_id, kind), f"job {job_id}", SECONDS_MAX)
        becomes(lambda: _named(daemon) ^ _held(daemon, set(held)), set(), SECONDS_MAX)
        assert not _named(daemon) & set(good)


def _explained(daemon: Daemon, job_id: int, kind: Poisoned) -> bool:
    """Whether it has ended or says why it has not; its row may be one that cannot be read."""
    answer = daemon.client.get(f"/v1/jobs/{job_id}")
    if answer.status_code != 200:
        assert answer.status_code == 503, (kind, answer.text)
        assert "the row cannot be read" in answer.text, (kind, answer.text)
        assert kind.columns, (kind, answer.text)
        return True
    view = answer.json()
    return view["state"] in ("HELD", "FAILED", "SUCCEEDED") or view["reason"] not in (None, "SUBMITTED")


def _named(daemon: Daemon) -> set[int]:
    """The jobs that `sched health` says are held."""
    return {int(each["name"]) for each in health(daemon)["held"] if each["kind"] == "job"}


def _held(daemon: Daemon, among: set[int]) -> set[int]:
    """Those of these jobs that are held and can be read."""
    answers = {job_id: daemon.client.get(f"/v1/jobs/{job_id}") for job_id in among}
    return {job_id for job_id, answer in answers.items() if answer.is_success and answer.json()["state"] == "HELD"}


def _submit_all(daemon: Daemon, kinds: list[Poisoned], r: random.Random) -> tuple[dict[int, Poisoned], list[int]]:
    """Poisoned jobs that were taken, and good ones; what is written into the database is, before it is read again."""
    jobs: list[Poisoned | None] = [*kinds, *([None] * GOOD)]
    r.shuffle(jobs)
    taken: dict[int, Poisoned] = {}
    good: list[int] = []
    for each in jobs:
        body = {"command": "true", **(each.fields if each is not None else {})}
        answer = daemon.client.post("/v1/jobs", content=json.dumps(body), headers=JSON)
        if answer.status_code == 422 and each is not None:
            assert answer.json()["error"]["message"]
        else:
            assert answer.status_code == 201, (each, answer.text)
            (good.append if each is None else taken.__setitem__)(*_placed(answer.json()["id"], each))  # type: ignore[operator]
    daemon.kill()
    with closing(sqlite3.connect(daemon.state_dir / "sched.db")) as database:
        for job_id, kind in taken.items():
            for column, value in kind.columns.items():
                database.execute(f"UPDATE jobs SET {column} = ? WHERE id = ?", (value, job_id))
        database.commit()
    daemon.start()
    return taken, good


def _placed(job_id: int, kind: Poisoned | None) -> tuple[Any, ...]:
    return (job_id,) if kind is None else (job_id, kind)
