"""Pause of a real training when its workers go 2 → 3 → 1 → 2: end of the last step before to end of the first after."""

import json
import sys
import time
from itertools import pairwise
from pathlib import Path

from benchmarks.daemon import Daemon
from benchmarks.figure import Figure, median
from benchmarks.programs.stepper import STEP_SECONDS

SIZES = (3, 1, 2)
CYCLES = 7
STEPS_BETWEEN = 10
_RESIZE_SECONDS_MAX = 60.0
_STEPPER = Path(__file__).parent / "programs" / "stepper.py"
#: Growth waits for neither cool-down nor pay-back: this measures the pause, not the policy.
_SETTINGS = {
    "SCHED_POLICY__GROW_COOLDOWN_SECONDS": "0",
    "SCHED_POLICY__GROW_PAYBACK_FACTOR": "0",
    "SCHED_POLICY__MEASURED_GAIN": "false",
}


def run() -> list[Figure]:
    with Daemon(3, settings=_SETTINGS) as daemon:
        job = daemon.submit(
            [sys.executable, str(_STEPPER)],
            runtime="elastic",
            min_workers=1,
            max_workers=2,
            env={"OMP_NUM_THREADS": "1", "PYTHONPATH": str(_STEPPER.parent.parent.parent)},
        )
        _until_size(daemon, job, 2)
        for size in SIZES * CYCLES:
            daemon.http.patch(f"/v1/jobs/{job}", json={"max_workers": size}).raise_for_status()
            _until_size(daemon, job, size)
        steps = _steps(daemon, job)
        daemon.cancel(job)
    pauses = _pauses(steps)
    figures = [
        Figure(
            "resize pause, median of all",
            median([seconds for _, seconds in pauses]),
            "s",
            at_most=0.5,
            note=f"{len(pauses)} resizes, a step of {STEP_SECONDS * 1000:.0f} ms included",
        )
    ]
    for change in sorted({change for change, _ in pauses}):
        seconds = [s for c, s in pauses if c == change]
        figures.append(Figure(f"{change[0]} → {change[1]}", median(seconds), "s", note=f"at most {max(seconds):.3g} s"))
    return figures


def _until_size(daemon: Daemon, job: int, size: int) -> None:
    """Until some steps have been taken at this size."""
    deadline = time.monotonic() + _RESIZE_SECONDS_MAX
    while time.monotonic() < deadline:
        last = _steps(daemon, job, tail_bytes=4096)[-STEPS_BETWEEN:]
        if len(last) == STEPS_BETWEEN and all(step["size"] == size for step in last):
            return
        time.sleep(0.1)
    raise RuntimeError(f"no {STEPS_BETWEEN} steps with {size} workers within {_RESIZE_SECONDS_MAX:g} s")


def _steps(daemon: Daemon, job: int, tail_bytes: int = 4 << 20) -> list[dict[str, float]]:
    """What rank 0 wrote; the oldest worker stays rank 0 all the time."""
    query = {"worker": f"{job}-1", "offset": -tail_bytes, "limit": tail_bytes}
    response = daemon.http.get(f"/v1/jobs/{job}/logs", params=query)
    if not response.is_success:
        return []
    lines = response.text.splitlines()
    return [json.loads(line) for line in lines if line.startswith('{"step"') and line.endswith("}")]


def _pauses(steps: list[dict[str, float]]) -> list[tuple[tuple[int, int], float]]:
    """((size before, size after), seconds) of each change of size."""
    changes = (pair for pair in pairwise(steps) if pair[0]["size"] != pair[1]["size"])
    return [((int(a["size"]), int(b["size"])), b["at"] - a["at"]) for a, b in changes]
