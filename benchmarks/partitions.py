"""What a cluster loses that is divided into partitions: one workload on one cluster, and on parts with a daemon each.

Beyond what one daemon can decide, several would share a cluster. A partition cannot use what is free in another, so
that jobs wait longer: this measures by how much. Each job is sent to one partition when it is submitted, and stays
there: to each in turn, or to the one with the least work left, as a sender would who knew how much each job needs.
Jobs are elastic, come at random, and need work with a heavy tail; a fourth of them is more important.
"""

import math
from collections.abc import Callable, Sequence
from statistics import fmean

from benchmarks.figure import Figure, number
from scheduler.config import Settings
from scheduler.simulate.generate import Poisson, poisson
from scheduler.simulate.nodes import read_nodes
from scheduler.simulate.run import Setup, simulate
from scheduler.simulate.speed import Amdahl
from scheduler.simulate.work import seconds_alone
from scheduler.simulate.workload import Submission, Workload

NODES, NODE_SLOTS = 128, 8
PARTITIONS = (2, 4, 8, 16)
JOBS, WORK_SECONDS = 1_500, 7_200.0
#: Work that comes in relation to all slots.
LOAD = 0.9
SEED = 1
IMPORTANT = 9
WANTED = Poisson(
    jobs=JOBS,
    per_hour=LOAD * NODES * NODE_SLOTS * 3600.0 / WORK_SECONDS,
    work_seconds=WORK_SECONDS,
    tail=1.5,
    sizes=(1, 2, 4, 8, 16, 32, 64),
    priorities=(0, 0, 0, IMPORTANT),
    min_share=0.5,
    resize_seconds=10.0,
)

#: Gives the partition of each job, for a number of partitions.
Sender = Callable[[Sequence[Submission], int], list[int]]


def run(wanted: Poisson = WANTED, partitions: Sequence[int] = PARTITIONS) -> list[Figure]:
    jobs = poisson(wanted, Amdahl(0.01), SEED).submissions
    whole = _means(jobs, 1, in_turn)
    figures = [_figure("one cluster", whole, whole)]
    for number_of in partitions:
        for how, sender in (("in turn", in_turn), ("least work left", least_work_left)):
            figures.append(_figure(f"{number_of} partitions, {how}", _means(jobs, number_of, sender), whole))
    return figures


def in_turn(jobs: Sequence[Submission], partitions: int) -> list[int]:
    return [number % partitions for number in range(len(jobs))]


def least_work_left(jobs: Sequence[Submission], partitions: int) -> list[int]:
    """The partition with the least work left, each as if it did all of its work at the speed of all of its slots."""
    slots, left, now = NODES * NODE_SLOTS // partitions, [0.0] * partitions, 0.0
    sent = []
    for job in jobs:
        left = [max(seconds - (job.at - now), 0.0) for seconds in left]
        now = job.at
        sent.append(min(range(partitions), key=left.__getitem__))
        left[sent[-1]] += seconds_alone(job.work, (1,)) / slots
    return sent


def _means(jobs: Sequence[Submission], partitions: int, sender: Sender) -> tuple[float, float]:
    """Mean completion time of all jobs, and of the important ones."""
    seconds = _completions(jobs, partitions, sender)
    return fmean(taken for taken, _ in seconds), fmean(taken for taken, important in seconds if important)


def _completions(jobs: Sequence[Submission], partitions: int, sender: Sender) -> list[tuple[float, bool]]:
    """How long each job took, and whether it was important."""
    setup = Setup(nodes=read_nodes(f"{NODES // partitions}x{NODE_SLOTS}", "nodes"), settings=Settings())
    sent = sender(jobs, partitions)
    found = []
    for partition in range(partitions):
        part = [job for job, to in zip(jobs, sent, strict=True) if to == partition]
        results = simulate(Workload.of("partition", part), setup).jobs
        found += [
            (math.inf if result.completion_seconds is None else result.completion_seconds, job.spec.priority > 0)
            for job, result in zip(part, results, strict=True)
        ]
    return found


def _figure(what: str, means: tuple[float, float], whole: tuple[float, float]) -> Figure:
    ratios = " and ".join(number(mean / of_whole) for mean, of_whole in zip(means, whole, strict=True))
    note = f"important jobs {number(means[1])} s" + ("" if means is whole else f"; {ratios} × those of one cluster")
    return Figure(f"{what}: mean completion time", means[0], "s", note=note)
