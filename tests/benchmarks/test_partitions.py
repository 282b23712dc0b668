"""The benchmark of partitions, with few jobs; and how jobs are sent to partitions."""

from dataclasses import replace

from benchmarks import partitions
from benchmarks.partitions import WANTED, in_turn, least_work_left
from scheduler.simulate.generate import poisson
from scheduler.simulate.speed import Amdahl
from scheduler.simulate.work import seconds_alone

FEW = WANTED.model_copy(update={"jobs": 30})


def test_each_way_to_divide_the_cluster_is_measured() -> None:
    figures = partitions.run(FEW, (2,))
    assert [figure.what.partition(":")[0] for figure in figures] == [
        "one cluster",
        "2 partitions, in turn",
        "2 partitions, least work left",
    ]
    assert all(figure.value is not None and 0 < figure.value < 1e6 for figure in figures)


def test_jobs_are_sent_to_each_in_turn_or_to_the_one_with_the_least_work_left() -> None:
    drawn = poisson(FEW, Amdahl(0.01), seed=1).submissions
    jobs = [replace(job, at=0.0) for job in drawn]
    assert in_turn(jobs, 3)[:5] == [0, 1, 2, 0, 1]
    work = [0.0] * 3
    for job, partition in zip(jobs, least_work_left(jobs, 3), strict=True):
        assert work[partition] == min(work)
        work[partition] += seconds_alone(job.work, (1,))
