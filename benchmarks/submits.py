"""Jobs submitted per second over HTTP, each answer only after a durable commit; the engine takes them meanwhile."""

import os
import time
from pathlib import Path
from typing import Any

from benchmarks.daemon import Daemon
from benchmarks.figure import Figure, median

BATCHES, BATCH = 5, 5_000
SINGLE = 1_000
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
        single, disk = _one_by_one(daemon), _syncs_per_second(daemon.state_dir)
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
    ]


def _one_by_one(daemon: Daemon) -> float:
    began = time.monotonic()
    for _ in range(SINGLE):
        daemon.submit(**_JOB)
    return SINGLE / (time.monotonic() - began)


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
