"""Resizes and SIGKILLs of trainings under DistributedDataParallel, beside two busy loops; policy as shipped.

Each variant's job grows 2 → 3 and shrinks back; after most growths a worker is killed before its tenth step. What a
change takes is counted from the list that the scheduler published, or from the signal, to five further steps of all
members. The import of torch by a new worker is part of the second only: a resize waits for nobody who is not ready.
"""

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from benchmarks.daemon import Daemon
from benchmarks.figure import Figure, median
from benchmarks.programs.parallel import VARIANTS
from benchmarks.steps import Step, read_steps

RESIZES, KILLS, BUSY_LOOPS = 50, 20, 2
FURTHER_STEPS = 5
SECONDS_MAX = 5.0
_PHASE_SECONDS_MAX = 120.0
_LOOK_SECONDS = 0.25  # steps carry their own times: looking more often would only take time from the workers
_TAIL_BYTES = 8192
_PROGRAM = Path(__file__).parent / "programs" / "parallel.py"


def run(
    variants: str = ",".join(VARIANTS),
    resizes: int = RESIZES,
    kills: int = KILLS,
    busy: int = BUSY_LOOPS,
    seed: int | None = None,
) -> list[Figure]:
    seed = random.SystemRandom().randrange(10**6) if seed is None else seed
    print(f"seed {seed} (--seed {seed} repeats the ranks), {busy} busy loops", flush=True)
    figures = []
    for variant in variants.split(","):
        with busy_loops(busy):
            figures += _Trial(variant, random.Random(f"{seed}/{variant}")).run(resizes, kills)
    return figures


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """That many processes that take all the time they get."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


class _Trial:
    """One variant: seconds of each change, by kind."""

    def __init__(self, variant: str, dice: random.Random) -> None:
        self._variant = variant
        self._dice = dice
        self._seconds: dict[str, list[float]] = {"2 → 3": [], "3 → 2": [], "others go on": [], "all are back": []}
        self._starts: list[float] = []
        self._hung = 0

    def run(self, resizes: int, kills: int) -> list[Figure]:
        """Growths and shrinks in turn; the first growths are each followed by a SIGKILL in a job of its own."""
        growths = resizes - resizes // 2
        # A job that loses workers again and again waits longer each time: each of these loses one.
        for _ in range(min(kills, growths)):
            with self._job() as (daemon, job):
                self._change(daemon, job, 3)
                self._kill(daemon, job)
                self._change(daemon, job, 2)
        left = resizes - 2 * min(kills, growths)
        if left > 0:
            with self._job() as (daemon, job):
                for number in range(left):
                    self._change(daemon, job, 2 if number % 2 else 3)
        return self._figures()

    @contextmanager
    def _job(self) -> Iterator[tuple[Daemon, int]]:
        with Daemon(3) as daemon:
            job = daemon.submit(
                [sys.executable, str(_PROGRAM), self._variant],
                runtime="elastic",
                min_workers=2,
                max_workers=2,
                env={"OMP_NUM_THREADS": "1", "PYTHONPATH": str(_PROGRAM.parents[2])},
            )
            self._until_steps(daemon, job, 2, 0)
            yield daemon, job
            events = daemon.get("/v1/events", job=job, limit=1000)["events"]
            self._hung += sum(event["kind"] == "WORKER_ENDED" and event["cause"] == "HUNG" for event in events)
            daemon.cancel(job)

    def _change(self, daemon: Daemon, job: int, size: int) -> None:
        known = _generation(daemon, job)
        # The policy grows a job where that pays; a larger minimum it has to reach.
        daemon.http.patch(f"/v1/jobs/{job}", json={"min_workers": size, "max_workers": size}).raise_for_status()
        ended_at = self._until_steps(daemon, job, size, known)
        seconds = ended_at - _published(daemon, job)[-1]["at"]
        self._note("2 → 3" if size == 3 else "3 → 2", seconds)

    def _kill(self, daemon: Daemon, job: int) -> None:
        """SIGKILL to a member of random rank."""
        daemon.http.patch(f"/v1/jobs/{job}", json={"min_workers": 2}).raise_for_status()
        known = _generation(daemon, job)
        rank = self._dice.randrange(3)
        members = daemon.get(f"/v1/jobs/{job}")["live_workers"]
        worker = next(member["id"] for member in members if member["rank"] == rank)
        _process(daemon, worker).kill()
        killed_at = time.time()
        others_at = self._until_steps(daemon, job, None, known)
        self._note("others go on", others_at - killed_at)
        back_at = self._until_steps(daemon, job, 3, known)
        self._note("all are back", back_at - killed_at)
        started = [e for e in _events(daemon, job, "WORKER_STARTED") if e["at"] > killed_at]
        ready = [e for e in _events(daemon, job, "WORKER_READY") if e["at"] > killed_at]
        if started and ready:
            self._starts.append(ready[-1]["at"] - started[-1]["at"])

    def _note(self, what: str, seconds: float) -> None:
        self._seconds[what].append(seconds)
        print(f"{self._variant}: {what}: {seconds:.2f} s", flush=True)

    def _until_steps(self, daemon: Daemon, job: int, size: int | None, known: int) -> float:
        """When all members of a generation after `known`, of this size or any, had ended some steps."""
        deadline = time.monotonic() + _PHASE_SECONDS_MAX
        while time.monotonic() < deadline:
            shown = daemon.get(f"/v1/jobs/{job}")
            if shown["state"] in ("FAILED", "SUCCEEDED", "CANCELLED"):
                raise RuntimeError(f"the job is {shown['state']}: {shown['detail']}")
            ended_at = _all_went_on(read_steps(daemon, job, shown["live_workers"], _TAIL_BYTES), size, known)
            if ended_at is not None:
                return ended_at
            time.sleep(_LOOK_SECONDS)
        raise RuntimeError(f"{self._variant}: not {FURTHER_STEPS} steps with {size} workers: {shown}")

    def _figures(self) -> list[Figure]:
        figures = []
        for what, seconds in self._seconds.items():
            if seconds:
                note = f"median {median(seconds):.2f} s of {len(seconds)}"
                if what == "all are back" and self._starts:
                    note += f"; a new worker's start until it is ready: median {median(self._starts):.2f} s"
                figures.append(
                    Figure(f"{self._variant}, {what}, worst", max(seconds), "s", at_most=SECONDS_MAX, note=note)
                )
        figures.append(Figure(f"{self._variant}, workers that hung", self._hung, "workers", at_most=0))
        return figures


def _all_went_on(steps: Sequence[Step], size: int | None, known: int) -> float | None:
    later = [step for step in steps if step["generation"] > known and (size is None or step["size"] == size)]
    if not later:
        return None
    generation = max(step["generation"] for step in later)
    members = int(next(step["size"] for step in later if step["generation"] == generation))
    ends = []
    for rank in range(members):
        own = sorted(step["at"] for step in later if step["generation"] == generation and step["rank"] == rank)
        if len(own) < FURTHER_STEPS:
            return None
        ends.append(own[FURTHER_STEPS - 1])
    return max(ends)


def _generation(daemon: Daemon, job: int) -> int:
    """The newest: they are numbered from 1."""
    return len(_published(daemon, job))


def _published(daemon: Daemon, job: int) -> list[dict[str, Any]]:
    return _events(daemon, job, "GENERATION_PUBLISHED")


def _events(daemon: Daemon, job: int, kind: str) -> list[dict[str, Any]]:
    events = daemon.get("/v1/events", job=job, limit=1000)["events"]
    return [event for event in events if event["kind"] == kind]


def _process(daemon: Daemon, worker: str) -> psutil.Process:
    wanted: Callable[[psutil.Process], bool] = lambda p: (  # noqa: E731
        str(_PROGRAM) in p.cmdline() and p.environ().get("SCHED_WORKER_ID") == worker
    )
    for process in psutil.Process(daemon.pid).children(recursive=True) + list(psutil.process_iter()):
        try:
            if wanted(process) and process.environ().get("SCHED_URL") == daemon.url:
                return process
        except psutil.Error:
            continue
    raise RuntimeError(f"no process of {worker}")
