"""Bookings as users ask for them: promised or refused, opened, ended, cancelled, and safe from the engine's death."""

import pytest

from scheduler.clusters.simulated.process import Behaviour
from scheduler.engine.tick import Step
from scheduler.model.booking import BookingState
from scheduler.model.event import EventKind
from scheduler.model.ids import NodeName
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState, StopReason, WaitReason
from scheduler.model.worker import LeaveReason
from tests.world import START, World


def state(w: World, name: str) -> BookingState | None:
    """Its state in the store; None if it is stored no longer."""
    booking = w.store.get_booking(name)
    return booking.state if booking is not None else None


def test_a_booking_is_planned_opens_and_ends_at_its_times(w: World) -> None:
    w.node("a", slots=4)
    w.book("b", slots=4, start=100, duration=50)
    w.advance(99)
    assert state(w, "b") is BookingState.PLANNED
    w.advance(1)
    assert state(w, "b") is BookingState.OPEN
    w.advance(49.9)
    assert state(w, "b") is BookingState.OPEN
    w.advance(0.1)
    assert state(w, "b") is None
    told = w.events(EventKind.BOOKING_PLANNED, EventKind.BOOKING_STARTED, EventKind.BOOKING_ENDED)
    assert [(event.kind, event.at - START) for event in told] == [
        (EventKind.BOOKING_PLANNED, 0.0),
        (EventKind.BOOKING_STARTED, 100.0),
        (EventKind.BOOKING_ENDED, 150.0),
    ]
    assert {event.detail for event in told} == {"b: 4 slots"}


@pytest.mark.parametrize("ahead", [-3.0, 0.0, 86_400.0])
def test_a_window_that_is_to_begin_at_once_begins_now_whatever_clock_it_was_asked_by(w: World, ahead: float) -> None:
    """A daemon that has just started beside one whose machine was a day behind is a day ahead until it hears of it."""
    w.node("a", slots=4)
    w.book("b", slots=4, start=ahead, duration=50, asked_at=ahead)
    w.tick()
    assert state(w, "b") is BookingState.OPEN
    w.advance(50)
    assert state(w, "b") is None


def test_a_window_further_on_is_by_the_clock_of_people_whoever_was_asked(w: World) -> None:
    w.node("a", slots=4)
    w.book("b", slots=4, start=100, duration=50, asked_at=90)
    w.tick()
    planned = w.store.get_booking("b")
    assert planned is not None
    assert (planned.start_at - START, planned.end_at - START) == (100, 150)


def test_what_the_cluster_cannot_hold_is_refused(w: World) -> None:
    w.node("a", slots=4)
    w.tick()
    w.book("large", slots=5, start=10, duration=10)
    w.tick()
    assert state(w, "large") is None
    [refused] = w.events(EventKind.REQUEST_REFUSED)
    assert refused.detail == ("booking large: it needs 5 slots, and the suitable nodes have 4")


def test_overlapping_bookings_are_refused_beyond_capacity_and_later_ones_are_not(w: World) -> None:
    w.node("a", slots=4)
    w.book("first", slots=3, start=100, duration=100)
    w.book("beside", slots=1, start=150, duration=100)
    w.book("between", slots=1, start=150, duration=10)
    w.book("after", slots=3, start=200, duration=100)
    w.tick()
    assert [each.name for each in w.store.list_bookings()] == ["first", "beside", "after"]
    [refused] = w.events(EventKind.REQUEST_REFUSED)
    assert refused.detail == (
        "booking between: it needs 1 slot, and the cluster does not have enough left beside booking beside, first"
    )


def test_a_cancelled_booking_is_gone_and_its_name_free(w: World) -> None:
    w.node("a", slots=4)
    w.book("b", slots=4, start=100, duration=50)
    w.tick()
    w.unbook("b")
    w.unbook("b")
    w.tick()
    assert state(w, "b") is None
    assert len(w.events(EventKind.BOOKING_CANCELLED)) == 1
    assert [event.detail for event in w.events(EventKind.REQUEST_REFUSED)] == ["booking b not found"]
    w.book("b", slots=2, start=100, duration=50)
    w.tick()
    assert state(w, "b") is BookingState.PLANNED


def test_a_booking_that_is_cancelled_before_any_tick_never_was(w: World) -> None:
    w.node("a", slots=4)
    w.book("b", slots=4, start=100, duration=50)
    w.unbook("b")
    w.tick()
    assert state(w, "b") is None
    assert w.engine.world is not None
    assert not w.engine.world.bookings


@pytest.mark.parametrize("step", list(Step), ids=lambda step: step.name)
def test_the_engines_death_loses_no_booking(w: World, step: Step) -> None:
    w.node("a", slots=4)
    w.tick()
    w.book("b", slots=4, start=5, duration=50)
    w.tick_until(step)
    w.advance(5)
    assert state(w, "b") is BookingState.OPEN
    assert len(w.events(EventKind.BOOKING_PLANNED)) == len(w.events(EventKind.BOOKING_STARTED)) == 1
    w.clock.advance(60)
    w.tick_until(step)
    w.advance(1)
    assert state(w, "b") is None
    assert len(w.events(EventKind.BOOKING_ENDED)) == 1


def test_a_booking_needs_no_node_that_is_up_now(w: World) -> None:
    w.node("a", slots=4)
    w.tick()
    w.cluster.lose_node(NodeName("a"))
    w.tick()
    w.book("b", slots=4, start=100, duration=50)
    w.tick()
    assert state(w, "b") is BookingState.PLANNED


def test_at_the_end_a_job_goes_on_unless_nobody_could_take_slots_from_it(w: World) -> None:
    w.node("a", slots=4)
    w.book("b", slots=4, start=0, duration=100)
    w.tick()
    ordinary = w.job("ordinary", workers=2, booking="b")
    firm = w.job("firm", workers=2, booking="b", preemptible=False)
    w.advance(99)
    w.expect(ordinary, JobState.RUNNING, workers=2)
    w.expect(firm, JobState.RUNNING, workers=2)
    w.advance(10)
    w.expect(ordinary, JobState.RUNNING, workers=2)
    stops = w.events(EventKind.JOB_STOPPING)
    assert [(event.job_id, event.cause, event.detail) for event in stops] == [
        (firm, StopReason.BOOKING_ENDED, "booking b has ended")
    ]
    assert w.get(firm).retries_used == 0


def test_cancelling_one_that_lies_ahead_stops_nobody_of_an_earlier_one_of_its_name(w: World) -> None:
    w.node("a", slots=4)
    w.book("night", slots=4, start=0, duration=100)
    w.tick()
    firm = w.job("firm", workers=2, booking="night", preemptible=False)
    w.advance(120)
    assert w.expect(firm, JobState.RUNNING, workers=2).attempt == 2, "it goes on as an ordinary job"
    w.book("night", slots=2, start=10_000, duration=100)
    w.tick()
    w.unbook("night")
    w.settle()
    assert state(w, "night") is None
    assert w.expect(firm, JobState.RUNNING, workers=2).attempt == 2


SLOW = Behaviour(runtime=Runtime.ELASTIC, leave_seconds=25.0)


def test_elastic_jobs_fill_the_hole_and_are_out_at_the_start(w: World) -> None:
    w.node("a", slots=4)
    w.node("b", slots=4)
    low = w.job("low", workers=(1, 8), behaviour=SLOW, grace_seconds=30.0, priority=5)
    w.book("b", slots=6, start=600, duration=600)
    booked = w.job("booked", workers=(2, 6), booking="b")
    w.advance(564)
    w.expect(low, JobState.RUNNING, workers=8)
    assert w.expect(booked, JobState.QUEUED).wait_reason is WaitReason.BOOKED_LATER
    w.advance(35.9)
    w.expect(low, JobState.RUNNING, workers=2)
    assert len(w.get(low).workers) == 2
    w.advance(0.2)
    w.expect(booked, JobState.STARTING, workers=6)
    w.settle()
    w.expect(booked, JobState.RUNNING, workers=6)
    [started] = [event for event in w.events(EventKind.JOB_STARTED) if event.job_id == booked]
    assert started.at == START + 600
    [shrunk] = w.events(EventKind.JOB_SHRANK)
    assert (shrunk.at, shrunk.cause, shrunk.detail) == (START + 565, LeaveReason.BOOKED, "8 -> 2 workers")


def test_who_does_not_leave_in_its_grace_is_killed_in_time(w: World) -> None:
    w.node("a", slots=4)
    stubborn = Behaviour(runtime=Runtime.ELASTIC, leave_seconds=1e9)
    w.job("stubborn", workers=(4, 4), preemptible=True, behaviour=stubborn, runtime=Runtime.ELASTIC)
    w.settle()
    w.book("b", slots=4, start=100, duration=600)
    booked = w.job("booked", workers=4, booking="b")
    w.advance(101)
    w.expect(booked, JobState.STARTING, workers=4)


@pytest.mark.parametrize("step", list(Step), ids=lambda step: step.name)
@pytest.mark.parametrize("at", [*(pytest.param(at, marks=pytest.mark.slow) for at in (64.0, 66.0)), 99.0])
def test_the_engines_death_around_the_start_delays_and_breaks_nothing(w: World, step: Step, at: float) -> None:
    w.node("a", slots=8)
    low = w.job("low", workers=(1, 8), behaviour=SLOW, grace_seconds=30.0)
    w.settle()
    w.book("b", slots=6, start=100, duration=600)
    booked = w.job("booked", workers=(6, 6), booking="b")
    w.advance(at)
    w.tick_until(step)
    w.advance(max(100.0 - at, 45.0))
    w.settle()
    w.expect(booked, JobState.RUNNING, workers=6)
    w.expect(low, JobState.RUNNING, workers=2)
    assert w.get(low).attempt == 1


def test_unused_slots_are_lent_and_taken_back_by_whoever_comes(w: World) -> None:
    w.node("a", slots=8)
    low = w.job("low", workers=(1, 8), priority=9)
    w.book("b", slots=8, start=100, duration=3600)
    w.advance(100)
    assert w.get(low).state is JobState.QUEUED, "all of it is booked"
    w.advance(70)
    w.settle()
    w.expect(low, JobState.RUNNING, workers=8)
    late = w.job("late", workers=(2, 4), booking="b")
    w.settle()
    w.expect(late, JobState.RUNNING, workers=4)
    w.expect(low, JobState.RUNNING, workers=4)


def test_a_node_lost_in_the_window_is_made_up_for(w: World) -> None:
    w.node("a", slots=4)
    w.node("b", slots=4)
    low = w.job("low", workers=(1, 4), priority=9)
    w.book("b", slots=4, start=0, duration=3600)
    booked = w.job("booked", workers=(4, 4), booking="b")
    w.settle()
    w.cluster.lose_node(w.get(booked).workers[0].node)
    w.settle(120)
    w.expect(booked, JobState.RUNNING, workers=4)
    assert w.get(low).state is JobState.QUEUED
