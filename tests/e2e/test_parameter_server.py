"""The example of asynchronous training: parameter servers hold the model, workers come, go and are killed."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from multiprocessing import AuthenticationError
from pathlib import Path
from typing import Any

import numpy
import pytest

from examples.parameter_server import CLASSES, RATE, Table
from scheduler.engine.absorb.worker_ends import GROUP_SECONDS
from tests.daemon import ROOT, Daemon
from tests.eventually import becomes, eventually
from tests.full_disk import files_limited
from tests.ports import free_port

SHARDS, EPOCHS, SERVERS = 30, 16, 2
TOTAL = SHARDS * EPOCHS
SECONDS_MAX = 300.0


def submit(daemon: Daemon, out: Path, slow: Path) -> int:
    body = {
        "command": [sys.executable, "-m", "tests.e2e.servers_slowly", str(out), str(slow)],
        "workdir": str(ROOT),
        "env": {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        "min_workers": 1,
        "max_workers": 1,
        "grace_seconds": 60.0,
        "fixed": {"replicas": SERVERS},
        "data": {"shards": SHARDS, "epochs": EPOCHS, "shuffle": True},
    }
    answer = daemon.client.post("/v1/jobs", json=body)
    assert answer.status_code == 201, answer.text
    return int(answer.json()["id"])


def view(daemon: Daemon, job: int) -> dict[str, Any]:
    found: dict[str, Any] = daemon.client.get(f"/v1/jobs/{job}").json()
    return found


def scale(daemon: Daemon, job: int, workers: int) -> None:
    daemon.client.patch(f"/v1/jobs/{job}", json={"max_workers": workers}).raise_for_status()


def live(daemon: Daemon, job: int, *, fixed: bool = False) -> list[str]:
    """The job's workers, or its servers."""
    return [each["id"] for each in view(daemon, job)["live_workers"] if (each["fixed_index"] is not None) is fixed]


def losses(daemon: Daemon, job: int, worker: str) -> dict[int, float]:
    """By position, as this worker has printed them."""
    answer = daemon.client.get(f"/v1/jobs/{job}/logs", params={"worker": worker, "offset": 0, "limit": 1 << 20})
    found = re.findall(r"^shard (\d+): loss ([\d.]+)$", answer.text, re.MULTILINE)
    return {int(position): float(loss) for position, loss in found}


def at_work(daemon: Daemon, job: int) -> list[str]:
    """The workers that live and have done a shard."""
    return [worker for worker in live(daemon, job) if losses(daemon, job, worker)]


def kill(daemon: Daemon, worker: str) -> None:
    wanted = {f"SCHED_WORKER_ID={worker}".encode(), f"SCHED_URL={daemon.url}".encode()}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if wanted <= set((entry / "environ").read_bytes().split(b"\0")):
                os.kill(int(entry.name), signal.SIGKILL)
                return
        except OSError:
            continue  # it has ended
    raise AssertionError(f"no process of worker {worker}")


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.timeout(1200)
def test_each_shard_counts_once_at_each_server_whoever_comes_goes_or_is_killed(daemon: Daemon, tmp_path: Path) -> None:
    out = tmp_path / "out"
    slow = tmp_path / "slow"
    slow.touch()
    job = submit(daemon, out, slow)
    becomes(lambda: len(at_work(daemon, job)), 1, SECONDS_MAX)
    first = at_work(daemon, job)[0]
    scale(daemon, job, 3)
    becomes(lambda: len(at_work(daemon, job)), 3, SECONDS_MAX)
    victim = at_work(daemon, job)[1]
    kill(daemon, victim)
    eventually(
        lambda: victim not in live(daemon, job) and len(live(daemon, job)) == 3,
        lambda: f"{victim} is not replaced: {view(daemon, job)}",
        SECONDS_MAX,
    )
    counted_at = time.monotonic()
    after_worker = view(daemon, job)
    assert (after_worker["attempt"], after_worker["state"] in ("RUNNING", "RESIZING")) == (1, True)
    scale(daemon, job, 1)
    becomes(lambda: len(live(daemon, job)), 1, SECONDS_MAX)
    assert view(daemon, job)["data_progress"]["done"] < TOTAL, "the data must outlast the changes"
    # Failures of the same second would count as one.
    eventually(lambda: time.monotonic() > counted_at + 2 * GROUP_SECONDS, "time stands still")
    kill(daemon, live(daemon, job, fixed=True)[0])
    becomes(lambda: view(daemon, job)["attempt"], 2, SECONDS_MAX)
    scale(daemon, job, 3)
    slow.unlink()
    becomes(lambda: view(daemon, job)["state"], "SUCCEEDED", SECONDS_MAX)
    ended = view(daemon, job)
    assert ended["retries_used"] - after_worker["retries_used"] == 1, "the server's death is one failure"
    progress = ended["data_progress"]
    assert (progress["done"], progress["held"], progress["set_aside"]) == (TOTAL, 0, 0)
    begin = losses(daemon, job, first)
    history = daemon.client.get(f"/v1/jobs/{job}/workers", params={"limit": 1000}).json()["workers"]
    everything = {k: v for each in history for k, v in losses(daemon, job, each["id"]).items()}
    for place in range(SERVERS):
        with numpy.load(out / f"server-{place}.npz") as stored:
            assert sorted(stored["applied"].tolist()) == list(range(TOTAL)), "each counts, and once"
    assert begin[min(begin)] == pytest.approx(numpy.log(10), abs=1e-4)
    last = [loss for position, loss in everything.items() if position >= TOTAL - SHARDS]
    assert numpy.mean(last) < 1.0
    command = [sys.executable, "-m", "examples.parameter_server", str(out), "--test"]
    tested = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert tested.startswith(f"{TOTAL} and {TOTAL} shards applied, loss ")
    assert float(tested.rpartition(" ")[2]) > 0.8


def test_a_push_that_is_repeated_changes_nothing_also_at_a_server_that_started_again(tmp_path: Path) -> None:
    example = pytest.importorskip("examples.parameter_server", reason="torch is not installed")
    rows, gradients = numpy.array([1, 3]), numpy.ones((2, example.CLASSES), numpy.float32)
    table = example.Table(tmp_path / "server-0.npz", 5)
    table.push(7, rows, gradients)
    once = table.pull(numpy.arange(5))
    assert once[[1, 3]] == pytest.approx(-example.RATE)
    assert not once[[0, 2, 4]].any()
    table.push(7, rows, gradients)
    again = example.Table(tmp_path / "server-0.npz", 5)
    again.push(7, rows, gradients)
    assert (table.pull(numpy.arange(5)) == once).all()
    assert (again.pull(numpy.arange(5)) == once).all()
    again.push(8, rows, gradients)
    assert again.pull(rows) == pytest.approx(-2 * example.RATE)


def test_who_does_not_know_the_job_s_token_is_not_heard(tmp_path: Path) -> None:
    example = pytest.importorskip("examples.parameter_server", reason="torch is not installed")
    port = free_port()
    table = example.Table(tmp_path / "server-0.npz", 5)
    threading.Thread(target=example.serve, args=(table, port, b"right"), daemon=True).start()
    known = example.Remote(f"127.0.0.1:{port}", b"right")
    with pytest.raises(AuthenticationError):
        example.Remote(f"127.0.0.1:{port}", b"wrong")
    with socket.create_connection(("127.0.0.1", port)) as stranger:
        stranger.sendall(b"GET / HTTP/1.0\r\n\r\n")
    known.push(0, numpy.array([1]), numpy.ones((1, example.CLASSES), numpy.float32))
    assert example.Remote(f"127.0.0.1:{port}", b"right").pull(numpy.array([1]))[0] == pytest.approx(-example.RATE)


def test_a_push_that_the_disk_refuses_is_not_in_and_is_taken_when_it_comes_again(tmp_path: Path) -> None:
    table = Table(tmp_path / "server-0.npz", 1000)
    rows, gradients = numpy.array([1]), numpy.ones((1, CLASSES), numpy.float32)
    with files_limited(4096), pytest.raises(OSError, match="File too large"):
        table.push(7, rows, gradients)
    assert not table.pull(rows).any()
    table.push(7, rows, gradients)
    stored = Table(tmp_path / "server-0.npz", 1000)
    assert stored.applied.tolist() == [7]
    assert (stored.pull(rows) == -RATE).all()
