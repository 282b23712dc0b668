"""Workers that hang: those that fall silent or never get ready, and silence that is no hang."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scheduler.clusters.simulated.process import Behaviour
from scheduler.config import EngineSettings, Settings
from scheduler.engine.absorb.dirty_jobs import DirtyJobs
from scheduler.engine.state.reports import Liveness
from scheduler.errors import StoreUnavailable
from scheduler.model.event import EventKind
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState
from scheduler.model.observation import Observation
from tests.world import World

ELASTIC = Runtime.ELASTIC


def test_a_hung_worker_is_killed_and_replaced(w: World) -> None:
    w.node("a", slots=2)
    job_id = w.job("j", workers=(1, 2), heartbeat_seconds=10.0)
    w.settle()
    hung = w.get(job_id).workers[1].id
    w.cluster.hang(hung)
    w.settle()
    job = w.expect(job_id, JobState.RUNNING, workers=2)
    assert hung not in {worker.id for worker in job.workers}
    assert [(e.cause, e.detail) for e in w.events(EventKind.WORKER_ENDED)] == [("HUNG", "it sent no report for 10 s")]
    assert job.retries_used == 1


@pytest.fixture
def watchful(tmp_path: Path) -> Iterator[World]:
    """Where workers that report and fall silent are found after 30 s, unless their job says otherwise."""
    world = World(tmp_path, settings=Settings(state_dir=tmp_path, engine=EngineSettings(heartbeat_seconds=30.0)))
    world.node("a", slots=4)
    yield world
    world.close()


@pytest.mark.parametrize("runtime", [Runtime.ELASTIC, Runtime.TORCHRUN, Runtime.HOROVOD])
def test_a_lone_worker_that_falls_silent_is_found_without_being_asked_for(watchful: World, runtime: Runtime) -> None:
    w = watchful
    job_id = w.job("j", workers=1, runtime=runtime, behaviour=Behaviour(runtime=runtime))
    w.advance(100)
    hung = w.expect(job_id, JobState.RUNNING).workers[0].id
    w.cluster.hang(hung)
    w.advance(29)
    assert w.expect(job_id, JobState.RUNNING).workers[0].id == hung
    w.settle()
    assert w.expect(job_id, JobState.RUNNING, workers=1).workers[0].id != hung
    assert [(e.cause, e.detail) for e in w.events(EventKind.WORKER_ENDED)] == [("HUNG", "it sent no report for 30 s")]


def test_one_that_fell_silent_before_the_daemon_started_anew_is_found(watchful: World) -> None:
    w = watchful
    job_id = w.job("j", workers=1)
    w.settle()
    hung = w.get(job_id).workers[0].id
    w.cluster.hang(hung)
    w.kill_engine()
    w.settle(60)
    assert w.expect(job_id, JobState.RUNNING, workers=1).workers[0].id != hung


@pytest.mark.parametrize("job", [{"heartbeat_seconds": 0.0}, {"runtime": Runtime.COMMAND}])
def test_one_whose_job_is_not_watched_or_does_not_report_is_left_alone(watchful: World, job: dict[str, Any]) -> None:
    w = watchful
    job_id = w.job("j", workers=1, **job)
    w.settle()
    w.cluster.hang(w.get(job_id).workers[0].id)
    w.settle(200)
    assert not w.events(EventKind.WORKER_ENDED)


def test_the_settings_switch_it_off(tmp_path: Path) -> None:
    w = World(tmp_path, settings=Settings(state_dir=tmp_path, engine=EngineSettings(heartbeat_seconds=0.0)))
    w.node("a", slots=1)
    job_id = w.job("j", workers=1)
    w.settle()
    w.cluster.hang(w.get(job_id).workers[0].id)
    w.clock.advance(EngineSettings().heartbeat_seconds * 2)
    w.settle()
    assert not w.events(EventKind.WORKER_ENDED)
    w.close()


def test_a_job_whose_workers_report_is_looked_at_no_more_often_than_their_silence_could_matter(tmp_path: Path) -> None:
    timing = EngineSettings(heartbeat_seconds=30.0, progress_interval_seconds=1e6)
    w = World(tmp_path, settings=Settings(state_dir=tmp_path, engine=timing))
    w.node("a", slots=1)
    job_id = w.job("j", workers=1, behaviour=Behaviour(runtime=ELASTIC, heartbeat_seconds=5.0))
    w.settle()
    dirty_jobs = DirtyJobs(w.settings.engine, liveness := Liveness(w.reports))
    liveness.since = w.clock.now()
    looked = 0
    for _ in range(120):
        w.clock.advance(1.0)
        w.tick()
        world = w.engine.world
        assert world is not None
        observation = replace(w.cluster.observe(), reports={})
        looked += len(dirty_jobs.focus(world, observation, w.clock.now()).jobs)
        dirty_jobs.absorbed(observation)
        assert not dirty_jobs.unsettled(world)
    assert looked == 1, "at first"
    w.expect(job_id, JobState.RUNNING, workers=1)
    w.close()


def test_silence_while_the_daemon_stood_still_is_no_hang(w: World) -> None:
    w.node("a", slots=2)
    job_id = w.job("j", workers=(1, 2), heartbeat_seconds=10.0)
    w.settle()
    w.stand_still(30)
    w.settle()
    assert w.expect(job_id, JobState.RUNNING, workers=2).retries_used == 0
    assert not w.events(EventKind.WORKER_ENDED)


@pytest.mark.parametrize("away_seconds", [0.5, 20.0])
def test_a_store_that_fails_now_and_then_hides_no_hang_unless_it_is_away_for_long(
    watchful: World, away_seconds: float
) -> None:
    """Where it was away, workers that tell it about their data could not do so."""
    w = watchful
    job_id = w.job("j", workers=1)
    w.settle()
    w.cluster.hang(w.get(job_id).workers[0].id)
    commit = w.store.commit

    def fails(*arguments: object) -> None:
        raise StoreUnavailable("the disk is full")

    for n in range(4):
        w.job(f"one that is to be stored {n}", priority=-1)
        w.store.commit = fails  # type: ignore[method-assign]
        assert w.tick().error
        w.clock.advance(away_seconds)
        assert w.tick().error
        w.store.commit = commit  # type: ignore[method-assign]
        w.advance(10.0)
    assert bool(w.get(job_id).retries_used) is (away_seconds < 1)


@pytest.mark.parametrize("ready_seconds", [2.0, None])
def test_hung_workers_are_found_though_every_tick_takes_long(watchful: World, ready_seconds: float | None) -> None:
    w = watchful
    job_id = w.job("j", workers=1, behaviour=Behaviour(runtime=ELASTIC, ready_seconds=ready_seconds))
    w.advance(10)
    w.cluster.hang(w.get(job_id).workers[0].id)
    observe = w.cluster.observe

    def slowly() -> Observation:
        for _ in range(5):
            w.clock.advance(1)
            w.engine.keep_lease()
        return observe()

    w.cluster.observe = slowly  # type: ignore[method-assign]
    until = w.clock.now() + w.settings.engine.ready_seconds + 200
    while w.clock.now() < until:
        w.tick()
        w.clock.advance(0.1)
    assert w.get(job_id).retries_used > 0
    assert w.events(EventKind.WORKER_ENDED)[0].cause == "HUNG"


def test_a_worker_that_got_ready_while_no_daemon_was_there_is_no_hang(w: World) -> None:
    w.node("a", slots=1)
    job_id = w.job("j", behaviour=Behaviour(runtime=ELASTIC, ready_seconds=5.0))
    w.advance(2)
    w.kill_engine()
    w.stand_still(w.settings.engine.ready_seconds)
    w.settle()
    assert w.expect(job_id, JobState.RUNNING, workers=1).retries_used == 0


def test_an_elastic_worker_that_never_gets_ready_is_killed_and_the_job_fails_in_the_end(w: World) -> None:
    w.node("a", slots=1)
    mute = Behaviour(runtime=ELASTIC, ready_seconds=None)
    job_id = w.job("j", max_retries=0, behaviour=mute)
    w.advance(w.settings.engine.ready_seconds + 10)
    job = w.expect(job_id, JobState.FAILED)
    assert "HUNG" in job.detail
    assert "it did not report ready within" in job.detail
