"""What a worker is worth to an elastic job: examples by hand."""

import math
from dataclasses import replace
from typing import Any

import pytest

from scheduler.config import PolicySettings
from scheduler.model.ids import JobId
from scheduler.model.job import Job, Runtime
from scheduler.model.speed import UNMEASURED_EXPONENT
from scheduler.policy.estimate.marginal_gain import MarginalGain
from tests.policy.worlds import LONG_AGO, NOW, Cluster

#: Jobs of this much work have weight 1/100.
CLASS_SLOT_SECONDS = 40_000.0
SETTINGS = PolicySettings(service_class_slot_seconds=CLASS_SLOT_SECONDS)
RAN = NOW - LONG_AGO


def running(size: int, **fields: Any) -> Job:
    fields = {"workers": (1, 16), "runtime": Runtime.ELASTIC, "running_at": LONG_AGO, **fields}
    return Cluster().node("a", 64).running(1, {"a": size}, **fields).jobs[JobId(1)]


def marginal_gain(job: Job, now: float = NOW) -> MarginalGain:
    return MarginalGain(job, now, SETTINGS)


def gains(job: Job, *sizes: int) -> list[float]:
    """Speed that one more worker adds at these sizes, against one worker's, where a weight of 1/100 is left out."""
    return [pytest.approx(marginal_gain(job).of_next(size) * 100) for size in sizes]


# Speed


def test_without_figures_speed_is_a_power_of_the_size() -> None:
    expected = [(n + 1) ** UNMEASURED_EXPONENT - n**UNMEASURED_EXPONENT for n in (0, 1, 7)]
    assert gains(running(2), 0, 1, 7) == expected


def test_between_measured_sizes_it_runs_straight() -> None:
    assert gains(running(4, throughput=((1, 10.0), (4, 25.0))), 0, 1, 2, 3) == [1.0, 0.5, 0.5, 0.5]


def test_beyond_the_largest_it_goes_on_as_between_the_last_two() -> None:
    job = running(4, throughput=((1, 10.0), (4, 20.0)))
    assert gains(job, 4, 7) == [math.sqrt(5) - 2, math.sqrt(8) - math.sqrt(7)]


def test_beyond_the_largest_it_is_never_taken_to_be_better_than_unmeasured() -> None:
    job = running(2, throughput=((1, 10.0), (2, 20.0)))
    assert gains(job, 2) == [2 * (1.5**UNMEASURED_EXPONENT - 1)]


def test_what_was_declared_beyond_the_measured_sizes_is_brought_to_scale() -> None:
    job = running(2, throughput=((1, 100.0), (2, 150.0)), speedup=((1, 1.0), (2, 2.0), (4, 3.0)))
    assert gains(job, 1, 2, 3) == [0.5, 0.375, 0.375]


def test_declared_speed_serves_until_something_was_measured() -> None:
    assert gains(running(1, speedup=((1, 2.0), (3, 4.0))), 1, 2) == [0.5, 0.5]


def test_a_step_that_comes_late_counts_for_all_workers_before_it() -> None:
    """1, 1, 1, 4: three workers more bring three times as much together, and none of them anything alone."""
    assert gains(running(4, throughput=((1, 10.0), (3, 10.0), (4, 40.0))), 0, 1, 2, 3) == [1.0, 1.0, 1.0, 1.0]
    assert gains(running(1, workers=(1, 3), throughput=((1, 10.0), (2, 12.0), (3, 18.0))), 1, 2) == [0.4, 0.4]


def test_a_worker_that_slows_the_job_is_worth_nothing() -> None:
    job = running(3, throughput=((1, 10.0), (2, 15.0), (3, 12.0)))
    assert gains(job, 1, 2, 3) == [0.5, 0.0, 0.0]
    assert marginal_gain(job).of_last(3) == 0.0
    assert marginal_gain(job).of_last(2) == marginal_gain(job).of_next(1)


def test_large_jobs_are_looked_at_in_strides() -> None:
    job = running(1, workers=(1, 1000), speedup=((1, 1.0), (500, 500.0)))
    assert gains(job, 63, 64, 400) == [1.0] * 3
    assert marginal_gain(job).of_next(999) > 0.0
    assert marginal_gain(job).of_next(1000) == 0.0


def test_a_worker_of_several_slots_is_worth_less_per_slot() -> None:
    one, two = (
        marginal_gain(running(2, slots_per_worker=n, fraction=0.5, whole_slot_seconds=n * 4 * RAN)) for n in (1, 2)
    )
    assert two.of_next(1) == pytest.approx(one.of_next(1) / 2 / math.sqrt(2))


# The largest size worth trying


def test_a_job_that_never_reported_stays_small_for_a_moment() -> None:
    job = running(2, running_at=NOW - 10)
    early = marginal_gain(job)
    assert (early.cap, early.widens_at, early.changes_at) == (4, NOW + 20, NOW + 20)
    assert early.of_next(3) > 0.0
    assert early.of_next(4) == 0.0
    late = marginal_gain(job, NOW + 20)
    assert (late.cap, late.widens_at) == (16, math.inf)


@pytest.mark.parametrize(
    ("fields", "cap"),
    [
        ({"workers": (6, 16)}, 6),
        ({"preferred_workers": 8}, 8),
        ({"workers": (1, 3)}, 3),
        ({"runtime": Runtime.COMMAND}, 16),
        ({"speedup": ((1, 1.0), (5, 4.0))}, 10),
    ],
)
def test_it_is_let_have_what_was_asked_for_it(fields: dict[str, Any], cap: int) -> None:
    assert marginal_gain(running(1, running_at=NOW, **fields)).cap == cap


def test_its_present_size_is_never_too_large() -> None:
    assert marginal_gain(running(7, running_at=NOW)).cap == 7
    assert marginal_gain(running(7, throughput=((1, 10.0),))).cap == 7


def test_a_job_that_does_not_run_yet_waits_for_nothing() -> None:
    assert marginal_gain(running(2, running_at=None)).widens_at == math.inf


def test_twice_the_largest_measured_size_is_tried() -> None:
    assert marginal_gain(running(2, throughput=((1, 10.0), (3, 30.0)))).cap == 6
    assert marginal_gain(running(2, throughput=((9, 10.0),))).cap == 16


def test_a_preferred_size_is_tried_in_one_step() -> None:
    """Each step on the way would cost a resize."""
    assert marginal_gain(running(1, throughput=((1, 10.0),), preferred_workers=8)).cap == 8
    assert marginal_gain(running(8, throughput=((1, 10.0), (8, 60.0)), preferred_workers=8)).cap == 16
    assert marginal_gain(running(1, workers=(1, 6), throughput=((1, 10.0),), preferred_workers=8)).cap == 6


def test_a_larger_size_that_lost_is_tried_again_with_idle_slots_after_a_while() -> None:
    points = ((1, 10.0), (2, 20.0), (4, 20.0))
    job = replace(running(2, throughput=points), last_resize_at=NOW)
    fresh, later = marginal_gain(job), marginal_gain(job, NOW + SETTINGS.retry_seconds)
    assert fresh.widens_at == NOW + SETTINGS.retry_seconds
    assert not fresh.wants_idle(2)
    assert later.wants_idle(2)
    assert later.of_next(2) == 0.0, "no equal job loses a worker for a trial"


def test_each_loss_doubles_the_time_until_a_size_is_tried_again() -> None:
    for losses, times in ((0, 1), (1, 1), (2, 2), (3, 4), (4, 8)):
        lost = ((1, 10.0), (2, 20.0), (4, 15.0, 9, 3, losses))
        job = replace(running(2, throughput=lost), last_resize_at=NOW)
        assert marginal_gain(job).widens_at == NOW + times * SETTINGS.retry_seconds


def test_what_was_measured_at_larger_sizes_is_forgotten_after_a_while() -> None:
    job = replace(running(2, throughput=((1, 10.0), (2, 20.0), (4, 22.0))), last_resize_at=NOW)
    fresh, later = marginal_gain(job), marginal_gain(job, NOW + SETTINGS.remeasure_seconds)
    assert fresh.widens_at == NOW + SETTINGS.remeasure_seconds
    assert gains(job, 2) == [0.1]
    assert later.of_next(2) > fresh.of_next(2)
    assert later.widens_at == math.inf
    assert marginal_gain(replace(job, last_resize_at=None)).widens_at == math.inf


# What is left


def test_what_is_left_follows_from_the_share_that_is_done() -> None:
    job = running(2, fraction=0.25, whole_slot_seconds=4000.0)
    assert marginal_gain(job).remaining == 3000.0
    assert marginal_gain(job, NOW + 500).remaining == 3000.0, "until it reports again"


def test_nobody_is_nearer_to_its_end_than_a_minute() -> None:
    assert marginal_gain(running(2, slots_per_worker=2, fraction=1.0, whole_slot_seconds=4000.0)).remaining == 120.0


def test_a_share_that_is_too_small_says_nothing() -> None:
    assert marginal_gain(running(1, fraction=0.004, whole_slot_seconds=4000.0)).remaining == CLASS_SLOT_SECONDS / 4


def test_what_is_left_follows_from_the_declared_duration() -> None:
    job = running(2, preferred_workers=4, expected_seconds=1000.0, speedup=((1, 1.0), (4, 4.0)))
    assert marginal_gain(job).remaining == 4000.0, "it has not told of anything since it ran"
    reported = replace(job, progress=replace(job.progress, reported_at=NOW))
    assert marginal_gain(reported).remaining == 4000.0 - 2 * RAN
    assert marginal_gain(reported).changes_at == math.inf


def test_else_a_job_needs_about_as_much_again_as_it_has_had() -> None:
    job = running(2)
    assert marginal_gain(job).remaining == CLASS_SLOT_SECONDS / 4
    up_at = NOW + (CLASS_SLOT_SECONDS - 2 * RAN) / 2
    assert marginal_gain(job).changes_at == up_at
    assert marginal_gain(job).widens_at == math.inf
    assert marginal_gain(job, up_at).remaining == CLASS_SLOT_SECONDS
    assert marginal_gain(job, up_at).changes_at == up_at + 3 * CLASS_SLOT_SECONDS / 2


def test_who_has_less_left_is_worth_more_by_its_square_root() -> None:
    near, far = (marginal_gain(running(1, fraction=f, whole_slot_seconds=RAN / f)) for f in (0.5, 0.1))
    assert near.of_next(1) == pytest.approx(3 * far.of_next(1))


def test_seconds_saved_by_growing_as_far_as_that_serves() -> None:
    job = running(1, workers=(1, 4), throughput=((1, 10.0), (4, 40.0)), fraction=0.5, whole_slot_seconds=2 * RAN)
    assert marginal_gain(job).seconds_saved(1) == pytest.approx(RAN - RAN / 4)
    assert marginal_gain(job).seconds_saved(2) == pytest.approx(RAN / 2 - RAN / 4)
    assert marginal_gain(job).seconds_saved(4) == 0.0
