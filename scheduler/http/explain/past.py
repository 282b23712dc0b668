"""The history of a job: since when it is as it is, and which jobs recently gave up workers for which."""

from collections.abc import Iterable
from typing import assert_never

from typing_extensions import TypedDict

from scheduler.http.explain.losses import LossView, losses_of
from scheduler.model.event import Event, EventKind
from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.model.worker import ExitReason
from scheduler.model.world import World
from scheduler.store.sqlstore import SqlStore

#: Takings that are returned of each kind, newest first.
TAKINGS_MAX = 5
#: Newest events that are searched for what other jobs gave up for this one.
EVENTS_MAX = 20_000
#: Newest events of the job that are searched for its last change of size.
STEPS_MAX = 100

_TAKINGS = (EventKind.JOB_SHRANK, EventKind.JOB_STOPPING)
_WAITS = (EventKind.JOB_WAITS, EventKind.JOB_SUBMITTED, EventKind.JOB_REQUEUED, EventKind.JOB_RESUMED)
_RESIZES = (EventKind.JOB_STARTED, EventKind.JOB_GREW, EventKind.JOB_SHRANK)
_STEPS = (*_RESIZES, EventKind.WORKER_ENDED, EventKind.WORKER_REPLACED)


class TakingView(TypedDict):
    """A job gave up workers for another one."""

    #: When; unix seconds.
    at: float
    #: JOB_SHRANK, or JOB_STOPPING: it gave up all of them.
    kind: str
    #: The job that gave up workers.
    job_id: int
    #: The job that they were taken for.
    for_job: int
    #: Leave or stop reason.
    reason: str
    #: As `4 -> 2 workers`.
    detail: str
    #: Work since it was saved last, where all workers were given up; null: not known.
    lost_slot_seconds: float | None


class Past(TypedDict):
    #: Since when it waits for this reason, has this size, is being stopped or suspended, or has ended; null: unknown.
    since: float | None
    #: Workers that it recently gave up for other jobs, newest first.
    gave: list[TakingView]
    #: Workers that other jobs gave up for it, newest first.
    got: list[TakingView]
    #: Other losses: to bookings, with nodes, to others of the cluster; newest first.
    lost: list[LossView]


def past_of(store: SqlStore, job: Job, world: World) -> Past:
    """The history of the job up to its present state."""
    given = [event for _, event in store.newest_of_job(job.id, _TAKINGS, TAKINGS_MAX * 4)]
    got = [event for _, event in store.newest_for_job(job.id, _TAKINGS, TAKINGS_MAX, EVENTS_MAX)]
    return {
        "since": _since(store, job),
        "gave": _takings(given),
        "got": _takings(got),
        "lost": losses_of(store, job, world),
    }


def _takings(events: Iterable[Event]) -> list[TakingView]:
    views: list[TakingView] = [
        {
            "at": event.at,
            "kind": event.kind,
            "job_id": event.job_id,
            "for_job": event.for_job,
            "reason": event.cause,
            "detail": event.detail,
            "lost_slot_seconds": event.amount if event.kind is EventKind.JOB_STOPPING else None,
        }
        for event in events
        if event.job_id is not None and event.for_job is not None and event.job_id != event.for_job
    ]
    return views[:TAKINGS_MAX]


def _since(store: SqlStore, job: Job) -> float | None:
    """Begin of the present state; if retention has removed that event, the earliest known time."""
    match job.state:
        case JobState.QUEUED:
            return _newest(store, job, _WAITS, job.queued_at)
        case JobState.STARTING | JobState.RUNNING | JobState.RESIZING:
            return _since_this_size(store, job)
        case JobState.STOPPING:
            return _newest(store, job, (EventKind.JOB_STOPPING,), None)
        case JobState.SUSPENDED:
            return _newest(store, job, (EventKind.JOB_SUSPENDED,), None)
        case JobState.HELD:
            return _newest(store, job, (EventKind.JOB_HELD,), None)
        case JobState.SUCCEEDED | JobState.FAILED | JobState.CANCELLED:
            return job.finished_at
        case _:
            assert_never(job.state)


def _newest(store: SqlStore, job: Job, kinds: tuple[EventKind, ...], otherwise: float | None) -> float | None:
    found = store.newest_of_job(job.id, kinds, 1)
    return found[0][1].at if found else otherwise


def _since_this_size(store: SqlStore, job: Job) -> float | None:
    """When its wanted number of workers changed last; a replacement is no change."""
    replaced = 0
    for _, event in store.newest_of_job(job.id, _STEPS, STEPS_MAX):
        if event.kind is EventKind.WORKER_REPLACED:
            replaced += 1
        elif event.kind in _RESIZES:
            return event.at
        elif event.cause not in (ExitReason.ASKED, ExitReason.DONE):
            if not replaced:
                return event.at
            replaced -= 1
    return job.started_at
