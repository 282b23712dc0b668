"""A store whose commits take longer than the lease as set: jobs start all the same, or it is said why they do not."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import event

from scheduler.engine.leadership.lease_keeper import LEASE_SECONDS_MAX, WRITES_PER_LEASE
from scheduler.model.job_state import JobState
from tests.engine.replica import Replica
from tests.world import World


@contextmanager
def slow_commits(w: World, seconds: float) -> Iterator[None]:
    """Each commit takes `seconds`, by the virtual clock."""

    def slow(_: object) -> None:
        w.clock.advance(seconds)

    writer = w.store._database.writer
    event.listen(writer, "commit", slow)
    try:
        yield
    finally:
        event.remove(writer, "commit", slow)


def pass_time(w: World, seconds: float) -> None:
    """Tick after tick, each as long as its commits."""
    until = w.clock.now() + seconds
    while w.clock.now() < until:
        w.tick()
        w.clock.advance(0.5)


@pytest.mark.parametrize("seconds", [0.5, 3.5, 10.0])
def test_a_job_starts_however_slow_commits_are(w: World, seconds: float) -> None:
    w.node("a", slots=1)
    w.tick()
    with slow_commits(w, seconds):
        job_id = w.job("j")
        pass_time(w, 30 * seconds)
        assert w.get(job_id).state is JobState.RUNNING
        assert w.engine.lease_seconds >= min(seconds * WRITES_PER_LEASE, LEASE_SECONDS_MAX)
        assert w.engine.report.error is None
        if seconds * WRITES_PER_LEASE > w.settings.engine.lease_seconds:
            [trouble] = w.engine.troubles()
            assert f"writes to the database take {seconds:.1f} s" in trouble


def test_the_lease_is_as_set_again_when_commits_are_fast_again(w: World) -> None:
    w.node("a", slots=1)
    with slow_commits(w, 3.5):
        pass_time(w, 60)
    assert w.engine.lease_seconds > w.settings.engine.lease_seconds
    pass_time(w, 120)
    assert w.engine.lease_seconds == w.settings.engine.lease_seconds
    assert w.engine.troubles() == []


def test_a_standby_waits_for_the_stretched_lease(w: World) -> None:
    w.node("a", slots=1)
    replica = Replica(w)
    with slow_commits(w, 3.5):
        pass_time(w, 60)
        assert replica.engine.tick().following
        w.clock.advance(w.engine.lease_seconds - 1.0)
        assert replica.engine.tick().following, "the leader may be waiting for its disk"
    w.clock.advance(1.0)
    assert replica.engine.tick().leading


def test_commits_that_no_lease_can_wait_for_are_an_error(w: World) -> None:
    w.node("a", slots=1)
    w.tick()
    with slow_commits(w, LEASE_SECONDS_MAX / WRITES_PER_LEASE + 5):
        w.job("j")
        pass_time(w, 300)
        error = w.engine.report.error
        assert error is not None
        assert "writes to the database take 25.0 s" in error
    pass_time(w, 300)
    assert w.engine.report.error is None


def test_what_could_not_be_done_in_time_is_said(w: World) -> None:
    w.node("a", slots=1)
    w.tick()
    w.job("j")
    with slow_commits(w, w.settings.engine.lease_seconds + 0.5):
        report = w.tick()
    assert report.late
    assert "the lease ended before workers could be started or stopped" in (report.error or "")
