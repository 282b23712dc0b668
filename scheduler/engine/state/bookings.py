"""Transitions of a booking: promised or refused, opened, ended or cancelled."""

from dataclasses import replace

from scheduler.engine.changeset import Changeset
from scheduler.engine.state.lifecycle import begin_stop
from scheduler.model.booking import Booking, BookingState, check_booking_transition
from scheduler.model.event import Cause, EventKind
from scheduler.model.ids import JobId
from scheduler.model.intent import IntentKind
from scheduler.model.job import Job
from scheduler.model.job_state import JobState, StopReason
from scheduler.policy.overlay.booking_feasible import described, refusal

_STOPPABLE = frozenset({JobState.STARTING, JobState.RUNNING, JobState.RESIZING})


def promise(changeset: Changeset, booking: Booking) -> None:
    """Promise a requested booking, or refuse it with an event that says why."""
    booking = _begun(booking, changeset.now)
    why = refusal(booking, changeset.bookings(), changeset.world().nodes, changeset.now)
    if why is None:
        _move(changeset, booking, BookingState.PLANNED, EventKind.BOOKING_PLANNED, IntentKind.BOOK)
        return
    _over(changeset, booking)
    changeset.event(EventKind.REQUEST_REFUSED, cause=IntentKind.BOOK, detail=f"booking {booking.name}: {why}")


def _begun(booking: Booking, now: float) -> Booking:
    """A window that was to begin at once begins now, also if it was asked for by a clock that is ahead of this one."""
    if not now < booking.start_at == booking.created_at:
        return booking
    return replace(booking, start_at=now, end_at=now + booking.end_at - booking.start_at)


def unbook(changeset: Changeset, name: str) -> None:
    """Cancel the booking: its jobs keep what they hold, as ordinary jobs."""
    booking = changeset.booking(name)
    if booking is None:
        changeset.event(EventKind.REQUEST_REFUSED, cause=IntentKind.UNBOOK, detail=f"booking {name} not found")
        return
    _end(changeset, booking, EventKind.BOOKING_CANCELLED, IntentKind.UNBOOK)


def open_and_end(changeset: Changeset) -> None:
    """Open the windows that have begun and end those that are over."""
    for booking in changeset.bookings():
        if booking.end_at <= changeset.now:
            _end(changeset, booking, EventKind.BOOKING_ENDED, Cause.TIME)
        elif booking.state is BookingState.PLANNED and booking.start_at <= changeset.now:
            _move(changeset, booking, BookingState.OPEN, EventKind.BOOKING_STARTED, Cause.TIME)


def _end(changeset: Changeset, booking: Booking, kind: EventKind, cause: Cause | IntentKind) -> None:
    """End the booking. Its jobs go on as ordinary ones; those that are not preemptible are stopped and queued again.

    A booking that was never open has none: jobs under its name belong to an earlier booking of that name.
    """
    if booking.state is BookingState.OPEN:
        for job in list(changeset.active_jobs()):
            if job.state in _STOPPABLE and _outstays(job, booking):
                _stop(changeset, job)
        for job in changeset.held_jobs():
            if job.held_from in _STOPPABLE and not job.cancelled and _outstays(job, booking):
                changeset.put_held(replace(job, stop_reason=StopReason.BOOKING_ENDED))
    _over(changeset, booking)
    changeset.event(kind, cause=cause, detail=_line(booking))


def stop_released(changeset: Changeset, job_id: JobId) -> None:
    """Stop the job, which was held until now, if its booking has ended meanwhile."""
    job = changeset.the_job(job_id)
    if job.stop_reason is StopReason.BOOKING_ENDED and job.state in _STOPPABLE:
        _stop(changeset, job)


def _outstays(job: Job, booking: Booking) -> bool:
    """Whether nobody could take from the job what it has of the booking."""
    return not job.spec.preemptible and not job.finishing and booking.admits(job)


def _stop(changeset: Changeset, job: Job) -> None:
    begin_stop(changeset, job.id, StopReason.BOOKING_ENDED, detail=f"booking {job.spec.booking} has ended")


def _over(changeset: Changeset, booking: Booking) -> None:
    check_booking_transition(booking, BookingState.OVER)
    changeset.put_booking(replace(booking, state=BookingState.OVER))


def _move(
    changeset: Changeset, booking: Booking, state: BookingState, kind: EventKind, cause: Cause | IntentKind
) -> None:
    check_booking_transition(booking, state)
    changeset.put_booking(replace(booking, state=state))
    changeset.event(kind, cause=cause, detail=_line(booking))


def _line(booking: Booking) -> str:
    return f"{booking.name}: {described(booking)}"
