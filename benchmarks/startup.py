"""Start of the daemon with 100,000 stored jobs, until /readyz says yes, and its memory after the first ticks.

Once with 10,000 of them waiting and the others ended, once with all of them waiting.
"""

import sqlite3
import tempfile
import time
from pathlib import Path

from benchmarks.daemon import Daemon
from benchmarks.figure import Figure, median
from scheduler.model.job import JobSpec
from scheduler.model.job_state import WaitReason
from scheduler.store.sqlstore import SqlStore

JOBS = 100_000
WAITING = (10_000, 100_000)
STARTS = 3
_BATCH = 5_000


def run() -> list[Figure]:
    figures = []
    for waiting in WAITING:
        with tempfile.TemporaryDirectory(prefix="sched-bench-") as directory:
            _fill(Path(directory), waiting)
            with Daemon(1, state_dir=Path(directory)) as first:
                # it gives every job its reason to wait, all in one commit
                first.wait(JOBS, lambda job: job["reason"] != WaitReason.SUBMITTED, 60)
            seconds, cpu_seconds, memory = [], [], []
            for _ in range(STARTS):
                with Daemon(1, state_dir=Path(directory)) as daemon:
                    cpu_seconds.append(daemon.cpu_seconds())
                    seconds.append(daemon.start_seconds)
                    time.sleep(3)  # the first ticks
                    memory.append(daemon.resident_mib())
        stored = f"100,000 stored jobs, {waiting:,} waiting"
        figures += [
            Figure(f"daemon start, {stored}", median(seconds), "s", at_most=5.0),
            Figure(f"its CPU time until then, {stored}", median(cpu_seconds), "s"),
            Figure(f"memory then, {stored}", max(memory), "MiB", at_most=500.0),
        ]
    return figures


def _fill(directory: Path, waiting: int) -> None:
    """Jobs as a long life leaves them: most have ended, some wait for a node that is not there."""
    url = f"sqlite:///{directory / 'sched.db'}"
    store = SqlStore(url, durable=False)
    store.upgrade()
    now = time.time()
    for first in range(0, JOBS, _BATCH):
        specs = [
            JobSpec(
                name=f"job-{first + number}",
                command=("/usr/bin/python3", "train.py", "--run", str(first + number)),
                user=f"user{number % 20}",
                env=(("DATA", "/data"), ("RUN", str(number))),
                labels=(("team", f"team{number % 7}"),),
                priority=number % 10,
                min_workers=2,
                max_workers=2,  # more than the one slot: they wait
            )
            for number in range(_BATCH)
        ]
        store.submit(specs, now)
    store.close()
    _end_most(directory / "sched.db", JOBS - waiting, now)


def _end_most(database: Path, ended: int, now: float) -> None:
    """Straight in SQL: running 90,000 jobs only to store their ends would take longer than all that is measured."""
    with sqlite3.connect(database) as connection:
        connection.execute(
            "UPDATE jobs SET state = 'SUCCEEDED', wait_reason = NULL, attempt = 1, started_at = ?, running_at = ?, "
            "finished_at = ?, exit_code = 0 WHERE id <= ?",
            (now, now, now, ended),
        )
        connection.execute("DELETE FROM intents")  # the engine has taken all of them long ago
    connection.close()
