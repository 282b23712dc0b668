"""A training that goes 2 → 3 → 1 → 2 workers under each framework: how long it stands, what it repeats and consumes."""

import importlib.util
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks.daemon import Daemon
from benchmarks.figure import Figure, median, number
from benchmarks.steps import Step, all_steps, resize, until_size

SIZES = (3, 1, 2)
CYCLES = 3
_RESIZE_SECONDS_MAX = 120.0
_PROGRAMS = Path(__file__).parent / "programs"
_TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
_CHECKPOINTER = str(_PROGRAMS / "checkpointer.py")
_HOROVOD = str(_PROGRAMS / "horovod_stepper.py")
_HOROVODRUN = str(Path(sys.executable).with_name("horovodrun"))


@dataclass(frozen=True, slots=True)
class Framework:
    """How it runs the training; `command` is given within the block, so that it may start what the workers need."""

    name: str
    runtime: str
    command: Callable[[], AbstractContextManager[Sequence[str]]]


@dataclass(frozen=True, slots=True)
class Course:
    """What came of one training."""

    #: seconds from the request to the end of the first step at the new size, by (size before, size after)
    first_steps: dict[tuple[int, int], list[float]]
    #: seconds without a step, of each change
    pauses: list[float]
    steps_repeated: int
    restarts: int


def run() -> list[Figure]:
    with_horovod = importlib.util.find_spec("horovod") is not None
    if not with_horovod:
        print("Horovod is not installed: skipped")
    measured = [framework for framework in FRAMEWORKS if with_horovod or framework.runtime != "horovod"]
    courses = {framework.name: _measure(framework) for framework in measured}
    print(_side_by_side(courses))
    return [figure for name, course in courses.items() for figure in _figures(name, course)]


@contextmanager
def _plainly(*command: str) -> Iterator[Sequence[str]]:
    yield command


@contextmanager
def _c10d() -> Iterator[Sequence[str]]:
    """torchrun's own rendezvous as well as it can be set: the store outside of the workers, short times."""
    store = [sys.executable, str(_PROGRAMS / "store.py")]
    with subprocess.Popen(store, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield (
            *_TORCHRUN,
            f"--nnodes=1:{max(SIZES)}",
            "--rdzv-backend=c10d",
            "--rdzv-id=measured",
            f"--rdzv-endpoint=127.0.0.1:{process.stdout.readline().strip()}",
            "--rdzv-conf=is_host=false,last_call_timeout=1,keep_alive_interval=2,keep_alive_max_attempt=3",
            "--max-restarts=1000",
            _CHECKPOINTER,
        )
        process.stdin.close()


FRAMEWORKS = (
    Framework("scheduler.elastic", "elastic", lambda: _plainly(sys.executable, str(_PROGRAMS / "stepper.py"))),
    Framework(
        "torchrun, forked",
        "torchrun",
        lambda: _plainly(*_TORCHRUN, "--run-path", _CHECKPOINTER),
    ),
    Framework("torchrun", "torchrun", lambda: _plainly(*_TORCHRUN, _CHECKPOINTER)),
    Framework("torchrun c10d", "command", _c10d),
    Framework("Horovod", "horovod", lambda: _plainly(sys.executable, _HOROVOD)),
    # horovodrun starts another program than Python, so no process can have imported Horovod beforehand.
    Framework("Horovod, cold", "horovod", lambda: _plainly(_HOROVODRUN, "env", sys.executable, _HOROVOD)),
)


def _measure(framework: Framework) -> Course:
    with framework.command() as command, Daemon(max(SIZES)) as daemon:
        job = daemon.submit(
            command,
            runtime=framework.runtime,
            min_workers=1,
            max_workers=2,
            env={"OMP_NUM_THREADS": "1", "PYTHONPATH": str(_PROGRAMS.parent.parent)},
        )
        until_size(daemon, job, 2, _RESIZE_SECONDS_MAX)
        asked = [(size, resize(daemon, job, size, _RESIZE_SECONDS_MAX)) for size in SIZES * CYCLES]
        steps = all_steps(daemon, job)
        retries = daemon.get(f"/v1/jobs/{job}")["retries_used"]
        daemon.cancel(job)
    return _course(steps, asked, retries)


def _course(steps: list[Step], asked: Sequence[tuple[int, float]], retries: int) -> Course:
    first_steps: dict[tuple[int, int], list[float]] = {}
    pauses = []
    ends = [at for _, at in asked[1:]] + [float("inf")]
    for (size, at), end in zip(asked, ends, strict=True):
        before = [step for step in steps if step["at"] <= at][-1]
        first = next(step for step in steps if at < step["at"] < end and step["size"] == size)
        last = [step for step in steps if step["at"] < first["at"]][-1]
        first_steps.setdefault((int(before["size"]), size), []).append(first["at"] - at)
        pauses.append(first["at"] - last["at"])
    repeated = sum(int(max(a["step"] + 1 - b["step"], 0)) for a, b in pairwise(steps))
    restarts = int(max(step.get("restarts", 0) for step in steps)) + retries
    return Course(first_steps, pauses, repeated, restarts)


def _figures(name: str, course: Course) -> Iterator[Figure]:
    ours = name == "scheduler.elastic"
    for change, seconds in course.first_steps.items():
        what = f"{name}: {change[0]} → {change[1]}, request to first step"
        yield Figure(what, median(seconds), "s", note=f"at most {max(seconds):.3g} s")
    note = f"{len(course.pauses)} resizes"
    yield Figure(f"{name}: pause, median", median(course.pauses), "s", at_most=0.5 if ours else None, note=note)
    yield Figure(f"{name}: steps repeated", float(course.steps_repeated), "steps", note=note)
    yield Figure(f"{name}: restarts consumed", float(course.restarts), "restarts", note=note)


def _side_by_side(courses: dict[str, Course]) -> str:
    """A row per measure, a column per framework."""
    figures = [list(_figures(name, course)) for name, course in courses.items()]
    rows = [["", *courses]]
    rows += (
        [same[0].what.partition(": ")[2], *(number(figure.value or 0.0) for figure in same)]
        for same in zip(*figures, strict=True)
    )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
