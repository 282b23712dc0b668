"""How long a job still runs, by what was declared, measured and reported."""

from dataclasses import replace
from typing import Any

import pytest

from scheduler.config import PolicySettings
from scheduler.model.ids import JobId
from scheduler.model.job import Job, Progress, Runtime
from scheduler.model.speed import UNMEASURED_EXPONENT
from scheduler.policy.estimate.work_left import (
    EndBasis,
    guessed_work,
    seconds_for,
    seconds_left,
    service_class,
    work_left,
)
from tests.policy.worlds import LONG_AGO, NOW, Cluster

RAN = NOW - LONG_AGO
SETTINGS = PolicySettings(service_class_slot_seconds=40_000.0)


def running(workers: int, **fields: Any) -> Job:
    c = Cluster().node("a", 8).running(1, {"a": workers}, workers=(1, 8), **fields)
    return c.jobs[JobId(1)]


def waiting(**fields: Any) -> Job:
    return Cluster().waiting(1, workers=(1, 8), **fields).jobs[JobId(1)]


# Speed


def test_without_any_figures_speed_is_a_power_of_the_size() -> None:
    assert [running(1).speed(n) for n in (1, 2, 7)] == [n**UNMEASURED_EXPONENT for n in (1, 2, 7)]


def test_speed_lies_on_a_line_between_declared_sizes_and_goes_on_more_slowly_beyond_them() -> None:
    job = running(1, speedup=((2, 10.0), (4, 16.0)))
    assert [job.speed(n) for n in (2, 3, 4)] == [10, 13, 16]
    assert 16 < job.speed(6) < 22
    assert 5 < job.speed(1) < 10


def test_beyond_the_largest_size_nothing_is_lost() -> None:
    assert [running(1, speedup=((1, 3.0), (4, 2.0))).speed(n) for n in (4, 8)] == [2, 2]


def test_what_was_measured_counts_more_than_what_was_declared() -> None:
    declared = {"speedup": ((1, 1.0), (2, 2.0), (4, 3.0))}
    job = running(1, throughput=((1, 100.0), (2, 150.0)), **declared)
    assert [job.speed(n) for n in (1, 2, 4)] == [100, 150, 225]
    assert [running(1, throughput=((1, 100.0),), **declared).speed(n) for n in (1, 2)] == [100, 200]


def test_a_speed_of_nothing_was_not_measured() -> None:
    assert running(1, throughput=((1, 0.0), (2, 150.0))).speed(2) == 150


def test_a_loss_that_noise_may_explain_counts_for_the_time_left() -> None:
    """Optimism is for trials; an end that is expected too early would be a promise."""
    assert running(1, throughput=((1, 100.0), (2, 90.0))).speed(2) == 90


# Work left


def test_nothing_is_known_of_a_job_that_declares_nothing() -> None:
    assert work_left(running(2), NOW) is None


def test_a_declared_duration_is_for_the_preferred_size() -> None:
    linear = {"preferred_workers": 4, "expected_seconds": 600.0, "speedup": ((1, 1.0), (4, 4.0))}
    job = running(2, **linear)
    assert work_left(job, NOW) == (4 * 600 - 2 * RAN, EndBasis.DECLARED)
    assert work_left(waiting(**linear), NOW) == (4 * 600, EndBasis.DECLARED)


def test_a_declared_duration_is_counted_at_the_present_size() -> None:
    job = running(2, preferred_workers=4, expected_seconds=600.0, speedup=((2, 1.0), (4, 1.5)))
    assert work_left(job, LONG_AGO) == (2 * 600 * 1.5, EndBasis.DECLARED)


def test_an_elastic_job_keeps_the_work_of_earlier_attempts_and_a_command_does_not() -> None:
    fields = {"preferred_workers": 1, "expected_seconds": 5000.0}
    elastic = replace(running(1, runtime=Runtime.ELASTIC, **fields), attempt=2, served_slot_seconds=700.0)
    command = replace(running(1, **fields), attempt=2, served_slot_seconds=700.0)
    assert work_left(elastic, NOW) == (5000 - 700 - RAN, EndBasis.DECLARED)
    assert work_left(command, NOW) == (5000 - RAN, EndBasis.DECLARED)


def test_a_job_that_runs_a_little_longer_than_declared_ends_at_any_moment_and_then_nothing_is_known() -> None:
    assert work_left(running(1, preferred_workers=1, expected_seconds=RAN / 1.04), NOW) == (0.0, EndBasis.DECLARED)
    assert work_left(running(1, preferred_workers=1, expected_seconds=RAN / 1.06), NOW) is None


@pytest.mark.parametrize(("age", "left"), [(0.0, 3 * RAN), (100.0, 3 * RAN - 100)])
def test_a_reported_share_counts_from_when_it_was_reported(age: float, left: float) -> None:
    progress = Progress(fraction=0.25, whole_slot_seconds=4 * RAN, reported_at=NOW - age)
    assert work_left(replace(running(1), progress=progress), NOW) == (left, EndBasis.REPORTED)


def test_a_job_ends_not_before_now() -> None:
    progress = Progress(fraction=0.5, whole_slot_seconds=RAN, reported_at=LONG_AGO)
    assert work_left(replace(running(1), progress=progress), NOW) == (0.0, EndBasis.REPORTED)


@pytest.mark.parametrize("fraction", [0.0, 0.004])
def test_a_share_of_nearly_nothing_says_nothing(fraction: float) -> None:
    progress = Progress(fraction=fraction, whole_slot_seconds=RAN, reported_at=NOW)
    assert work_left(replace(running(1), progress=progress), NOW) is None


@pytest.mark.parametrize(("fraction", "undone"), [(0.75, 0.25), (1.0, 0.0)])
def test_published_rules_trust_a_declared_duration_and_others_what_the_job_seems_to_take(
    fraction: float, undone: float
) -> None:
    linear = {"preferred_workers": 2, "expected_seconds": 500.0, "speedup": ((1, 1.0), (2, 2.0))}
    job = waiting(fraction=fraction, whole_slot_seconds=8000.0, **linear)
    assert seconds_left(job, 1, NOW, SETTINGS) == 1000 * undone
    assert work_left(job, NOW) == (8000 * undone, EndBasis.REPORTED)


# Guesses


def test_else_a_job_needs_about_as_much_again_as_it_has_had() -> None:
    job = running(2)
    up_at = NOW + (40_000 - 2 * RAN) / 2
    assert guessed_work(job, NOW, SETTINGS) == (10_000, up_at)
    assert guessed_work(job, up_at, SETTINGS) == (40_000, up_at + 3 * 40_000 / 2)
    assert seconds_left(job, 2, NOW, SETTINGS) == 5000


def test_service_classes_reach_four_times_as_far_each() -> None:
    had = [0.0, 39_999.0, 40_000.0, 159_999.0, 160_000.0, 640_000.0]
    assert [service_class(each, SETTINGS) for each in had] == [0, 0, 1, 1, 2, 3]


# Time


def test_work_takes_less_time_with_more_workers_by_their_speed() -> None:
    job = running(2, slots_per_worker=3, speedup=((2, 10.0), (4, 15.0)))
    assert [seconds_for(job, 6000.0, n) for n in (2, 4)] == [1000, pytest.approx(1000 / 1.5)]


def test_what_a_job_reported_counts_the_same_whether_it_runs_or_waits() -> None:
    told = {"preferred_workers": 2, "slots_per_worker": 2, "fraction": 0.25, "whole_slot_seconds": 8000.0}
    stopped = waiting(served_slot_seconds=2000.0, **told)
    assert [seconds_left(job, 2, NOW, SETTINGS) for job in (running(2, **told), stopped)] == [1500, 1500]
