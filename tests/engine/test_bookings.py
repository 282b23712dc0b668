"""Bookings as users ask for them: promised or refused, opened, ended, cancelled, and safe from the engine's death."""

import pytest

from scheduler.engine.tick import Step
from scheduler.model.booking import BookingState
from scheduler.model.event import EventKind
from scheduler.model.ids import NodeName
from scheduler.model.job import JobState, StopReason
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


def test_what_the_cluster_cannot_hold_is_refused(w: World) -> None:
    w.node("a", slots=4)
    w.tick()
    w.book("large", slots=5, start=10, duration=10)
    w.tick()
    assert state(w, "large") is None
    [refused] = w.events(EventKind.REQUEST_REFUSED)
    assert refused.detail == ("booking large: it needs 5 slots, and the nodes that suit it have 4")


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
        "booking between: it needs 1 slot, and the cluster has not enough beside booking beside, first"
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
    assert [event.detail for event in w.events(EventKind.REQUEST_REFUSED)] == ["no booking b"]
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
    w.advance(1)
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
        (firm, StopReason.BOOKING_ENDED, "booking b is over")
    ]
    assert w.get(firm).retries_used == 0
