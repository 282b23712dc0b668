"""What the elastic policies make of slots, by hand."""

from typing import Any

from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.policy.published import afs, edl, elastic_fifo
from scheduler.policy.published.minimums import minimums
from tests.policy.worlds import NOW, Cluster


def jobs(*bounds: tuple[int, int], **fields: Any) -> list[Job]:
    """Waiting jobs 1, 2, ... with these bounds."""
    c = Cluster()
    for number, workers in enumerate(bounds, 1):
        c.waiting(number, workers=workers, **fields)
    return list(c.jobs.values())


def shares(sizes: Any, some: list[Job], slots: int) -> list[int]:
    given = sizes(some, slots, NOW, Cluster().settings)
    return [given[job.id] for job in some]


def test_minimums_go_in_order_and_who_does_not_fit_is_passed_over() -> None:
    given, left = minimums(jobs((2, 4), (4, 8), (1, 1)), 5)
    assert (given, left) == ({JobId(1): 2, JobId(2): 0, JobId(3): 1}, 2)


def test_minimums_of_running_jobs_come_first() -> None:
    c = Cluster().node("a", 8).waiting(1, workers=(2, 4)).running(2, {"a": 3}, workers=(3, 4))
    given, left = minimums(list(c.jobs.values()), 4)
    assert (given, left) == ({JobId(1): 0, JobId(2): 3}, 1)


def test_elastic_fifo_deals_in_turns_beyond_the_minimum() -> None:
    # 10 slots: minimums 1 + 3 + 1, then one each in turns: 1, 2, 3, 1, 2.
    assert shares(elastic_fifo.sizes, jobs((1, 9), (3, 9), (1, 9)), 10) == [3, 5, 2]
    assert shares(elastic_fifo.sizes, jobs((1, 2), (1, 9)), 8) == [2, 6]


def test_elastic_policies_count_slots_not_workers() -> None:
    assert shares(elastic_fifo.sizes, jobs((1, 4), (1, 4), slots_per_worker=2), 7) == [2, 1]


def test_edl_gives_to_the_least_fulfilled() -> None:
    # Fulfilment 0 and 0: job 1 (1/2), then job 2 (1/8, 2/8, 3/8, 4/8), then job 1 (1), then job 2.
    assert shares(edl.sizes, jobs((1, 3), (1, 9)), 2 + 1) == [2, 1]
    assert shares(edl.sizes, jobs((1, 3), (1, 9)), 2 + 5) == [2, 5]
    assert shares(edl.sizes, jobs((1, 3), (1, 9)), 2 + 6) == [3, 5]
    assert shares(edl.sizes, jobs((2, 2), (1, 3)), 5) == [2, 3]


def afs_jobs(*facts: tuple[float, tuple[tuple[int, float], ...]]) -> list[Job]:
    """Jobs of 1 to 4 workers: how long each takes with one worker, and its speeds."""
    c = Cluster()
    for number, (seconds, speedup) in enumerate(facts, 1):
        c.waiting(number, workers=(1, 4), preferred_workers=1, expected_seconds=seconds, speedup=speedup)
    return list(c.jobs.values())


LINEAR = ((1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0))
POOR = ((1, 1.0), (2, 1.2), (3, 1.3), (4, 1.3))


def test_afs_prefers_the_shorter_until_a_worker_more_is_little_of_what_it_has() -> None:
    # The longer would gain (2 - 1) / 2. The shorter loses (2 - 1) / 1, then (3 - 2) / 2, then only (4 - 3) / 3.
    assert shares(afs.sizes, afs_jobs((100.0, LINEAR), (1000.0, LINEAR)), 4) == [3, 1]
    assert shares(afs.sizes, afs_jobs((100.0, LINEAR), (1000.0, LINEAR)), 5) == [3, 2]


def test_afs_gives_to_the_longer_where_it_gains_more_than_the_shorter_loses() -> None:
    # Job 1 loses 0.2 / 1 without a second worker. Job 2 gains (2 - 1) / 2, then (3 - 2) / 3, then (4 - 3) / 4.
    assert shares(afs.sizes, afs_jobs((100.0, POOR), (1000.0, LINEAR)), 5) == [1, 4]
    assert shares(afs.sizes, afs_jobs((100.0, POOR), (1000.0, LINEAR)), 6) == [2, 4]


def test_afs_leaves_out_who_gains_nothing() -> None:
    assert shares(afs.sizes, afs_jobs((100.0, POOR), (100.0, POOR)), 8) == [3, 3]


def test_afs_minimums_go_to_those_that_end_first() -> None:
    some = afs_jobs((500.0, LINEAR), (100.0, LINEAR))
    in_order = sorted(some, key=lambda job: afs.time_alone(job, NOW, Cluster().settings))
    assert [job.id for job in in_order] == [2, 1]
    assert shares(afs.sizes, in_order, 1) == [1, 0]
