"""Pause of a real training when its workers go 2 → 3 → 1 → 2: end of the last step before to end of the first after."""

import sys
from itertools import pairwise
from pathlib import Path

from benchmarks.daemon import Daemon
from benchmarks.figure import Figure, median
from benchmarks.programs.stepper import STEP_SECONDS
from benchmarks.steps import Step, all_steps, resize, until_size

SIZES = (3, 1, 2)
CYCLES = 7
_RESIZE_SECONDS_MAX = 60.0
_STEPPER = Path(__file__).parent / "programs" / "stepper.py"


def run() -> list[Figure]:
    with Daemon(3) as daemon:
        job = daemon.submit(
            [sys.executable, str(_STEPPER)],
            runtime="elastic",
            min_workers=1,
            max_workers=2,
            env={"OMP_NUM_THREADS": "1", "PYTHONPATH": str(_STEPPER.parent.parent.parent)},
        )
        until_size(daemon, job, 2, _RESIZE_SECONDS_MAX)
        for size in SIZES * CYCLES:
            resize(daemon, job, size, _RESIZE_SECONDS_MAX)
        pauses = _pauses(all_steps(daemon, job))
        daemon.cancel(job)
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


def _pauses(steps: list[Step]) -> list[tuple[tuple[int, int], float]]:
    """((size before, size after), seconds) of each change of size."""
    changes = (pair for pair in pairwise(steps) if pair[0]["size"] != pair[1]["size"])
    return [((int(a["size"]), int(b["size"])), b["at"] - a["at"]) for a, b in changes]
