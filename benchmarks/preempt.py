"""From submitting a high-priority job to its workers' start, while less important ones hold all slots.

With all slots the victims take steps of 100 ms, and they leave at the end of one: plain processes, real elastic
trainings, and the same plain process under Slurm, which cannot shrink a job and cancels it.
"""

import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.daemon import Daemon
from benchmarks.figure import Figure, median, percentile
from benchmarks.slurm import Slurm
from benchmarks.trouble import Skipped

SLOTS, NEEDED = 4, 2
TRIALS, ELASTIC_TRIALS, SLURM_TRIALS = 25, 20, 20
_START_SECONDS_MAX = 60.0
_VICTIM = Path(__file__).parent / "programs" / "victim.py"
_DIGITS = Path(__file__).parent.parent / "examples" / "digits.py"


def run() -> list[Figure]:
    dice = random.Random(1)
    plain = _ours([sys.executable, str(_VICTIM)], "command", TRIALS, dice)
    digits = [sys.executable, str(_DIGITS), "--epochs", "100000", "--sample-seconds", "0.00625"]
    elastic = _ours(digits, "elastic", ELASTIC_TRIALS, dice)
    figures = [
        _figure("victims are plain processes", plain, target=0.6),
        _figure("victims are elastic PyTorch trainings", elastic, target=0.6),
    ]
    try:
        figures.append(_slurm(dice))
    except Skipped as reason:
        figures.append(Figure("Slurm", None, "s", note=str(reason)))
    return figures


def _figure(what: str, seconds: list[float], target: float | None, note: str = "") -> Figure:
    slowest = f"95 %: {percentile(seconds, 0.95):.2f} s, {len(seconds)} trials"
    return Figure(f"{what}, median", median(seconds), "s", at_most=target, note=f"{slowest}{note}")


def _ours(command: list[str], runtime: str, trials: int, dice: random.Random) -> list[float]:
    with Daemon(SLOTS) as daemon:
        low = daemon.submit(command, runtime=runtime, min_workers=1, max_workers=SLOTS, env={"OMP_NUM_THREADS": "1"})
        seconds = []
        for _ in range(trials):
            daemon.wait(low, _full, _START_SECONDS_MAX)
            time.sleep(0.2 + dice.random() * 0.1)  # anywhere in the victims' steps
            seconds.append(_preempt(daemon))
        daemon.cancel(low)
        return seconds


def _full(job: dict[str, Any]) -> bool:
    return bool(job["state"] == "RUNNING" and job["members"] == SLOTS)


def _preempt(daemon: Daemon) -> float:
    """Both workers of the important job write down when they began."""
    with tempfile.TemporaryDirectory(prefix="sched-bench-") as directory:
        command = f"cd {directory}; date +%s.%N > .$SCHED_WORKER_ID; mv .$SCHED_WORKER_ID $SCHED_WORKER_ID"
        began = time.time()
        high = daemon.submit(["/bin/sh", "-c", command], priority=10, workers=NEEDED)
        daemon.wait(high, lambda job: job["state"] == "SUCCEEDED", _START_SECONDS_MAX)
        return _last_start(Path(directory), NEEDED) - began


def _last_start(directory: Path, count: int) -> float:
    times = [float(path.read_text()) for path in directory.iterdir()]
    if len(times) != count:
        raise RuntimeError(f"{len(times)} of {count} workers wrote down their start")
    return max(times)


def _slurm(dice: random.Random) -> Figure:
    with Slurm(SLOTS) as slurm:
        seconds, calls = [], []
        for trial in range(SLURM_TRIALS):
            victim = slurm.submit("low", SLOTS, f"exec {sys.executable} {_VICTIM}")
            slurm.wait_for_state(victim, "RUNNING", _START_SECONDS_MAX)
            time.sleep(1.0 + dice.random() * 0.1)
            started = slurm.directory / f"started-{trial}"
            began = time.time()
            slurm.submit("high", NEEDED, f"date +%s.%N > {started}.part; mv {started}.part {started}")
            calls.append(time.time() - began)
            _until(started.exists)
            seconds.append(float(started.read_text()) - began)
            slurm.wait_until_empty(_START_SECONDS_MAX)
        note = f"; sbatch itself {median(calls):.2f} s; the victim loses all since its start"
        return _figure(f"Slurm {slurm.version}", seconds, None, note)


def _until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _START_SECONDS_MAX
    while not happened():
        if time.monotonic() > deadline:
            raise RuntimeError("Slurm did not start the important job")
        time.sleep(0.01)
