"""What a failure costs: which ends of workers are one failure, and when a job has its retries back."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.clusters.simulated.process import Behaviour
from scheduler.config import EngineSettings, Settings
from scheduler.engine.tick import Step
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState
from tests.world import World

ELASTIC = Runtime.ELASTIC


@pytest.mark.parametrize("leader_dies", [False, True])
def test_workers_that_crash_at_one_moment_use_one_retry_however_far_apart_their_ends_are_seen(
    w: World, *, leader_dies: bool
) -> None:
    lags = {"a": 0.0, "b": 1.5, "c": 3.0, "d": 4.5}
    for node in lags:
        w.node(node, slots=1)
    job_id = w.job("j", workers=(1, 4), max_retries=1)
    w.settle()
    for node, lag in lags.items():
        w.cluster.see_late(w.node_name(node), lag)
    for worker in w.get(job_id).workers:
        w.cluster.crash(worker.id)
    if leader_dies:
        w.tick_until(Step.COMMITTED)
    w.settle()
    assert w.expect(job_id, JobState.RUNNING, workers=4).retries_used == 1


def test_one_that_fails_after_the_group_has_formed_anew_uses_another_retry(w: World) -> None:
    w.node("a", slots=4)
    job_id = w.job("j", workers=(1, 4), max_retries=5)
    w.settle()
    old = w.get(job_id).workers
    for number, worker in enumerate(old, start=1):
        w.cluster.crash(worker.id)
        w.advance(20)
        assert w.expect(job_id, JobState.RUNNING, workers=4).retries_used == number


def test_one_that_fails_as_the_group_grows_long_after_a_failure_uses_another_retry(w: World) -> None:
    w.node("a", slots=2)
    job_id = w.job("j", workers=(1, 3), max_retries=5)
    w.settle()
    first, second = w.get(job_id).workers
    w.cluster.crash(first.id)
    w.settle()
    w.node("b", slots=1)
    while w.get(job_id).published_size < 3:
        w.advance(0.05)
    behind = w.get(job_id).worker(second.id)
    assert behind is not None
    assert behind.reported_generation < w.get(job_id).generation
    w.cluster.crash(second.id)
    w.settle()
    assert w.get(job_id).retries_used == 2


def test_quick_restarts_that_fail_at_once_use_up_the_retries(tmp_path: Path) -> None:
    hasty = World(tmp_path, settings=Settings(state_dir=tmp_path, engine=EngineSettings(backoff_seconds=0.05)))
    hasty.node("a", slots=2)
    crashing = Behaviour(crash_after_seconds=0.02, crash_code=3)
    job_id = hasty.job("j", workers=2, max_retries=2, runtime=Runtime.COMMAND, behaviour=crashing)
    hasty.settle()
    assert hasty.expect(job_id, JobState.FAILED).attempt == 3
    hasty.close()


@pytest.fixture
def forgiving(tmp_path: Path) -> Iterator[World]:
    """Where a job has its retries back after 100 s without a failure."""
    world = World(tmp_path, settings=Settings(state_dir=tmp_path, engine=EngineSettings(failure_reset_seconds=100.0)))
    world.node("a", slots=1)
    yield world
    world.close()


def test_waiting_in_the_queue_gives_no_retries_back(forgiving: World) -> None:
    w = forgiving
    crashing = Behaviour(runtime=ELASTIC, crash_after_seconds=20.0)
    job_id = w.job("j", max_retries=1, preemptible=False, behaviour=crashing)
    w.advance(10)
    w.job("first", priority=5, behaviour=Behaviour(runtime=ELASTIC, work_seconds=150.0))
    w.advance(100)
    w.expect(job_id, JobState.QUEUED)
    w.advance(90)
    w.expect(job_id, JobState.FAILED)


def test_a_job_that_ran_long_without_a_failure_has_all_its_retries(forgiving: World) -> None:
    w = forgiving
    job_id = w.job("j", max_retries=1)
    w.settle()
    for _ in range(3):
        w.cluster.crash(w.get(job_id).workers[0].id)
        w.settle()
        assert w.expect(job_id, JobState.RUNNING).retries_used == 1
        w.advance(100)


def test_workers_that_keep_failing_one_soon_after_the_other_use_up_the_retries(w: World) -> None:
    w.node("a", slots=2)
    mute = Behaviour(runtime=ELASTIC, ready_seconds=None)
    job_id = w.job("j", workers=(1, 2), max_retries=1, behaviour=mute)
    w.advance(0.1)
    first, second = w.get(job_id).workers
    w.cluster.crash(first.id, exit_code=3)
    w.advance(0.6)
    w.cluster.behave(job_id, replace(mute, crash_after_seconds=0.3))
    w.cluster.crash(second.id, exit_code=3)
    w.settle()
    assert w.expect(job_id, JobState.FAILED).retries_used == 2
