"""More important jobs take slots: by shrinking first, and nothing is given out before it is free."""

from scheduler.clusters.simulated.process import Behaviour
from scheduler.model.event import EventKind
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState, WaitReason
from scheduler.model.worker import LeaveReason
from tests.world import World

ELASTIC = Runtime.ELASTIC


def test_an_elastic_job_shrinks_for_a_more_important_one_and_grows_back(w: World) -> None:
    w.node("a", slots=4)
    low = w.job("low", priority=1, workers=(1, 4))
    w.settle()
    w.expect(low, JobState.RUNNING, workers=4)
    high = w.job("high", priority=9, workers=2, behaviour=Behaviour(runtime=ELASTIC, work_seconds=40.0))
    w.advance(10)
    w.expect(low, JobState.RUNNING, workers=2)
    w.expect(high, JobState.RUNNING, workers=2)
    w.settle()
    w.expect(high, JobState.SUCCEEDED)
    job = w.expect(low, JobState.RUNNING, workers=4)
    assert (job.attempt, job.retries_used) == (1, 0)
    (shrink,) = w.events(EventKind.JOB_SHRANK)
    assert (shrink.job_id, shrink.for_job, shrink.cause) == (low, high, "PREEMPTED")


def test_a_survivor_keeps_its_place_and_the_oldest_keep_the_lowest_ranks(w: World) -> None:
    w.node("a", slots=4)
    low = w.job("low", workers=(1, 4))
    w.settle()
    before = [m.id for m in w.get(low).members]
    w.job("high", priority=5, workers=2)
    w.settle()
    assert [m.id for m in w.get(low).members] == before[:2]


def test_slots_of_a_leaving_worker_are_not_given_out_until_it_is_gone(w: World) -> None:
    w.node("a", slots=4)
    w.job("low", workers=(1, 4), grace_seconds=20.0, behaviour=Behaviour(runtime=ELASTIC, leave_seconds=None))
    w.settle()
    high = w.job("high", priority=5, workers=2)
    w.advance(19)
    assert w.get(high).wait_reason is WaitReason.WAITING_FOR_VICTIMS
    assert w.get(high).wait_for is None, "it is done for nobody else"
    (waits,) = w.events(EventKind.JOB_WAITS)
    assert (waits.job_id, waits.for_job) == (high, None)
    w.advance(10)
    w.expect(high, JobState.RUNNING, workers=2)


def test_a_job_is_stopped_only_where_shrinking_is_not_enough(w: World) -> None:
    w.node("a", slots=4)
    low = w.job("low", workers=(2, 4))
    w.settle()
    high = w.job("high", priority=5, workers=3)
    w.advance(10)
    w.expect(high, JobState.RUNNING, workers=3)
    w.expect(low, JobState.QUEUED, workers=0)
    assert w.get(low).retries_used == 0
    w.ask_cancel(high)
    w.settle()
    w.expect(low, JobState.RUNNING, workers=4)


def test_equal_priority_never_takes_what_the_minimum_needs(w: World) -> None:
    w.node("a", slots=4)
    first = w.job("first", priority=3, workers=(4, 4))
    w.settle()
    second = w.job("second", priority=3, workers=1)
    w.settle()
    w.expect(first, JobState.RUNNING, workers=4)
    w.expect(second, JobState.QUEUED)


def test_an_equal_gives_up_what_it_has_above_its_minimum(w: World) -> None:
    w.node("a", slots=4)
    first = w.job("first", priority=3, workers=(1, 4))
    w.settle()
    second = w.job("second", priority=3, workers=2)
    w.settle()
    w.expect(first, JobState.RUNNING, workers=2)
    w.expect(second, JobState.RUNNING, workers=2)
    third = w.job("third", priority=3, workers=2)
    w.settle()
    w.expect(third, JobState.QUEUED)
    [shrunk] = w.events(EventKind.JOB_SHRANK)
    assert (shrunk.job_id, shrunk.cause, shrunk.for_job) == (first, LeaveReason.REBALANCED, second)


def test_raising_a_priority_lets_a_waiting_job_take(w: World) -> None:
    w.node("a", slots=4)
    first = w.job("first", priority=3, workers=(1, 4))
    w.settle()
    second = w.job("second", priority=3, workers=2)
    w.advance(5)
    w.set_priority(second, 4)
    w.advance(5)
    w.expect(second, JobState.RUNNING, workers=2)
    w.expect(first, JobState.RUNNING, workers=2)


def test_freed_slots_are_not_stolen_by_an_equal_job_that_came_later(w: World) -> None:
    w.node("a", slots=4)
    w.job("low", workers=(1, 4), grace_seconds=15.0, behaviour=Behaviour(runtime=ELASTIC, leave_seconds=10.0))
    w.settle()
    high = w.job("high", priority=5, workers=3)
    w.advance(5)
    thief = w.job("thief", priority=5, workers=1)
    w.advance(30)
    w.expect(high, JobState.RUNNING, workers=3)
    assert w.get(thief).started_at is None or w.get(thief).started_at >= w.get(high).started_at  # type: ignore[operator]


def test_a_rigid_preemptible_job_goes_back_to_the_queue_and_starts_again(w: World) -> None:
    w.node("a", slots=2)
    low = w.job("low", workers=2, runtime=Runtime.COMMAND)
    w.settle()
    high = w.job("high", priority=5, workers=2, behaviour=Behaviour(runtime=ELASTIC, work_seconds=30.0))
    w.settle()
    w.expect(high, JobState.SUCCEEDED)
    assert w.expect(low, JobState.RUNNING, workers=2).attempt == 2


def test_a_job_that_is_not_preemptible_is_left_alone(w: World) -> None:
    w.node("a", slots=2)
    low = w.job("low", workers=(1, 2), preemptible=False)
    w.settle()
    high = w.job("high", priority=5, workers=2)
    w.settle()
    w.expect(low, JobState.RUNNING, workers=2)
    assert w.get(high).wait_reason is WaitReason.INSUFFICIENT_SLOTS
