"""Workloads that others published do better here than there. In virtual time, so that it is the same everywhere."""

from dataclasses import replace

import pytest

from benchmarks import elasticdl, kueue, paddle_edl
from benchmarks.virtual import LEAVE_SECONDS, all_done, longest_foreign_wait, longest_wait, mean_wait, percent_used
from scheduler.model.job_state import JobState
from scheduler.simulate.generate import Kueue
from scheduler.simulate.generate import kueue as kueue_workload
from scheduler.simulate.result import Result
from scheduler.simulate.speed import Linear

AT_ONCE = 1.0


@pytest.fixture(scope="module")
def elastic() -> Result:
    return paddle_edl.twenty_jobs("elastic")


@pytest.fixture(scope="module")
def rigid() -> Result:
    return paddle_edl.twenty_jobs("fifo")


@pytest.mark.slow
def test_two_jobs_that_do_not_fit_side_by_side_run_at_once_and_end_sooner_than_elasticdls() -> None:
    result = elasticdl.two_on_320_cpus("elastic")
    assert longest_wait(result, "second") <= AT_ONCE
    assert all_done(result) <= 1015.0


def test_two_jobs_on_six_gpus_end_sooner_than_elasticdls() -> None:
    result = elasticdl.two_on_6_gpus("elastic")
    assert longest_wait(result, "second") <= AT_ONCE
    assert all_done(result) <= 800.0


@pytest.mark.slow
def test_gangs_one_after_the_other_take_as_long_as_elasticdl_published() -> None:
    assert all_done(elasticdl.two_on_320_cpus("fifo")) == pytest.approx(1300.0, rel=0.01)
    assert all_done(elasticdl.two_on_6_gpus("fifo")) == pytest.approx(968.0, rel=0.01)


def test_training_uses_what_a_swinging_service_leaves_which_waits_as_long_as_workers_leave() -> None:
    result = elasticdl.beside_a_service()
    assert longest_foreign_wait(result) <= LEAVE_SECONDS + AT_ONCE
    assert percent_used(result, elasticdl.RECORD_SECONDS) >= 95.0


@pytest.mark.slow
def test_a_cluster_for_services_and_training_is_used_as_far_as_it_goes() -> None:
    result = paddle_edl.beside_nginx("elastic")
    assert longest_foreign_wait(result) <= LEAVE_SECONDS + AT_ONCE
    assert percent_used(result, paddle_edl.RECORD_SECONDS) >= 95.0


@pytest.mark.slow
def test_jobs_of_fixed_sizes_wait_as_long_as_paddle_edl_published(rigid: Result) -> None:
    assert mean_wait(rigid) == pytest.approx(280.5, rel=0.01)


@pytest.mark.slow
def test_twenty_elastic_jobs_use_more_than_twenty_of_fixed_sizes(elastic: Result, rigid: Result) -> None:
    assert percent_used(elastic, all_done(elastic)) >= percent_used(rigid, all_done(rigid))


@pytest.mark.slow
def test_twenty_elastic_jobs_wait_no_longer_than_paddle_edls(elastic: Result) -> None:
    assert mean_wait(elastic) <= 42.9


def test_many_short_workloads_are_done_soon_after_the_earliest_possible_moment() -> None:
    workload = kueue_workload(Kueue(workloads=50), Linear(), seed=0)
    bound = kueue.done_bound(workload.submissions)
    for jobs, queues, excess in (
        (kueue.pooled(workload), (), kueue.EXCESS_MAX),
        (workload.submissions, workload.queues, kueue.QUEUES_EXCESS_MAX),
    ):
        result = kueue.play(jobs, kueue.NODES, queues=queues)
        assert {each.state for each in result.jobs} == {JobState.SUCCEEDED}
        assert all_done(result) <= excess * bound


def test_a_queue_that_others_have_borrowed_from_gets_its_slots_back() -> None:
    """One queue has small workloads, the five others have more important ones."""
    every = kueue_workload(Kueue(cohorts=1, workloads=60), Linear(), seed=0)
    jobs = [
        each
        for each in every.submissions
        if (each.spec.queue == "cohort-1/queue-1") == each.spec.name.startswith("small")
    ]
    pooled = kueue.play(kueue.pooled(replace(every, submissions=tuple(jobs))), "1x120:cohort")
    queued = kueue.play(jobs, "1x120:cohort", queues=every.queues)
    assert mean_wait(queued, "small") < 0.01 < mean_wait(pooled, "small")
