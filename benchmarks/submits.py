"""Jobs submitted per second over HTTP, each answer only after a durable commit; the engine takes them meanwhile."""

import os
import time
from pathlib import Path
from typing import Any

from benchmarks.daemon import Daemon
from benchmarks.figure import Figure, median
from benchmarks.plain_http import ask_again, post

BATCHES, BATCH = 5, 5_000
SINGLE = 1_000
CLIENTS, FROM_CLIENTS = 32, 5_000
SYNCS = 300
_JOB: dict[str, Any] = {
    "command": ["python", "train.py", "--epochs", "10"],
    "priority": 1,
    "labels": {"team": "vision"},
}


def run() -> list[Figure]:
    with Daemon(1) as daemon:
        # An endless job on the only slot, so that the others wait: starting them is another benchmark.
        daemon.submit(["sleep", "1000"], priority=100, preemptible=False)
        single, single_cpu = _one_by_one(daemon, 1, SINGLE)
        disk = _syncs_per_second(daemon.state_dir)
        many, many_cpu = _one_by_one(daemon, CLIENTS, FROM_CLIENTS)
        batches = [_batch(daemon) for _ in range(BATCHES)]
    return [
        Figure("in batches of 5,000", median(batches), "jobs/s", at_least=5_000),
        Figure(
            "one by one, one connection",
            single,
            "jobs/s",
            at_least=300,
            note=f"the disk syncs {disk:.0f} times a second",
        ),
        Figure("CPU time of the daemon for each of these", 1000 * single_cpu, "ms"),
        Figure(f"one by one, {CLIENTS} connections at once", many, "jobs/s", at_least=1_000),
        Figure("CPU time of the daemon for each of these, at once", 1000 * many_cpu, "ms"),
    ]


def _one_by_one(daemon: Daemon, connections: int, jobs: int) -> tuple[float, float]:
    """Jobs per second, and the daemon's CPU seconds for each, its ticks included."""
    request = post(daemon.url, "/v1/jobs", _JOB)
    began, cpu_began = time.monotonic(), daemon.cpu_seconds()
    ask_again(daemon.url, request, connections, jobs)
    return jobs / (time.monotonic() - began), (daemon.cpu_seconds() - cpu_began) / jobs


def _syncs_per_second(directory: Path) -> float:
    """What the disk allows one writer at a time."""
    with open(directory / "syncs", "wb", buffering=0) as file:
        began = time.monotonic()
        for _ in range(SYNCS):
            file.write(b"x" * 4096)
            os.fdatasync(file.fileno())
        return SYNCS / (time.monotonic() - began)


def _batch(daemon: Daemon) -> float:
    jobs = [{**_JOB, "name": f"job-{number}"} for number in range(BATCH)]
    began = time.monotonic()
    ids = daemon.submit_batch(jobs)
    seconds = time.monotonic() - began
    assert len(ids) == BATCH
    return BATCH / seconds
