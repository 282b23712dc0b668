"""Work on the simulated cluster: nothing of it is lost or done twice, and pauses hold up the whole job."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.clusters.simulated.process import Behaviour
from scheduler.clusters.simulated.work import JobProgress, Pace, WorkerSeconds
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState
from tests.world import World


@dataclass(frozen=True)
class Stairs:
    """Work that goes twice as fast from each unit to the next one, for each worker."""

    total: float = 4.0

    def pace(self, members: tuple[int, ...], done: float) -> Pace:
        return Pace(sum(members) * 2.0 ** int(done), int(done) + 1.0)


def go(job_progress: JobProgress, now: float, until: float) -> None:
    """Let time pass, looking again whenever a pace ends."""
    while job_progress.due is not None and job_progress.due <= until:
        assert job_progress.due >= now
        assert job_progress.go_on(job_progress.due)
    job_progress.count(until)


CHANGES = st.lists(st.tuples(st.floats(0.0, 50.0), st.lists(st.integers(1, 4), max_size=3).map(tuple)), max_size=20)


@given(CHANGES)
def test_what_is_done_is_the_sum_of_what_each_membership_did(changes: list[tuple[float, tuple[int, ...]]]) -> None:
    job_progress, now, expected = JobProgress(WorkerSeconds(400.0), 0.0), 0.0, 0.0
    for seconds, members in changes:
        job_progress.set_members(members, 1.0, now)
        go(job_progress, now, now + seconds)
        now += seconds
        expected = min(expected + seconds * sum(members), 400.0)
        assert job_progress.done == pytest.approx(expected)
        assert (job_progress.finished_at is not None) == (job_progress.done >= 400.0)


def test_the_pace_follows_the_work_itself() -> None:
    job_progress = JobProgress(Stairs(), 0.0)
    job_progress.set_members((1,), 1.0, 0.0)
    go(job_progress, 0.0, 100.0)
    assert job_progress.finished_at == pytest.approx(1.0 + 1 / 2 + 1 / 4 + 1 / 8)


def test_workers_that_share_their_slots_are_slower() -> None:
    job_progress = JobProgress(WorkerSeconds(10.0), 0.0)
    job_progress.set_members((2,), 0.5, 0.0)
    go(job_progress, 0.0, 100.0)
    assert job_progress.finished_at == pytest.approx(10.0)


def test_when_a_member_is_lost_nobody_works_until_the_group_has_formed_again(tmp_path: Path) -> None:
    w = World(tmp_path)
    try:
        w.node("a", slots=2)
        behaviour = Behaviour(Runtime.ELASTIC, 0.0, 0.0, form_seconds=20.0, pause_to_form=True, work_seconds=200.0)
        job_id = w.job("j", workers=(1, 2), behaviour=behaviour)
        w.advance(50.0)
        job = w.expect(job_id, JobState.RUNNING, workers=2)
        job_progress = w.cluster.job_progress(job_id)
        assert job_progress is not None
        job_progress.count(w.clock.now())
        before = job_progress.done
        assert before == pytest.approx(2 * 30.0, abs=0.5)
        w.cluster.crash(job.workers[0].id, 1)
        w.advance(15.0)
        job_progress.count(w.clock.now())
        assert job_progress.done == before
        w.advance(300.0)
        w.expect(job_id, JobState.SUCCEEDED)
    finally:
        w.close()
