"""Runs whose outcome is known beforehand."""

import pytest

from scheduler.config import PolicySettings, Settings
from scheduler.errors import UserError
from scheduler.model.job_state import JobState
from scheduler.simulate.generate import Poisson, poisson
from scheduler.simulate.nodes import read_nodes
from scheduler.simulate.run import Setup, simulate
from scheduler.simulate.speed import Amdahl, Linear
from scheduler.simulate.workload import Workload
from tests.simulate.runs import PROTOCOL_SECONDS, job, run


def close(seconds: float) -> object:
    """Equal to `seconds`, up to the ticks of the protocol."""
    return pytest.approx(seconds, abs=PROTOCOL_SECONDS)


def test_one_linear_job_takes_its_pause_and_its_share_of_the_work() -> None:
    result = run(job("a", work=400.0, workers=(1, 4), resize_seconds=30.0))
    assert result.jobs[0].state is JobState.SUCCEEDED
    assert result.jobs[0].completion_seconds == close(30.0 + 400.0 / 4)
    assert result.jobs[0].resizes == 0


def test_a_curve_decides_what_more_workers_bring() -> None:
    result = run(job("a", work=400.0, workers=(4, 4), speedup=Amdahl(0.25)))
    assert result.jobs[0].completion_seconds == close(400.0 * (0.25 + 0.75 / 4))


def test_a_job_stands_still_while_it_grows() -> None:
    # b holds half of the slots until 100 s; then a pauses once more and works on with all of them
    settings = Settings(policy=PolicySettings(grow_payback_factor=0.0))
    short = job("b", work=200.0, workers=(2, 2), priority=1)
    long = job("a", work=1000.0, workers=(2, 4), resize_seconds=20.0)
    result = run(short, long, settings=settings)
    done_before = 2 * (100.0 - 20.0)
    assert result.jobs[1].resizes == 1
    assert result.jobs[1].completion_seconds == close(100.0 + 20.0 + (1000.0 - done_before) / 4)


def test_a_more_important_job_shrinks_another_which_pauses_for_it() -> None:
    low = job("low", work=1000.0, workers=(1, 4), resize_seconds=10.0)
    high = job("high", 50.0, work=1000.0, workers=(2, 2), priority=5)
    result = run(low, high)
    assert result.jobs[1].waiting_seconds == close(0.0)
    assert result.jobs[1].completion_seconds == close(500.0)
    assert result.jobs[0].preemptions == 1
    done_before = 4 * (50.0 - 10.0)
    assert result.jobs[0].completion_seconds == close(50.0 + 10.0 + (1000.0 - done_before) / 2)


def test_in_rounds_nothing_is_decided_between_two_of_them() -> None:
    result = run(job("a", 1.0, work=400.0, workers=(4, 4), resize_seconds=30.0), every_seconds=60.0)
    assert result.jobs[0].waiting_seconds == close(59.0)
    assert result.jobs[0].finished_at == close(60.0 + 30.0 + 100.0)
    assert result.held[-1].at == close(240.0)  # the scheduler sees the end at the next round


def test_a_job_that_can_never_start_ends_the_run_and_stays_queued() -> None:
    result = run(job("a", work=10.0), job("huge", workers=(5, 5)))
    assert [each.state for each in result.jobs] == [JobState.SUCCEEDED, JobState.QUEUED]
    assert result.jobs[1].waiting_seconds is None


def test_the_same_seed_gives_the_same_result_and_another_one_does_not() -> None:
    def once(seed: int) -> object:
        workload = poisson(Poisson(jobs=30, resize_seconds=5.0, priorities=(0, 1)), Linear(), seed)
        return simulate(workload, Setup(read_nodes("2x4", "--nodes"), Settings()))

    assert once(1) == once(1)
    assert once(1) != once(2)


def test_linear_jobs_without_pauses_hold_exactly_the_slots_that_their_work_needs() -> None:
    workload = poisson(Poisson(jobs=40, priorities=(0, 1)), Linear(), seed=3)
    result = simulate(workload, Setup(read_nodes("2x4", "--nodes"), Settings()))
    for submission, each in zip(workload.submissions, result.jobs, strict=True):
        assert each.state is JobState.SUCCEEDED
        assert each.slot_seconds == pytest.approx(submission.work.total, abs=8 * PROTOCOL_SECONDS * (each.resizes + 1))


def test_speeds_that_were_measured_on_small_nodes_are_not_used_on_large_ones() -> None:
    workload = Workload.of("measured", [job("a")], node_slots_max=4)
    with pytest.raises(UserError, match="nodes of at most 4 slots, not of 8"):
        simulate(workload, Setup(read_nodes("1x8", "--nodes"), Settings()))
