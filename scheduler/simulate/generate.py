"""Made-up workloads: Poisson arrivals, and the baseline of Kueue's scheduler benchmark."""

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from scheduler.config.numbers import Priority, Workers
from scheduler.errors import UserError
from scheduler.model.job import JobSpec, Runtime
from scheduler.model.queue import ANY_GPU, Queue
from scheduler.model.shape import WorkerShape
from scheduler.simulate.job_rows import COMMAND
from scheduler.simulate.speed import Linear, Speedup
from scheduler.simulate.table import ROWS_MAX, Row, validated
from scheduler.simulate.work import CurveWork
from scheduler.simulate.workload import Submission, Workload


def _words(value: object) -> object:
    return value.split("/") if isinstance(value, str) else value


Sizes = Annotated[tuple[Workers, ...], BeforeValidator(_words), Field(min_length=1, max_length=64)]
Priorities = Annotated[tuple[Priority, ...], BeforeValidator(_words), Field(min_length=1, max_length=64)]


class Poisson(Row):
    """Jobs that arrive independently of each other."""

    model_config = ConfigDict(extra="forbid")

    jobs: int = Field(default=100, ge=1, le=ROWS_MAX)
    per_hour: float = Field(default=60.0, ge=1e-3, le=1e9)
    #: Work of a job in worker-seconds: mean, and standard deviation as a multiple of it.
    work_seconds: float = Field(default=3600.0, gt=0, le=1e9)
    spread: float = Field(default=1.0, ge=0, le=1e3)
    #: Pareto instead of log-normal work, with this exponent: the smaller, the heavier its tail. The spread is unused.
    tail: float | None = Field(default=None, gt=1, le=1e3)
    #: Largest sizes and priorities, each equally often, as in `sizes=1/2/4/8`.
    sizes: Sizes = (1, 2, 4, 8)
    priorities: Priorities = (0,)
    #: Fewest workers as a share of the most; 1: rigid jobs.
    min_share: float = Field(default=0.0, ge=0, le=1)
    resize_seconds: float = Field(default=0.0, ge=0, le=1e9)


class Kueue(Row):
    """Sizes of the benchmark; as published by default."""

    model_config = ConfigDict(extra="forbid")

    cohorts: int = Field(default=5, ge=1, le=1000)
    queues: int = Field(default=6, ge=1, le=1000)
    #: A queue has 7 small, 2 medium and 1 large workload out of ten.
    workloads: int = Field(default=500, ge=10, le=100_000)

    @model_validator(mode="after")
    def _not_too_many(self) -> Self:
        total = self.cohorts * self.queues * self.workloads
        if total > ROWS_MAX:
            raise ValueError(f"cohorts × queues × workloads make {total} jobs: at most {ROWS_MAX} can be simulated")
        return self


def poisson(wanted: Poisson, speedup: Speedup, seed: int) -> Workload:
    """Exponential gaps, independent work and sizes; everything follows from the seed."""
    generator = random.Random(seed)
    draw_work = _work_of(wanted, generator)
    at = 0.0
    submissions = []
    for number in range(wanted.jobs):
        at += generator.expovariate(wanted.per_hour / 3600.0)
        most = generator.choice(wanted.sizes)
        spec = JobSpec(
            name=f"job-{number + 1}",
            command=COMMAND,
            runtime=Runtime.ELASTIC,
            priority=generator.choice(wanted.priorities),
            min_workers=max(1, math.ceil(most * wanted.min_share)),
            max_workers=most,
        )
        submissions.append(Submission(at, spec, CurveWork.lasting(draw_work(), 1, speedup), wanted.resize_seconds))
    return Workload.of("poisson", submissions)


def _work_of(wanted: Poisson, generator: random.Random) -> Callable[[], float]:
    """Draws work with the mean that is wanted."""
    if wanted.tail is not None:
        tail = wanted.tail
        smallest = wanted.work_seconds * (tail - 1.0) / tail
        return lambda: smallest * generator.paretovariate(tail)
    variance = math.log(1.0 + wanted.spread**2)
    middle = math.log(wanted.work_seconds) - variance / 2.0
    return lambda: generator.lognormvariate(middle, math.sqrt(variance))


#: Slots that a queue owns.
_KUEUE_NOMINAL = 20
#: Slots, seconds, priority, seconds between two, and share of the workloads, of each class.
_KUEUE_CLASSES = {
    "small": (1, 0.2, 50, 0.1, 0.7),
    "medium": (5, 0.5, 100, 0.5, 0.2),
    "large": (20, 1.0, 200, 1.2, 0.1),
}


def kueue(wanted: Kueue, speedup: Speedup, seed: int) -> Workload:
    """The baseline of Kueue's scheduler benchmark: 5 cohorts of 6 queues with 500 workloads each.

    A queue is guaranteed 20 slots and may borrow 100 more from its cohort's other queues, which take them back when
    they need them. A cohort is one pool of 120 slots: a node with the label `cohort=N` (`--nodes 5x120:cohort`), and
    each workload is one worker that needs that label.
    """
    each_queue = ((ANY_GPU, _KUEUE_NOMINAL),)
    cohort_slots = ((ANY_GPU, _KUEUE_NOMINAL * wanted.queues),)
    queues: list[Queue] = []
    submissions = []
    for cohort in range(wanted.cohorts):
        pool = f"cohort-{cohort + 1}"
        queues.append(Queue(pool, 0.0, guarantee=cohort_slots, limit=cohort_slots))
        for queue in range(wanted.queues):
            path = f"{pool}/queue-{queue + 1}"
            queues.append(Queue(path, 0.0, guarantee=each_queue))
            for name, (slots, seconds, priority, gap_seconds, share) in _KUEUE_CLASSES.items():
                shape = WorkerShape(slots=slots, node_selector=(("cohort", str(cohort + 1)),))
                spec = JobSpec(name="", command=COMMAND, runtime=Runtime.ELASTIC, priority=priority, shape=shape)
                spec = replace(spec, queue=path)
                submissions += [
                    Submission(
                        number * gap_seconds,
                        replace(spec, name=f"{name}-{cohort + 1}-{queue + 1}-{number + 1}"),
                        CurveWork(seconds, Linear()),
                    )
                    for number in range(round(wanted.workloads * share))
                ]
    return Workload.of("kueue", submissions, queues=queues)


GENERATORS = ("poisson", "kueue")


def generated(kind: str, parameters: str, speedup: Speedup, seed: int) -> Workload:
    """The workload of a generator with parameters such as `jobs=100,per_hour=30`. Raises `UserError`."""
    values: dict[str, str] = {}
    for word in filter(None, parameters.split(",")):
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise UserError(f"{kind}: {word!r} must have the form KEY=VALUE")
        if key.strip() in values:
            raise UserError(f"{kind}: {key.strip()} is given more than once")
        values[key.strip()] = value.strip()
    if kind == "poisson":
        return poisson(validated(Poisson, values, lambda _: kind), speedup, seed)
    return kueue(validated(Kueue, values, lambda _: kind), speedup, seed)
