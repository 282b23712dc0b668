"""Work on the simulated cluster: nothing of it is lost or done twice, and pauses hold up the whole job."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.clusters.simulated.process import Behaviour
from scheduler.clusters.simulated.work import Labour, Pace, WorkerSeconds
from scheduler.model.job import JobState, Runtime
from tests.world import World


@dataclass(frozen=True)
class Stairs:
    """Work that goes twice as fast from each unit to the next one, for each worker."""

    total: float = 4.0

    def pace(self, members: tuple[int, ...], done: float) -> Pace:
        return Pace(sum(members) * 2.0 ** int(done), int(done) + 1.0)


def go(labour: Labour, now: float, until: float) -> None:
    """Let time pass, looking again whenever a pace ends."""
    while labour.due is not None and labour.due <= until:
        assert labour.due >= now
        assert labour.go_on(labour.due)
    labour.count(until)


CHANGES = st.lists(st.tuples(st.floats(0.0, 50.0), st.lists(st.integers(1, 4), max_size=3).map(tuple)), max_size=20)


@given(CHANGES)
def test_what_is_done_is_the_sum_of_what_each_membership_did(changes: list[tuple[float, tuple[int, ...]]]) -> None:
    labour, now, expected = Labour(WorkerSeconds(400.0), 0.0), 0.0, 0.0
    for seconds, members in changes:
        labour.set_members(members, 1.0, now)
        go(labour, now, now + seconds)
        now += seconds
        expected = min(expected + seconds * sum(members), 400.0)
        assert labour.done == pytest.approx(expected)
        assert (labour.finished_at is not None) == (labour.done >= 400.0)


def test_the_pace_follows_the_work_itself() -> None:
    labour = Labour(Stairs(), 0.0)
    labour.set_members((1,), 1.0, 0.0)
    go(labour, 0.0, 100.0)
    assert labour.finished_at == pytest.approx(1.0 + 1 / 2 + 1 / 4 + 1 / 8)


def test_workers_that_share_their_slots_are_slower() -> None:
    labour = Labour(WorkerSeconds(10.0), 0.0)
    labour.set_members((2,), 0.5, 0.0)
    go(labour, 0.0, 100.0)
    assert labour.finished_at == pytest.approx(10.0)


def test_when_a_member_is_lost_nobody_works_until_the_group_has_formed_again(tmp_path: Path) -> None:
    w = World(tmp_path)
    try:
        w.node("a", slots=2)
        behaviour = Behaviour(Runtime.ELASTIC, 0.0, 0.0, form_seconds=20.0, pause_to_form=True, work_seconds=200.0)
        job_id = w.job("j", workers=(1, 2), behaviour=behaviour)
        w.advance(50.0)
        job = w.expect(job_id, JobState.RUNNING, workers=2)
        labour = w.cluster.labour(job_id)
        assert labour is not None
        labour.count(w.clock.now())
        before = labour.done
        assert before == pytest.approx(2 * 30.0, abs=0.5)
        w.cluster.crash(job.workers[0].id, 1)
        w.advance(15.0)
        labour.count(w.clock.now())
        assert labour.done == before
        w.advance(300.0)
        w.expect(job_id, JobState.SUCCEEDED)
    finally:
        w.close()
