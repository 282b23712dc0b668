"""Recent losses of a job to no other job: to bookings, with nodes, to others of the cluster."""

from collections import Counter
from collections.abc import Iterable, Iterator

from typing_extensions import TypedDict

from scheduler.http.explain.words import STOP_TEXTS
from scheduler.model.event import Event, EventKind
from scheduler.model.job import Job
from scheduler.model.job_state import StopReason
from scheduler.model.words import counted
from scheduler.model.worker import ExitReason, LeaveReason
from scheduler.model.world import World
from scheduler.store.sqlstore import SqlStore

#: Losses that are returned, newest first, and newest events of the job that are searched for them.
LOSSES_MAX = 5
EVENTS_MAX = 100
#: Events that are searched for the end of another booking since.
SINCE_MAX = 20_000

#: Ends of workers that their node, or its administration, took from their job.
_LOST = {
    ExitReason.LOST: "lost with their node, or ended in an unknown way",
    ExitReason.DRAINED: "their machine asked them to leave",
    ExitReason.EVICTED: "their node ran out of a resource",
    ExitReason.DISPLACED: "the cluster preempted them for a more important workload",
    ExitReason.REMOVED: "they were removed from outside the scheduler",
}
#: Why a job gives up workers for no other job, by cause.
_TAKEN: dict[str, str] = {
    LeaveReason.SCALED: "a user lowered its maximum",
    LeaveReason.NO_GAIN: "it was faster with fewer workers",
    **{
        reason: STOP_TEXTS[reason]
        for reason in (
            StopReason.BOOKED,
            StopReason.BOOKING_ENDED,
            StopReason.DRAINED,
            StopReason.BELOW_MINIMUM,
            StopReason.OVERSOLD,
            StopReason.FOREIGN,
        )
    },
}
_OVER = (EventKind.BOOKING_ENDED, EventKind.BOOKING_CANCELLED)


class LossView(TypedDict):
    """A job lost workers, and to no other job."""

    #: When; unix seconds.
    at: float
    #: JOB_SHRANK, JOB_STOPPING (all of them), or WORKER_ENDED.
    kind: str
    #: Why workers leave or how they ended.
    reason: str
    #: Number of workers and reason, for people.
    sentence: str


def losses_of(store: SqlStore, job: Job, world: World) -> list[LossView]:
    """Losses of the job, newest first."""
    asked = store.newest_of_job(job.id, (EventKind.JOB_SHRANK, EventKind.JOB_STOPPING), EVENTS_MAX)
    given = [(number, event) for number, event in asked if event.for_job is None and event.cause in _TAKEN]
    ended = [event for _, event in store.newest_of_job(job.id, (EventKind.WORKER_ENDED,), EVENTS_MAX)]
    losses = [_given_up(event, _booking_then(store, world, number, event)) for number, event in given[:LOSSES_MAX]]
    return sorted([*losses, *_lost(ended)], key=lambda loss: -loss["at"])[:LOSSES_MAX]


def _given_up(event: Event, booking: str | None) -> LossView:
    """A loss that the scheduler asked for, with the booking that it was for, if known."""
    what = event.detail if event.kind is EventKind.JOB_SHRANK else "all workers"
    whom = f" (booking {booking})" if booking is not None else ""
    why = f"{what}: {_TAKEN[event.cause]}{whom}"
    return {"at": event.at, "kind": event.kind, "reason": event.cause, "sentence": why}


def _booking_then(store: SqlStore, world: World, number: int, event: Event) -> str | None:
    """Name of the booking for which the slots were taken; None unless exactly one qualifies."""
    if event.cause != StopReason.BOOKED:
        return None
    names = [each.name for each in world.bookings.values() if each.created_at <= event.at < each.end_at]
    if len(names) != 1:
        return None
    since = store.scan_events(number, _OVER, SINCE_MAX)
    return None if since.events or since.seen - number >= SINCE_MAX else names[0]


def _lost(events: Iterable[Event]) -> Iterator[LossView]:
    """Losses of workers that were not asked to leave, those of one moment and node together."""
    together = Counter[tuple[float, str, str]]()
    for event in events:
        if event.cause in _LOST:
            together[event.at, event.cause, event.node or ""] += 1
    for (at, cause, node), count in together.items():
        what = f"{counted(count, 'worker')} on {node}" if node else counted(count, "worker")
        sentence = f"{what}: {_LOST[ExitReason(cause)]}"
        yield {"at": at, "kind": EventKind.WORKER_ENDED, "reason": cause, "sentence": sentence}
