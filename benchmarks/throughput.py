"""1,000 jobs that run `true` through 64 slots, from the first submit to the last end."""

import time

from benchmarks.daemon import Daemon
from benchmarks.figure import Figure, median
from benchmarks.slurm import Slurm
from benchmarks.trouble import Skipped

JOBS, SLOTS, ROUNDS = 1_000, 64, 3
_SECONDS_MAX = 120.0


def run() -> list[Figure]:
    with Daemon(SLOTS) as daemon:
        ours = [_ours(daemon) for _ in range(ROUNDS)]
    figures = [Figure("1,000 × true through 64 slots", median(ours), "jobs/s", at_least=100)]
    try:
        with Slurm(SLOTS) as slurm:
            figures.append(Figure(f"Slurm {slurm.version}, as a job array", _slurm(slurm), "jobs/s"))
    except Skipped as reason:
        figures.append(Figure("Slurm", None, "jobs/s", note=str(reason)))
    return figures


def _ours(daemon: Daemon) -> float:
    began = time.monotonic()
    ids = daemon.submit_batch([{"command": ["true"]}] * JOBS)
    deadline = began + _SECONDS_MAX
    while daemon.get("/v1/jobs", active=True, after=ids[0] - 1, limit=1)["jobs"]:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{JOBS} jobs have not ended within {_SECONDS_MAX:g} s")
        time.sleep(0.05)
    seconds = time.monotonic() - began
    ended = daemon.get("/v1/jobs", state="SUCCEEDED", after=ids[0] - 1, limit=JOBS)["jobs"]
    if len(ended) != JOBS:
        raise RuntimeError(f"{len(ended)} of {JOBS} jobs succeeded")
    return JOBS / seconds


def _slurm(slurm: Slurm) -> float:
    began = time.monotonic()
    slurm.submit("low", 1, "true", array=JOBS)
    slurm.wait_until_empty(_SECONDS_MAX)
    return JOBS / (time.monotonic() - began)
