"""Made-up workloads have the numbers that were asked for."""

from collections import Counter
from statistics import fmean, stdev

import pytest

from scheduler.errors import UserError
from scheduler.simulate.read import Source, read_workload
from scheduler.simulate.workload import Workload


def made(name: str, seed: int = 7) -> Workload:
    return read_workload(name, Source(seed=seed))


def test_poisson_jobs_come_at_the_rate_and_with_the_work_that_were_asked_for() -> None:
    jobs = made("poisson:jobs=4000,per_hour=120,work_seconds=500,spread=0.5,sizes=2/8,priorities=0/5").submissions
    assert len(jobs) == 4000
    assert jobs[-1].at == pytest.approx(4000 * 30.0, rel=0.05)
    assert fmean(each.work.total for each in jobs) == pytest.approx(500.0, rel=0.05)
    assert stdev(each.work.total for each in jobs) == pytest.approx(250.0, rel=0.1)
    assert set(Counter((each.spec.max_workers, each.spec.priority) for each in jobs)) == {
        (2, 0),
        (2, 5),
        (8, 0),
        (8, 5),
    }
    assert len({each.spec.name for each in jobs}) == 4000


def test_a_heavy_tail_keeps_the_mean_and_holds_most_work_in_few_jobs() -> None:
    jobs = made("poisson:jobs=4000,work_seconds=500,tail=2.5").submissions
    work = sorted((each.work.total for each in jobs), reverse=True)
    assert fmean(work) == pytest.approx(500.0, rel=0.1)
    assert min(work) >= 500.0 * 1.5 / 2.5
    assert work[0] > 10 * work[2000]


def test_rigid_jobs_are_those_whose_least_share_is_all() -> None:
    assert all(not _elastic(each.spec) for each in made("poisson:min_share=1").submissions)
    assert any(_elastic(each.spec) for each in made("poisson").submissions)


def _elastic(spec: object) -> bool:
    return spec.min_workers < spec.max_workers  # type: ignore[attr-defined]


def test_the_same_seed_makes_the_same_workload() -> None:
    assert made("poisson", 1) == made("poisson", 1) != made("poisson", 2)


def test_kueues_baseline_has_its_published_numbers() -> None:
    jobs = made("kueue").submissions
    assert len(jobs) == 15_000
    shapes = Counter((each.spec.shape.slots, each.spec.priority, each.work.total) for each in jobs)
    assert shapes == {(1, 50, 0.2): 10_500, (5, 100, 0.5): 3000, (20, 200, 1.0): 1500}
    assert Counter(dict(each.spec.shape.node_selector)["cohort"] for each in jobs) == dict.fromkeys("12345", 3000)
    assert jobs[-1].at == pytest.approx(49 * 1.2)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("poisson:jobs", "poisson: 'jobs' must have the form KEY=VALUE"),
        ("poisson:jobs=0", "poisson: jobs: must be at least 1, not '0'"),
        ("poisson:per_hour=1e-300", "poisson: per_hour: must be at least 0.001, not '1e-300'"),
        ("poisson:tail=1", "poisson: tail: must be greater than 1, not '1'"),
        ("poisson:sizes=1/x", "poisson: sizes.1: must be an integer"),
        ("poisson:sizes=0", "poisson: sizes.0: must be at least 1, not '0'"),
        ("poisson:sizes=1/999999999", "poisson: sizes.1: must be at most 100000, not "),
        (f"poisson:priorities=0/{10**20}", "poisson: priorities.1: must be at most 1000000, "),
        ("poisson:jobs=5,jobs=6", "poisson: jobs is given more than once"),
        (f"poisson:jobs={5:0300}x", "poisson: jobs: must be an integer"),
        ("kueue:workloads=100000,queues=100", "kueue: cohorts × queues × workloads make 50000000 jobs: at most "),
        ("kueue:jobs=3", "kueue: jobs: unknown field"),
    ],
)
def test_what_cannot_be_made_is_refused_in_one_line(name: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        made(name)
    assert str(caught.value).startswith(said)
    assert len(str(caught.value).splitlines()) == 1
