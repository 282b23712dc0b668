"""A database that is locked or full stops decisions with a clear line; then they go on and nothing is lost."""

import sqlite3
from pathlib import Path

import pytest

from scheduler.model.job_state import JobState
from tests.full_disk import files_limited
from tests.world import World


def test_a_locked_database_stops_deciding_and_harms_nobody(w: World, tmp_path: Path) -> None:
    w.node("a", slots=2)
    first = w.job("first", workers=(1, 2))
    w.settle()
    second = w.job("second", priority=5, workers=1)
    other = sqlite3.connect(tmp_path / "world.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    w.clock.advance(8)  # far enough for the lease to want its renewal
    report = w.engine.tick()
    assert report.error is not None
    assert "locked" in report.error
    alive_during = len(w.cluster.alive())
    other.execute("ROLLBACK")
    other.close()
    assert alive_during == 2
    w.settle()
    w.expect(first, JobState.RUNNING, workers=1)
    w.expect(second, JobState.RUNNING, workers=1)


def test_a_full_disk_stops_deciding_and_nothing_half_written_remains(w: World) -> None:
    w.node("a", slots=4)
    w.settle()
    jobs = [w.job(f"j{i}", workers=1) for i in range(4)]
    with files_limited(1):
        report = w.engine.tick()
    assert report.error is not None
    assert "world.db" in report.error
    assert not w.cluster.alive(), "nothing is started that is not stored"
    w.settle()
    for job_id in jobs:
        w.expect(job_id, JobState.RUNNING, workers=1)


def test_a_deposed_engine_stops_deciding(w: World) -> None:
    w.node("a", slots=2)
    job_id = w.job("j", workers=1)
    w.settle()
    old = w.engine
    w.kill_engine()
    w.tick()
    assert w.engine.lease is not None
    w.job("later", workers=1)
    report = old.tick()
    assert report.error is not None
    assert old.lease is None
    assert old.tick().following
    w.settle()
    w.expect(job_id, JobState.RUNNING, workers=1)


@pytest.mark.parametrize("failures", [1, 3])
def test_a_cluster_that_does_not_answer_is_asked_again(w: World, failures: int) -> None:
    w.node("a", slots=1)
    job_id = w.job("j")
    w.cluster.observe_failures = failures
    assert "does not answer" in (w.tick().error or "")
    w.settle()
    w.expect(job_id, JobState.RUNNING, workers=1)
