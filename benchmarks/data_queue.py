"""A million shards through 200 workers over HTTP, each answer after a durable commit; workers and daemon are killed.

Readers speak HTTP from a few processes, each for workers that run as processes of the daemon. When a worker is killed,
its reader is fenced, and another one reads for its successor.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from benchmarks.daemon import Daemon
from benchmarks.figure import Figure

SHARDS, WORKERS, BATCH = 1_000_000, 200, 100
PROCESSES = 2
KILLS, SEED = 20, 1
SINGLE_SECONDS = 10
_TOKEN = "benchmark-of-the-data-queue"
_ROOT = Path(__file__).parent.parent
_END_SECONDS_MAX = 600


def run() -> list[Figure]:
    settings = {"SCHED_HTTP__TOKEN": _TOKEN, "SCHED_ENGINE__BACKOFF_SECONDS": "0.1"}
    with Daemon(WORKERS, settings=settings) as daemon:
        daemon.http.headers["authorization"] = f"Bearer {_TOKEN}"
        calls, shards, seconds, times_done = _through(daemon)
        began = daemon.cpu_seconds()
        each, _, single_seconds, _ = _through(daemon, batch=1, seconds=SINGLE_SECONDS)
        per_cpu_second = each / (daemon.cpu_seconds() - began)
    wrong = {count: shards for count, shards in times_done.items() if count != 1}
    return [
        Figure(
            f"leases of {WORKERS} workers, in batches of {BATCH}",
            shards / seconds,
            "shards/s",
            at_least=2_000,
            note=f"{calls / seconds:,.0f} calls/s; {KILLS} workers and the daemon were killed meanwhile",
        ),
        Figure("of a million shards, not accepted as done exactly once", float(sum(wrong.values())), "", at_most=0),
        Figure(
            "one by one",
            each / single_seconds,
            "shards/s",
            note=f"{per_cpu_second:,.0f} per second of the daemon's CPU time, starts of {WORKERS} workers included",
        ),
    ]


def _through(
    daemon: Daemon, batch: int = BATCH, seconds: float | None = None
) -> tuple[int, int, float, "Counter[int]"]:
    """Calls, shards, how long it took, and how many shards were accepted how often."""
    fields = {"min_workers": 1, "max_workers": WORKERS, "max_retries": 1000, "grace_seconds": 0.5}
    job = daemon.submit(["sleep", "1000"], **fields, data={"shards": SHARDS, "max_attempts": 100})
    daemon.wait(job, lambda view: view["members"] == WORKERS, 120)
    results = [daemon.state_dir / f"accepted-{batch}-{part}" for part in range(PROCESSES)]
    readers = [_reader(daemon, job, part, batch, result, seconds) for part, result in enumerate(results)]
    try:
        if seconds is None:
            _kill_some(daemon, job)
        told = [json.loads(reader.communicate(timeout=_END_SECONDS_MAX)[0]) for reader in readers]
    finally:
        for reader in readers:
            reader.kill()
            reader.wait()
    daemon.cancel(job)
    accepted = Counter(map(sum, zip(*(result.read_bytes() for result in results), strict=True)))
    took = max(each["last"] for each in told) - min(each["first"] for each in told)
    return sum(each["calls"] for each in told), sum(each["shards"] for each in told), took, accepted


def _reader(
    daemon: Daemon, job: int, part: int, batch: int, result: Path, seconds: float | None
) -> "subprocess.Popen[bytes]":
    words = [str(daemon.state_dir), _TOKEN, str(job), str(part), str(PROCESSES), str(batch), str(result)]
    command = [sys.executable, "-m", "benchmarks.programs.shard_readers", *words]
    return subprocess.Popen([*command, *([str(seconds)] if seconds else [])], stdout=subprocess.PIPE, cwd=_ROOT)


def _kill_some(daemon: Daemon, job: int) -> None:
    """Workers at random while the first half is being done, and then the daemon."""
    choices = random.Random(SEED)
    for number in range(KILLS):
        _wait_until_done(daemon, job, SHARDS // 2 * number // KILLS)
        victim = choices.choice(daemon.get(f"/v1/jobs/{job}")["live_workers"])["id"]
        for pid in _processes_of(victim):
            os.kill(pid, signal.SIGKILL)
    _wait_until_done(daemon, job, SHARDS // 2)
    daemon.kill()
    daemon.restart()


def _wait_until_done(daemon: Daemon, job: int, count: int) -> None:
    until = time.monotonic() + _END_SECONDS_MAX
    while daemon.get(f"/v1/jobs/{job}")["data_progress"]["done"] < count:
        if time.monotonic() > until:
            raise RuntimeError(f"{count:,} shards are not done within {_END_SECONDS_MAX} s")
        time.sleep(0.05)


def _processes_of(worker: str) -> list[int]:
    """Of the worker itself, by its environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if f"SCHED_WORKER_ID={worker}".encode() in (path / "environ").read_bytes().split(b"\0"):
                found.append(int(path.name))
        except OSError:
            continue
    return found
