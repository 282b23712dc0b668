"""Checkpoints that workers tell of: kept over attempts and restarts of the daemon, and what they save is not lost."""

import pytest

from scheduler.clusters.simulated.process import Behaviour
from scheduler.model.event import EventKind
from scheduler.model.ids import JobId
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState
from scheduler.model.observation import WorkerReport
from tests.world import World

NEVER = 1e9
#: Only what a test reports by hand is told.
SILENT = Behaviour(runtime=Runtime.TORCHRUN, heartbeat_seconds=None, checkpoint_seconds=NEVER)
#: How much later than it happens progress is stored.
LAG_SECONDS = 6.0


def torchrun(w: World, name: str, behaviour: Behaviour, **fields: object) -> JobId:
    return w.job(name, runtime=Runtime.TORCHRUN, behaviour=behaviour, **fields)


def every(seconds: float) -> Behaviour:
    """Workers whose job writes a checkpoint so often, and first when it begins."""
    return Behaviour(runtime=Runtime.TORCHRUN, checkpoint_seconds=seconds)


def saved_at(w: World, job_id: JobId) -> float:
    moment = w.get(job_id).progress.last_checkpoint_at
    assert moment is not None
    return moment


def report(w: World, job_id: JobId, rank: int, checkpoint_at: float | None) -> None:
    """The worker of this rank says that it has seen a checkpoint of this moment."""
    job, now = w.get(job_id), w.clock.now()
    worker = job.members[rank]
    w.reports.put(WorkerReport(worker.id, job_id, now, job.generation, ready=True, last_checkpoint_at=checkpoint_at))


def lost(w: World, job_id: JobId) -> float:
    """Slot-seconds that its last stop is said to have lost."""
    amounts = [event.amount for event in w.events(EventKind.JOB_STOPPING) if event.job_id == job_id]
    assert amounts[-1] is not None
    return amounts[-1]


@pytest.mark.parametrize("runtime", [Runtime.TORCHRUN, Runtime.HOROVOD])
def test_workers_that_watch_for_checkpoints_tell_of_them_and_of_no_commits(w: World, runtime: Runtime) -> None:
    w.node("a", slots=1)
    job_id = w.job("job", runtime=runtime, behaviour=Behaviour(runtime=runtime, checkpoint_seconds=40.0))
    w.advance(100.0)
    progress = w.expect(job_id, JobState.RUNNING).progress
    assert progress.last_commit_at is None
    assert progress.last_checkpoint_at is not None
    assert 0.0 < w.clock.now() - progress.last_checkpoint_at <= 40.0 + LAG_SECONDS


def test_what_a_stop_loses_counts_from_the_checkpoint(w: World) -> None:
    w.node("a", slots=2)
    low = torchrun(w, "low", every(60.0), workers=2)
    w.advance(200.0)
    unsaved_seconds = w.clock.now() - saved_at(w, low)
    w.job("high", priority=5, workers=2)
    w.tick()
    assert lost(w, low) == pytest.approx(2 * unsaved_seconds)
    assert lost(w, low) <= 2 * (60.0 + LAG_SECONDS)


def test_a_restart_of_the_daemon_keeps_when_the_checkpoint_was_written(w: World) -> None:
    w.node("a", slots=1)
    job_id = torchrun(w, "job", SILENT)
    w.advance(20.0)
    written_at = w.clock.now() - 3.0
    report(w, job_id, 0, written_at)
    w.advance(LAG_SECONDS)
    assert saved_at(w, job_id) == written_at
    w.kill_engine()
    w.advance(30.0)
    assert saved_at(w, job_id) == written_at
    assert w.get(job_id).unsaved_since == written_at


def test_a_checkpoint_of_an_earlier_attempt_saves_nothing_of_a_later_one(w: World) -> None:
    w.node("a", slots=1)
    job_id = torchrun(w, "job", SILENT)
    w.advance(20.0)
    report(w, job_id, 0, w.clock.now())
    w.advance(50.0)
    high = w.job("high", priority=5)
    w.advance(5.0)
    w.expect(job_id, JobState.QUEUED)
    assert 50.0 <= lost(w, job_id) < 60.0
    w.ask_cancel(high)
    w.advance(500.0)
    job = w.expect(job_id, JobState.RUNNING)
    assert job.attempt == 2
    assert job.started_at is not None
    assert saved_at(w, job_id) < job.started_at
    assert job.unsaved_since == job.started_at
    w.job("higher", priority=9)
    w.tick()
    assert lost(w, job_id) == pytest.approx(w.clock.now() - job.started_at)


def test_whichever_worker_sees_a_checkpoint_tells_of_it_and_none_makes_it_older(w: World) -> None:
    w.node("a", slots=2)
    job_id = torchrun(w, "job", SILENT, workers=2)
    w.advance(20.0)
    written_at = w.clock.now()
    report(w, job_id, 1, written_at)
    report(w, job_id, 0, None)
    w.advance(LAG_SECONDS)
    report(w, job_id, 0, None)
    w.tick()
    assert saved_at(w, job_id) == written_at
    report(w, job_id, 1, written_at - 10.0)
    for _ in range(3):
        w.clock.advance(LAG_SECONDS)
        report(w, job_id, 0, written_at - 10.0)
        w.tick()
    assert saved_at(w, job_id) == written_at


def test_the_job_that_wrote_its_checkpoint_last_is_stopped(w: World) -> None:
    w.node("a", slots=2)
    saves = torchrun(w, "saves", every(10.0))
    does_not = torchrun(w, "does not", every(NEVER))
    w.advance(300.0)
    w.job("high", priority=5)
    w.advance(10.0)
    w.expect(saves, JobState.QUEUED)
    w.expect(does_not, JobState.RUNNING)
