"""What reports of the speed tell: noise explains small losses, and jobs that lost give workers back."""

import math
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.config import PolicySettings
from scheduler.model.ids import JobId
from scheduler.model.job import Job, Runtime
from scheduler.model.plan import Grow, Shrink
from scheduler.model.speed import LOSSES_MAX, REPORTS_MAX, Known, Scatter, SizeSpeed, after_loss, after_report
from scheduler.model.worker import LeaveReason
from scheduler.policy.estimate.speeds import Faster, faster_size, known_speeds
from tests.policy.worlds import LONG_AGO, NOW, Cluster

SETTINGS = PolicySettings()
NOTHING: Known = ((), Scatter())
NOISY = Scatter(0.01, 30)  # one report in three is more than a tenth off


def running(size: int, slots: int = 4, **fields: Any) -> Cluster:
    fields = {"workers": (1, 4), "runtime": Runtime.ELASTIC, "running_at": LONG_AGO, **fields}
    return Cluster().node("a", slots).running(1, {"a": size}, **fields)


def job_of(c: Cluster) -> Job:
    return c.jobs[JobId(1)]


def reported(rates: list[float], size: int = 2, generation: int = 1, known: Known = NOTHING) -> Known:
    for rate in rates:
        known = after_report(known, size, rate, generation)
    return known


# Reports


def test_the_speed_at_a_size_is_the_mean_of_its_reports() -> None:
    (speed,), _ = reported([98.0, 102.0, 100.0])
    assert (speed.per_second, speed.reports) == (pytest.approx(100.0), 3)


def test_old_reports_fade() -> None:
    (speed,), _ = reported([99.0] * 200 + [100.0] * 80, known=((), Scatter(0.01, 30)))
    assert speed.per_second == pytest.approx(100.0, rel=0.001)
    assert speed.reports == REPORTS_MAX


def test_a_report_that_noise_does_not_explain_begins_another_mean() -> None:
    """The workers are on other nodes, or a sample is worth another amount of progress."""
    (speed,), _ = reported([50.0], generation=2, known=reported([100.0] * 20))
    assert (speed.per_second, speed.reports, speed.generation) == (50.0, 1, 2)


def test_noise_does_not_begin_another_mean_for_ever() -> None:
    """However noisy it is, and however large the distance of the first reports."""
    draw = random.Random()
    (speed,), _ = reported([100.0 * draw.uniform(0.4, 1.6) for _ in range(300)])
    assert speed.reports > 3


def test_sizes_ascend_in_whatever_order_they_were_reported() -> None:
    speeds, _ = reported([1.0], 1, known=reported([4.0], 4, known=reported([2.0], 2)))
    assert [speed.workers for speed in speeds] == [1, 2, 4]


def test_the_scatter_comes_near_that_of_the_reports() -> None:
    draw = random.Random()
    _, scatter = reported([100.0 * draw.gauss(1.0, 0.2) for _ in range(400)])
    assert 0.1 < math.sqrt(scatter.variance) < 0.4


@given(st.lists(st.floats(1e-9, 1e15) | st.just(0.0), max_size=30), st.integers(1, 3))
def test_whatever_is_reported_stays_within_bounds(rates: list[float], size: int) -> None:
    speeds, scatter = reported(rates, size)  # values of the model refuse what is out of bounds
    assert all(math.isfinite(speed.per_second) for speed in speeds)
    assert 0.0 <= scatter.variance <= 1.0


def test_losses_are_counted_at_the_size_that_lost() -> None:
    speeds = (SizeSpeed(2, 10.0), SizeSpeed(4, 8.0))
    for _ in range(LOSSES_MAX + 3):
        speeds = after_loss(speeds, 4)
    assert [speed.losses for speed in speeds] == [0, LOSSES_MAX]


# Losses


def test_a_loss_that_noise_explains_is_no_loss() -> None:
    """577 samples per second with two workers, 500 with four."""
    once = running(2, throughput=((2, 577.0), (4, 500.0)), scatter=NOISY)
    often = running(2, throughput=((2, 577.0, 20), (4, 500.0, 20)), scatter=Scatter(0.0025, 30))
    points, lost = (known_speeds(job_of(c), NOW, SETTINGS).points for c in (once, often))
    assert points[1][1] > points[0][1]
    assert lost == ((2, 577.0), (4, 500.0))


def test_noise_allows_no_more_than_is_expected_of_a_size_that_was_never_measured() -> None:
    c = running(2, throughput=((2, 500.0), (4, 499.0)), scatter=Scatter(1.0, 30))
    assert known_speeds(job_of(c), NOW, SETTINGS).points[1] == (4, pytest.approx(500.0 * 2**0.8))


def test_a_job_that_noise_held_back_takes_idle_slots_at_once() -> None:
    c = running(2, throughput=((2, 577.0), (4, 500.0)), scatter=NOISY)
    assert [type(action) for action in c.plan().actions] == [Grow]


def test_a_size_that_once_lost_is_left_alone_though_noise_may_explain_it_now() -> None:
    c = running(2, throughput=((2, 577.0), (4, 500.0, 3, 5, 1)), scatter=NOISY, last_resize_at=NOW - 10.0)
    assert c.plan().actions == ()
    assert c.plan().next_look_at == NOW - 10.0 + SETTINGS.retry_seconds


def test_a_size_that_lost_is_tried_again_with_idle_slots() -> None:
    lost = ((2, 577.0, 20), (4, 500.0, 20, 5, 2))
    c = running(2, throughput=lost, last_resize_at=NOW - 2 * SETTINGS.retry_seconds)
    (grow,) = c.plan().actions
    assert isinstance(grow, Grow)


def test_no_equal_job_loses_workers_for_a_trial() -> None:
    lost = ((2, 577.0, 20), (4, 500.0, 20, 5, 1))
    c = running(2, throughput=lost, last_resize_at=LONG_AGO)
    c.running(2, {"a": 2}, workers=(1, 4), runtime=Runtime.ELASTIC, running_at=LONG_AGO, throughput=((2, 1.0),))
    assert c.plan().actions == ()


# Giving back


def test_a_job_that_lost_beyond_noise_gives_workers_back() -> None:
    c = running(4, throughput=((2, 577.0, 20), (4, 500.0, 20, 1)))
    (shrink,) = c.plan().actions
    assert isinstance(shrink, Shrink)
    assert (shrink.reason, len(shrink.workers), shrink.for_job) == (LeaveReason.NO_GAIN, 2, None)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"scatter": NOISY, "throughput": ((2, 577.0), (4, 500.0, 1, 1))}, "noise explains it"),
        ({"throughput": ((2, 577.0), (4, 577.0, 1, 1))}, "it lost nothing"),
        ({"throughput": ((2, 577.0), (4, 500.0, 1, 0))}, "its speed with these workers is not known"),
        ({"workers": (3, 4)}, "its minimum is more"),
        ({"preemptible": False}, "its workers are not to be touched"),
        ({"last_resize_at": NOW - 1.0}, "it cools down"),
        ({"resize_seconds": 1000.0, "fraction": 0.9, "whole_slot_seconds": 1000.0}, "it would not pay"),
        ({"time_limit_seconds": 1001.0, "started_at": LONG_AGO}, "its end is near"),
    ],
)
def test_it_keeps_its_size_where(fields: dict[str, Any], why: str) -> None:
    c = running(4, **{"throughput": ((2, 577.0), (4, 500.0, 1, 1)), **fields})
    assert c.plan().actions == (), why


def test_where_measured_gain_is_off_nothing_is_given_back() -> None:
    c = running(4, throughput=((2, 577.0), (4, 500.0, 1, 1)))
    c.settings = PolicySettings(measured_gain=False)
    assert c.plan().actions == ()


def test_the_fastest_of_the_smaller_sizes_is_chosen() -> None:
    job = job_of(running(4, throughput=((1, 300.0), (2, 400.0), (3, 400.0), (4, 200.0, 1, 1))))
    assert faster_size(job) == Faster(2, 2.0)
    assert faster_size(replace(job, min_workers=3)) == Faster(3, 2.0)
