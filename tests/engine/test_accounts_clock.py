"""Accounts by job come to what accounts come to, however often the machine's clock was set."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.clusters.simulated.process import Behaviour
from scheduler.engine.timing.wall_watch import CONFIRM_SECONDS
from scheduler.model.account import HOUR_SECONDS, AccountSum
from scheduler.model.event import EventKind
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState
from scheduler.store.queries.accounts import Span
from tests.engine.test_accounts import FIRST
from tests.engine.test_clocks import JumpingWorld

#: What two reads of the clocks differ by between a jump and its confirmation.
DRIFT_SECONDS = 0.75


@pytest.fixture
def w(tmp_path: Path) -> Iterator[JumpingWorld]:
    world = JumpingWorld(tmp_path)
    world.node("a", slots=4)
    yield world
    world.close()


def usage(w: JumpingWorld, *by: str, first: int = FIRST - 6, last: int = FIRST + 12) -> list[AccountSum]:
    return w.store.accounts(Span(first, last, w.steady.now()), by)


def go_on(w: JumpingWorld, seconds: float) -> None:
    """Let time pass, with a tick now and then."""
    for _ in range(10):
        w.clock.advance(seconds / 10)
        w.tick()


def set_clock(w: JumpingWorld, seconds: float) -> None:
    """Somebody sets the machine's clock, and a while later it is believed."""
    before = len(w.events(EventKind.CLOCK_CONFIRMED))
    w.machine.jump(seconds)
    w.tick()
    w.machine.jump(DRIFT_SECONDS)
    go_on(w, 2 * CONFIRM_SECONDS)
    assert len(w.events(EventKind.CLOCK_CONFIRMED)) == before + 1


def job_for(w: JumpingWorld, seconds: float, workers: int) -> int:
    behaviour = Behaviour(runtime=Runtime.COMMAND, work_seconds=seconds * workers)
    return w.job("j", workers=workers, user="ann", behaviour=behaviour, runtime=Runtime.COMMAND)


@pytest.mark.parametrize("jumps", [(-2.0,), (1.0,), (3.0, -5.0), (-1.5, -1.0, 4.0)])
def test_what_jobs_held_before_and_after_the_clock_was_set_is_theirs(w: JumpingWorld, jumps: tuple[float, ...]) -> None:
    first = job_for(w, 7 * HOUR_SECONDS, 1)
    go_on(w, 1.3 * HOUR_SECONDS)
    second = job_for(w, HOUR_SECONDS, 2)
    for hours in jumps:
        set_clock(w, hours * HOUR_SECONDS)
        go_on(w, 0.8 * HOUR_SECONDS)
    w.expect(second, JobState.SUCCEEDED)
    [whole] = usage(w)
    by_job = {each.job: each for each in usage(w, "job")}
    assert set(by_job) == {first, second}
    assert sum(each.held for each in by_job.values()) == pytest.approx(whole.held)
    assert sum(each.lent for each in by_job.values()) == pytest.approx(whole.lent)
    [ran] = w.get(first).workers
    assert by_job[first].held == pytest.approx(w.steady.now() - ran.created_at, abs=10.0 * len(jumps))
    for hour in range(FIRST - 6, FIRST + 12):
        held = sum(each.held for each in usage(w, first=hour, last=hour + 1))
        of_jobs = usage(w, "job", first=hour, last=hour + 1)
        assert sum(each.held for each in of_jobs) == pytest.approx(held)
        assert 0 not in {each.job for each in of_jobs}


def test_work_that_was_lost_before_the_clock_was_set_stays_its_jobs(w: JumpingWorld) -> None:
    job = w.job("j", workers=2, user="ann", max_retries=3)
    go_on(w, 1.3 * HOUR_SECONDS)
    w.cluster.crash(w.get(job).workers[0].id, 1)
    go_on(w, 60)
    lost = sum(each.lost for each in usage(w))
    assert lost > 1.0
    set_clock(w, -2 * HOUR_SECONDS)
    go_on(w, 0.5 * HOUR_SECONDS)
    assert [(each.job, each.lost) for each in usage(w, "job")] == [(job, pytest.approx(lost))]
    hour_lost = [h for h in range(FIRST, FIRST + 3) if sum(each.lost for each in usage(w, first=h, last=h + 1))]
    [hour] = hour_lost
    assert [(each.job, each.lost) for each in usage(w, "job", first=hour, last=hour + 1)] == [
        (job, pytest.approx(lost))
    ]


def test_a_removed_jobs_part_is_still_told_apart_after_the_clock_was_set(w: JumpingWorld) -> None:
    gone = job_for(w, HOUR_SECONDS, 1)
    go_on(w, 2 * HOUR_SECONDS)
    w.expect(gone, JobState.SUCCEEDED)
    stays = job_for(w, 5 * HOUR_SECONDS, 1)
    go_on(w, 60)
    set_clock(w, -2 * HOUR_SECONDS)
    [before] = [each.held for each in usage(w, "job") if each.job == gone]
    assert w.store.purge(w.steady.now(), 0.0).jobs == 1
    assert {each.job: each.held for each in usage(w, "job")}.keys() == {0, stays}
    assert next(each.held for each in usage(w, "job") if each.job == 0) == pytest.approx(before, abs=10.0)
