"""How long a job still runs, by what was declared, measured and reported."""

from dataclasses import replace
from typing import Any

import pytest

from scheduler.model.ids import JobId
from scheduler.model.job import Job, Progress, Runtime
from scheduler.policy.estimate.time_left import EndBasis, speed, work_left
from tests.policy.worlds import LONG_AGO, NOW, Cluster

RAN = NOW - LONG_AGO


def running(workers: int, **fields: Any) -> Job:
    c = Cluster().node("a", 8).running(1, {"a": workers}, workers=(1, 8), **fields)
    return c.jobs[JobId(1)]


def test_without_any_figures_speed_is_the_number_of_workers() -> None:
    assert [speed(running(1), n) for n in (1, 2, 7)] == [1, 2, 7]


def test_speed_lies_on_a_line_between_declared_sizes_and_goes_on_beyond_them() -> None:
    job = running(1, speedup=((2, 10.0), (4, 16.0)))
    assert [speed(job, n) for n in (1, 2, 3, 4, 6)] == [5, 10, 13, 16, 22]


def test_beyond_the_largest_size_nothing_is_lost() -> None:
    assert [speed(running(1, speedup=((1, 3.0), (4, 2.0))), n) for n in (4, 8)] == [2, 2]


def test_one_declared_size_is_taken_to_scale() -> None:
    assert speed(running(1, speedup=((2, 10.0),)), 6) == 30


def test_what_was_measured_at_two_sizes_counts_more_than_what_was_declared() -> None:
    declared = {"speedup": ((1, 1.0), (2, 2.0))}
    assert speed(running(1, throughput=((1, 100.0), (2, 150.0)), **declared), 2) == 150
    assert speed(running(1, throughput=((1, 100.0),), **declared), 2) == 2


def test_nothing_is_known_of_a_job_that_declares_nothing() -> None:
    assert work_left(running(2), NOW) is None


def test_a_declared_duration_is_for_the_preferred_size() -> None:
    job = running(2, preferred_workers=4, expected_seconds=600.0)
    assert work_left(job, NOW) == (4 * 600 - 2 * RAN, EndBasis.DECLARED)


def test_an_elastic_job_keeps_the_work_of_earlier_attempts_and_a_command_does_not() -> None:
    fields = {"preferred_workers": 1, "expected_seconds": 5000.0}
    elastic = replace(running(1, runtime=Runtime.ELASTIC, **fields), attempt=2, served_slot_seconds=700.0)
    command = replace(running(1, **fields), attempt=2, served_slot_seconds=700.0)
    assert work_left(elastic, NOW) == (5000 - 700 - RAN, EndBasis.DECLARED)
    assert work_left(command, NOW) == (5000 - RAN, EndBasis.DECLARED)


def test_a_job_that_runs_a_little_longer_than_declared_ends_at_any_moment_and_then_nothing_is_known() -> None:
    assert work_left(running(1, preferred_workers=1, expected_seconds=RAN / 1.04), NOW) == (0.0, EndBasis.DECLARED)
    assert work_left(running(1, preferred_workers=1, expected_seconds=RAN / 1.06), NOW) is None


@pytest.mark.parametrize(("age", "left"), [(0.0, 3 * RAN), (100.0, 3 * (RAN - 100) - 100)])
def test_a_reported_share_counts_from_when_it_was_reported(age: float, left: float) -> None:
    job = replace(running(1), progress=Progress(fraction=0.25, reported_at=NOW - age))
    assert work_left(job, NOW) == (left, EndBasis.REPORTED)


def test_a_share_of_nothing_says_nothing() -> None:
    assert work_left(replace(running(1), progress=Progress(fraction=0.0, reported_at=NOW)), NOW) is None
