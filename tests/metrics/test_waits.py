"""How long jobs waited for slots, and for those of others: what is measured, and from when on."""

import pytest

from scheduler.clusters.simulated.process import Behaviour
from scheduler.model.intent import IntentKind
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState, WaitReason
from tests.metrics.observed import Observed

STUBBORN = Behaviour(runtime=Runtime.ELASTIC, leave_seconds=None)


def test_a_wait_after_a_restart_counts_from_its_own_beginning(w: Observed) -> None:
    w.node("a", slots=2)
    first = w.job("first", workers=2, priority=5)
    w.tick()
    w.job("twice", workers=2, priority=1)
    w.advance(100)
    assert w.value("sched_oldest_wait_seconds", priority_class="0") == pytest.approx(100, abs=1)
    w.ask_cancel(first)
    w.advance(50)
    second = w.job("second", workers=2, priority=5)
    w.advance(10)
    assert w.value("sched_oldest_wait_seconds", priority_class="0") == pytest.approx(10, abs=1)
    w.ask_cancel(second)
    w.advance(5)
    assert w.value("sched_job_wait_seconds_sum") == pytest.approx(110, abs=2)


def test_a_wait_for_a_booking_s_start_is_no_wait_for_slots(w: Observed) -> None:
    w.node("a", slots=2)
    w.tick()
    w.book("later", slots=2, start=500, duration=1000)
    w.tick()
    full = w.job("full", workers=2, booking="later", runtime=Runtime.COMMAND)
    w.job("behind", priority=-1, workers=2, booking="later", runtime=Runtime.COMMAND)
    w.advance(400)
    assert w.get(full).wait_reason is WaitReason.BOOKED_LATER
    assert w.value("sched_oldest_wait_seconds") == 0
    w.advance(200)
    assert w.value("sched_oldest_wait_seconds", priority_class="below") == pytest.approx(100, abs=2)


def test_a_pause_after_a_failure_is_no_wait_for_slots(w: Observed) -> None:
    w.node("a", slots=1)
    job_id = w.job("fails", runtime=Runtime.COMMAND, behaviour=Behaviour(Runtime.COMMAND, crash_after_seconds=1.0))
    w.advance(1.5)
    assert w.expect(job_id, JobState.QUEUED).wait_reason is WaitReason.BACKOFF
    assert w.value("sched_oldest_wait_seconds") == 0


def test_a_job_that_no_node_suits_waits_for_no_slots(w: Observed) -> None:
    w.node("a", slots=1)
    w.job("odd", selector={"zone": "nowhere"})
    w.job("suits", selector={})
    w.advance(60)
    assert w.value("sched_waiting_jobs", reason="NO_MATCHING_NODE") == 1
    assert w.value("sched_oldest_wait_seconds") == 0


def test_a_preemption_for_a_job_that_was_suspended_meanwhile_is_measured_from_its_second_beginning(w: Observed) -> None:
    w.node("a", slots=2)
    w.job("low", priority=1, workers=2, behaviour=STUBBORN, grace_seconds=4.0)
    w.settle()
    high = w.job("high", priority=9, workers=2)
    w.advance(1)
    w.ask(IntentKind.SUSPEND, high)
    w.advance(20)
    w.ask(IntentKind.RESUME, high)
    w.advance(20)
    w.expect(high, JobState.RUNNING)
    assert w.value("sched_preempt_to_running_seconds_count") == 1
    assert 4 < w.value("sched_preempt_to_running_seconds_sum") < 10


def test_a_job_whose_reservation_another_takes_over_is_not_measured_from_when_it_had_it(w: Observed) -> None:
    w.node("a", slots=2)
    low = w.job("low", priority=1, workers=2, behaviour=STUBBORN, grace_seconds=4.0)
    w.settle()
    middle = w.job("middle", priority=5, workers=2)
    w.advance(1)
    assert w.get(middle).reservation
    high = w.job("high", priority=9, workers=2)
    w.advance(60)
    w.expect(high, JobState.RUNNING)
    w.ask_cancel(low)
    w.ask_cancel(high)
    w.advance(20)
    w.expect(middle, JobState.RUNNING)
    assert w.value("sched_preempt_to_running_seconds_count") == 0
