"""Workers and the daemon are killed at random while shards are done: none is lost, none counts twice.

A failure prints its seed; `SCHED_TEST_SEED=<seed> pytest tests/e2e/test_data_queue.py` replays the same choices.
"""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.daemon import ROOT, Daemon, running_daemon
from tests.eventually import becomes, eventually

SHARDS, EPOCHS = 150, 2
KILLS_OF_WORKERS, KILLS_OF_THE_DAEMON = 6, 3
END_SECONDS_MAX = 300.0


def submit(daemon: Daemon, notes: Path) -> int:
    answer = daemon.client.post(
        "/v1/jobs",
        json={
            "command": [sys.executable, "-m", "tests.e2e.shard_reader", str(notes)],
            "workdir": str(ROOT),
            "env": {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            "min_workers": 1,
            "max_workers": 3,
            "max_retries": 1000,
            "data": {"shards": SHARDS, "epochs": EPOCHS, "max_attempts": 100, "shuffle": True},
        },
    )
    assert answer.status_code == 201, answer.text
    return int(answer.json()["id"])


def view(daemon: Daemon, job: int) -> dict[str, Any]:
    document: dict[str, Any] = daemon.client.get(f"/v1/jobs/{job}").json()
    return document


def done(daemon: Daemon, job: int) -> int:
    return int(view(daemon, job)["data_progress"]["done"])


def kill_a_worker(notes: Path, choices: random.Random) -> None:
    pids = [int(line.split()[1]) for line in notes.read_text().splitlines() if line.startswith("pid ")]
    alive = [pid for pid in pids if is_alive(pid)]
    if alive:  # else the last one has just died, and its successor is on its way
        with suppress(ProcessLookupError):
            os.kill(choices.choice(alive), signal.SIGKILL)


def is_alive(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


def wait_until_done(daemon: Daemon, job: int, count: int) -> None:
    def told() -> str:
        return f"{view(daemon, job)} {daemon.log()[-2000:]}"

    eventually(lambda: done(daemon, job) >= count, told, END_SECONDS_MAX)


@pytest.mark.slow
@pytest.mark.torch
def test_every_shard_is_done_and_counts_once_whoever_is_killed(tmp_path: Path) -> None:
    seed = int(os.environ.get("SCHED_TEST_SEED", "11"))
    print(f"seed {seed}: SCHED_TEST_SEED={seed} pytest {__file__}")
    choices = random.Random(seed)
    notes = tmp_path / "notes"
    notes.touch()
    engine = {"backoff_seconds": 0.1, "backoff_max_seconds": 0.2}
    with running_daemon(tmp_path, slots=3, engine=engine) as daemon:
        job = submit(daemon, notes)
        victims = ["worker"] * KILLS_OF_WORKERS + ["daemon"] * KILLS_OF_THE_DAEMON
        choices.shuffle(victims)
        counts = sorted(choices.sample(range(1, SHARDS * EPOCHS - 50), len(victims)))
        for victim, count in zip(victims, counts, strict=True):
            wait_until_done(daemon, job, count)
            if victim == "worker":
                kill_a_worker(notes, choices)
                continue
            known = done(daemon, job)
            daemon.restart()
            assert done(daemon, job) >= known, "what was known as done is lost"
        becomes(lambda: view(daemon, job)["state"], "SUCCEEDED", END_SECONDS_MAX)
        progress = view(daemon, job)["data_progress"]
    assert (progress["done"], progress["held"], progress["set_aside"]) == (SHARDS * EPOCHS, 0, 0)
    lines = [line.split() for line in notes.read_text().splitlines()]
    worked = Counter(int(number) for what, number in lines if what == "worked")
    committed = Counter(int(number) for what, number in lines if what == "committed")
    assert set(worked) == set(range(SHARDS * EPOCHS)), "each was done at least once"
    assert set(committed.values()) == {1}, "a shard counted twice"
    assert len(worked) - len(committed) <= KILLS_OF_WORKERS, "only who died in between may not have written it down"
    print(f"{sum(worked.values()) - len(worked)} shards were worked on again")


@pytest.mark.torch
def test_the_example_adds_up_what_its_workers_wrote(daemon: Daemon, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "examples.pixels", str(out)]
    request = {"command": command, "workdir": str(ROOT), "max_workers": 2, "data": {"shards": 20}}
    job = int(daemon.client.post("/v1/jobs", json=request).json()["id"])
    becomes(lambda: view(daemon, job)["state"], "SUCCEEDED", END_SECONDS_MAX)
    summed = subprocess.run([*command, "--sum"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert summed.stdout == "1797 images, mean 0.3053, spread 0.2302\n"


@pytest.mark.torch
def test_the_example_says_where_there_is_nothing_to_add_up(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "examples.pixels", str(tmp_path), "--sum"]
    summed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (summed.returncode, summed.stdout) == (1, "")
    assert summed.stderr == f"{tmp_path} contains no part-*.pt: run the job first\n"
