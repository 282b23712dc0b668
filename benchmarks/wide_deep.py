"""AUC of a wide & deep model trained by 4 workers, and by 2 to 6 that come and go at random: experiment 3 of ElasticDL.

For each seed all trainings run at once under one daemon, on the same records and from the same weights. With a constant
batch a resize changes nothing for the optimizer; with one that grows with the workers, steps and learning rate follow.
"""

import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.clicks import auc, draw_clicks
from benchmarks.daemon import Daemon
from benchmarks.figure import RESULTS, Figure
from benchmarks.paired import difference
from benchmarks.programs.wide_deep import BATCH, TEST_RECORDS
from benchmarks.steps import Step, all_steps
from benchmarks.trouble import Skipped
from benchmarks.wide_deep_picture import draw

SEEDS, RECORDS, EPOCHS = 5, 60_000, 4
FIXED, SIZES, CHANGES = 4, range(2, 7), 5
#: Arm to batch policy; the first is what the others are compared with.
POLICIES = {
    f"{FIXED} workers": "constant",
    "2 to 6, constant batch": "constant",
    "2 to 6, growing batch": "scaled",
}
_PROGRAM = Path(__file__).parent / "programs" / "wide_deep.py"
_SECONDS_MAX = 300.0


@dataclass(frozen=True, slots=True)
class Course:
    """What came of one training."""

    #: (samples seen, AUC) of each evaluation; the last one is at the end.
    curve: list[tuple[float, float]]
    #: (samples seen, workers) of each step.
    sizes: list[tuple[float, int]]
    #: samples that were not seen exactly once per epoch
    wrong: int

    @property
    def resizes(self) -> int:
        """How often the number of workers changed."""
        return sum(a[1] != b[1] for a, b in zip(self.sizes, self.sizes[1:], strict=False))


@dataclass(slots=True)
class Training:
    """A job that runs, and what it still has to go through: at which step it gets how many workers."""

    job: int
    size: int
    changes: list[tuple[int, int]] = field(default_factory=list)
    done: bool = False

    def attend(self, daemon: Daemon) -> None:
        """Ask for the next change if its step has come and the one before is over; notice the end."""
        view = daemon.get(f"/v1/jobs/{self.job}")
        if view["state"] == "FAILED":
            raise RuntimeError(f"job {self.job} failed: {view['detail']}")
        self.done = view["state"] == "SUCCEEDED"
        if self.done or not self.changes or view["members"] != self.size:
            return
        step, size = self.changes[0]
        if (view["progress"]["step"] or 0) >= step:
            bounds = {"min_workers": size, "max_workers": size}
            daemon.http.patch(f"/v1/jobs/{self.job}", json=bounds).raise_for_status()
            self.changes.pop(0)
            self.size = size


def run(seeds: int = SEEDS, samples: int = RECORDS, picture: str | None = None) -> list[Figure]:
    if seeds < 2:
        raise Skipped("differences need at least two seeds: --seeds 5")
    if samples < BATCH:
        raise Skipped(f"an epoch has at least one batch: --samples {BATCH} or more")
    courses: dict[str, list[Course]] = {name: [] for name in POLICIES}
    slots = FIXED + max(SIZES) * (len(POLICIES) - 1)
    with Daemon(slots) as daemon:
        for seed in range(1, seeds + 1):
            for name, course in _train(daemon, seed, samples).items():
                courses[name].append(course)
            print(f"seed {seed}: {_line(courses)}", flush=True)
    best = [_best(seed, samples) for seed in range(1, seeds + 1)]
    path = Path(picture) if picture else RESULTS / "wide_deep.svg"
    draw(courses, sum(best) / len(best), path)
    print(f"curves: {path}")
    return list(_figures(courses, best))


def _train(daemon: Daemon, seed: int, samples: int) -> dict[str, Course]:
    steps = EPOCHS * samples // BATCH
    trainings = {
        name: _submit(daemon, seed, samples, policy, [] if place == 0 else changes(seed, steps))
        for place, (name, policy) in enumerate(POLICIES.items())
    }
    deadline = time.monotonic() + _SECONDS_MAX
    while not all(training.done for training in trainings.values()):
        if time.monotonic() > deadline:
            raise RuntimeError(f"the trainings of seed {seed} did not end within {_SECONDS_MAX:g} s")
        for training in trainings.values():
            training.attend(daemon)
        time.sleep(0.1)
    return {name: course_of(all_steps(daemon, training.job)) for name, training in trainings.items()}


def _submit(daemon: Daemon, seed: int, samples: int, policy: str, changes: list[tuple[int, int]]) -> Training:
    job = daemon.submit(
        [sys.executable, str(_PROGRAM), str(seed), str(samples), str(EPOCHS), policy],
        runtime="elastic",
        min_workers=min(SIZES) if changes else FIXED,
        max_workers=FIXED,
        env={"OMP_NUM_THREADS": "1", "PYTHONPATH": str(_PROGRAM.parents[2])},
    )
    return Training(job, FIXED, changes)


def changes(seed: int, steps: int) -> list[tuple[int, int]]:
    """(step, workers): one at random in each part of the first four fifths, to another size than the one before."""
    choices = random.Random(seed)
    part = max(steps * 4 // (5 * CHANGES), 1)
    size, found = FIXED, []
    for number in range(CHANGES):
        size = choices.choice([other for other in SIZES if other != size])
        found.append((number * part + choices.randrange(part), size))
    return found


def course_of(steps: list[Step]) -> Course:
    """What the lines of a training say. Raises `RuntimeError` where they do not tell of its end."""
    if not steps or "wrong" not in steps[-1]:
        raise RuntimeError("a training's output does not tell of its end")
    curve = [(step["samples"], step["auc"]) for step in steps if "auc" in step]
    return Course(curve, [(step["samples"], int(step["size"])) for step in steps], int(steps[-1]["wrong"]))


def _best(seed: int, samples: int) -> float:
    """The AUC of the odds that the test records were drawn from."""
    test = draw_clicks(samples + TEST_RECORDS, seed).rows(slice(samples, None))
    return auc(test.odds, test.clicked)


def _line(courses: dict[str, list[Course]]) -> str:
    return "; ".join(
        f"{name}: AUC {found[-1].curve[-1][1]:.4f}, {found[-1].resizes} resizes" for name, found in courses.items()
    )


def _figures(courses: dict[str, list[Course]], best: list[float]) -> Iterator[Figure]:
    ends = {name: [course.curve[-1][1] for course in found] for name, found in courses.items()}
    note = f"mean of {len(best)} seeds"
    yield Figure("best possible AUC", sum(best) / len(best), "", note=note)
    for name, values in ends.items():
        span = f"{note}, {min(values):.4f} to {max(values):.4f}"
        yield Figure(f"final AUC, {name}", sum(values) / len(values), "", note=span)
    fixed, *changing = ends
    resizes = sum(course.resizes for name in changing for course in courses[name])
    yield Figure("resizes per training of 2 to 6", resizes / len(changing) / len(best), "", at_least=2)
    for name in changing:
        found = difference(ends[name], ends[fixed])
        what = f"{name}, less {fixed}"
        yield Figure(f"{what}: difference of AUC", found.mean, "")
        yield Figure(f"{what}: 95 % interval, from", found.low, "", at_least=-0.005)
        yield Figure(f"{what}: 95 % interval, to", found.high, "", at_most=0.005)
        yield Figure(f"{what}: p", found.p, "", at_least=0.05, note="paired t-test")
    wrong = sum(course.wrong for found in courses.values() for course in found)
    yield Figure("samples not seen exactly once per epoch", float(wrong), "", at_most=0)
