"""What a measured training writes, and its sizes: a line of JSON per step, with `step`, `size` and `at`."""

import json
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.daemon import Daemon

Step = dict[str, float]
STEPS_BETWEEN = 10
_TAIL_BYTES = 4096


def resize(daemon: Daemon, job: int, size: int, seconds_max: float) -> float:
    """Ask for this size, neither more nor less, and wait for some steps; when that was asked, in unix seconds."""
    asked_at = time.time()
    daemon.http.patch(f"/v1/jobs/{job}", json={"min_workers": size, "max_workers": size}).raise_for_status()
    until_size(daemon, job, size, seconds_max)
    return asked_at


def until_size(daemon: Daemon, job: int, size: int, seconds_max: float) -> None:
    """Until some steps have been made at this size."""
    deadline = time.monotonic() + seconds_max
    while time.monotonic() < deadline:
        shown = daemon.get(f"/v1/jobs/{job}")
        if shown["state"] in ("FAILED", "SUCCEEDED", "CANCELLED"):
            raise RuntimeError(f"the job is {shown['state']}: {shown['detail']}")
        last = read_steps(daemon, job, shown["live_workers"], _TAIL_BYTES)[-STEPS_BETWEEN:]
        if len(last) == STEPS_BETWEEN and all(step["size"] == size for step in last):
            return
        time.sleep(0.1)
    raise RuntimeError(f"no {STEPS_BETWEEN} steps with {size} workers within {seconds_max:g} s")


def all_steps(daemon: Daemon, job: int) -> list[Step]:
    """All steps of all workers that the job has had, in their order in time."""
    return read_steps(daemon, job, daemon.workers(job), 4 << 20)


def read_steps(daemon: Daemon, job: int, workers: Sequence[dict[str, Any]], tail_bytes: int) -> list[Step]:
    """What is in the last bytes of these workers' output, in its order in time."""
    steps: list[Step] = []
    for worker in workers:
        query = {"worker": worker["id"], "offset": -tail_bytes, "limit": tail_bytes}
        response = daemon.http.get(f"/v1/jobs/{job}/logs", params=query)
        if response.is_success:
            lines = response.text.splitlines()
            steps += (json.loads(line) for line in lines if line.startswith('{"step"') and line.endswith("}"))
    return sorted(steps, key=lambda step: step["at"])
