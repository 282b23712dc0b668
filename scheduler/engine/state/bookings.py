"""A booking's way: promised or refused, opened, ended or cancelled."""

from dataclasses import replace

from scheduler.engine.changeset import Draft
from scheduler.engine.state.lifecycle import begin_stop
from scheduler.model.booking import Booking, BookingState, check_booking_transition
from scheduler.model.event import Cause, EventKind
from scheduler.model.intent import IntentKind
from scheduler.model.job import JobState, StopReason
from scheduler.policy.overlay.booking_feasible import described, refusal

_STOPPABLE = frozenset({JobState.STARTING, JobState.RUNNING, JobState.RESIZING})


def promise(draft: Draft, booking: Booking) -> None:
    """Promise a booking that was asked for, or refuse it with an event that says why."""
    why = refusal(booking, draft.bookings(), draft.world().nodes, draft.now)
    if why is None:
        _move(draft, booking, BookingState.PLANNED, EventKind.BOOKING_PLANNED, IntentKind.BOOK)
        return
    _over(draft, booking)
    draft.event(EventKind.REQUEST_REFUSED, cause=IntentKind.BOOK, detail=f"booking {booking.name}: {why}")


def unbook(draft: Draft, name: str) -> None:
    """Cancel it: what its jobs hold they keep as ordinary jobs."""
    booking = draft.booking(name)
    if booking is None:
        draft.event(EventKind.REQUEST_REFUSED, cause=IntentKind.UNBOOK, detail=f"booking {name} not found")
        return
    _end(draft, booking, EventKind.BOOKING_CANCELLED, IntentKind.UNBOOK)


def open_and_end(draft: Draft) -> None:
    """Open the windows that have begun and end those that are over."""
    for booking in draft.bookings():
        if booking.end_at <= draft.now:
            _end(draft, booking, EventKind.BOOKING_ENDED, Cause.TIME)
        elif booking.state is BookingState.PLANNED and booking.start_at <= draft.now:
            _move(draft, booking, BookingState.OPEN, EventKind.BOOKING_STARTED, Cause.TIME)


def _end(draft: Draft, booking: Booking, kind: EventKind, cause: Cause | IntentKind) -> None:
    """Its jobs go on as ordinary ones; those that nobody could take slots from are stopped and queued again.

    A booking that was never open has none: who runs under its name ran in an earlier one of that name.
    """
    for job in list(draft.active_jobs()) if booking.state is BookingState.OPEN else ():
        if not job.spec.preemptible and job.state in _STOPPABLE and not job.finishing and booking.admits(job):
            begin_stop(draft, job.id, StopReason.BOOKING_ENDED, detail=f"booking {booking.name} has ended")
    _over(draft, booking)
    draft.event(kind, cause=cause, detail=_line(booking))


def _over(draft: Draft, booking: Booking) -> None:
    check_booking_transition(booking, BookingState.OVER)
    draft.put_booking(replace(booking, state=BookingState.OVER))


def _move(draft: Draft, booking: Booking, state: BookingState, kind: EventKind, cause: Cause | IntentKind) -> None:
    check_booking_transition(booking, state)
    draft.put_booking(replace(booking, state=state))
    draft.event(kind, cause=cause, detail=_line(booking))


def _line(booking: Booking) -> str:
    return f"{booking.name}: {described(booking)}"
