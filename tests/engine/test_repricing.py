"""What another priority would change: rules on worlds written down line by line, and what then really happens."""

from pathlib import Path

from scheduler.config import Settings
from scheduler.engine.whatif.forecast import Loss
from scheduler.engine.whatif.priority_change import Size, Sizes, StartForecasts, reprice
from scheduler.model.ids import JobId
from scheduler.model.job_state import JobState
from tests.policy.worlds import NOW, Cluster
from tests.world import World

GRACE = 30.0


def ask(c: Cluster, job_id: int, priority: int) -> StartForecasts | Sizes:
    return reprice(c.world(), c.jobs[JobId(job_id)], priority, NOW, Settings(), lambda: True)


def starts(c: Cluster, job_id: int, priority: int) -> StartForecasts:
    found = ask(c, job_id, priority)
    assert isinstance(found, StartForecasts)
    return found


def sizes(c: Cluster, job_id: int, priority: int) -> Sizes:
    found = ask(c, job_id, priority)
    assert isinstance(found, Sizes)
    assert found.settled
    return found


def test_a_waiting_job_would_start_at_the_cost_of_less_important_ones() -> None:
    c = Cluster().node("a", 4).running(1, {"a": 4}, workers=(1, 4), priority=3).waiting(2, workers=(2, 2))
    found = starts(c, 2, 9)
    assert (found.as_it_is.start_at, found.as_it_is.losses) == (None, ())
    assert (found.changed.start_at, found.changed.workers) == (NOW + GRACE, 2)
    assert found.changed.losses == (Loss(JobId(1), "job-1", 4, 2),)


def test_a_priority_that_is_too_low_still_changes_nothing() -> None:
    c = Cluster().node("a", 4).running(1, {"a": 4}, workers=(4, 4), priority=3).waiting(2)
    found = starts(c, 2, 3)
    assert found.changed.start_at is None
    assert found.changed.job.wait_reason is found.as_it_is.job.wait_reason


def test_a_job_that_is_less_important_then_gives_way_to_those_that_wait() -> None:
    c = Cluster().node("a", 4).running(1, {"a": 4}, workers=(1, 4), priority=3).waiting(2, workers=(3, 3), priority=2)
    found = sizes(c, 1, 0)
    assert found.own == Size(JobId(1), "job-1", 4, 1)
    assert found.others == (Size(JobId(2), "job-2", 0, 3),)


def test_a_rigid_job_that_would_be_stopped_ends_with_no_workers() -> None:
    c = Cluster().node("a", 4).running(1, {"a": 4}, workers=(4, 4), priority=3).waiting(2, workers=(4, 4), priority=2)
    assert sizes(c, 1, 1).own == Size(JobId(1), "job-1", 4, 0)


def test_a_job_that_has_all_it_may_have_gains_nothing() -> None:
    c = Cluster().node("a", 4).running(1, {"a": 2}, workers=(1, 2)).running(2, {"a": 2}, workers=(1, 4))
    found = sizes(c, 1, 9)
    assert (found.own, found.others) == (Size(JobId(1), "job-1", 2, 2), ())


def test_what_it_says_then_happens(tmp_path: Path) -> None:
    w = World(tmp_path)
    w.node("a", slots=8)
    first = w.job("first", workers=(1, 8), priority=3)
    second = w.job("second", workers=(1, 8), priority=3)
    w.settle(120)
    third = w.job("third", workers=3, priority=2)
    w.settle(120)
    w.expect(third, JobState.QUEUED)
    for priority, sizes_then in ((9, (4, 4, 0)), (0, (1, 4, 3))):
        world = w.board.world
        assert world is not None
        job = world.job(first)
        assert job is not None
        found = reprice(world, job, priority, w.clock.now(), w.settings, lambda: True)
        assert isinstance(found, Sizes)
        expected = {job_id: len(w.get(job_id).wanted_workers) for job_id in (first, second, third)}
        expected |= {size.job_id: size.changed for size in (found.own, *found.others)}
        w.set_priority(first, priority)
        w.settle(400)
        assert {job_id: len(w.get(job_id).wanted_workers) for job_id in expected} == expected
        assert tuple(expected.values()) == sizes_then
    w.close()
