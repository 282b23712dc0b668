"""What happened to jobs, workers and nodes, counted from each tick's events."""

from scheduler.engine.tick import TickReport
from scheduler.metrics.classes import PriorityClasses
from scheduler.metrics.metric import ANY_CLASS, Metric, each, known
from scheduler.metrics.recorder import Recorder
from scheduler.model.event import Cause, Event, EventKind
from scheduler.model.ids import JobId
from scheduler.model.intent import IntentKind
from scheduler.model.job import Job
from scheduler.model.job_state import StopReason
from scheduler.model.worker import ExitReason, LeaveReason

_WAIT_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600)
_PREEMPT_BUCKETS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.5, 2, 3, 5, 10, 30, 60, 300)
_COMPLETION_BUCKETS = (1, 10, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 86400, 3 * 86400, 7 * 86400, 30 * 86400)


_STOPS = tuple(StopReason)
_EXITS = tuple(ExitReason)
#: A job grows for no other reason.
_CAUSES = frozenset({Cause.FREE_SLOTS, *StopReason, *LeaveReason, *ExitReason})
_RETURNS = tuple(reason for reason in StopReason if reason is not StopReason.CANCELLED)
#: Why a job that goes on with fewer workers is asked to give up some.
_SHRINKS = (
    LeaveReason.PREEMPTED,
    LeaveReason.REBALANCED,
    LeaveReason.NO_GAIN,
    LeaveReason.DRAINED,
    LeaveReason.BOOKED,
    LeaveReason.FOREIGN,
    LeaveReason.RECLAIMED,
    LeaveReason.SCALED,
    LeaveReason.OVERSOLD,
)
_ENDS = (
    ("SUCCEEDED", ExitReason.DONE.value),
    ("FAILED", StopReason.RETRIES_EXHAUSTED.value),
    ("FAILED", StopReason.CANNOT_START.value),
    ("FAILED", StopReason.TIME_LIMIT.value),
    ("CANCELLED", StopReason.CANCELLED.value),
)
_NODE_CHANGES = {
    EventKind.NODE_UP: "up",
    EventKind.NODE_DOWN: "down",
    EventKind.NODE_CORDONED: "cordoned",
    EventKind.NODE_UNCORDONED: "uncordoned",
    EventKind.NODE_DRAINING: "draining",
    EventKind.NODE_QUARANTINED: "quarantined",
    EventKind.NODE_RESIZED: "resized",
    EventKind.NODE_SLOTS_CLOSED: "slots_closed",
    EventKind.NODE_SLOTS_OPENED: "slots_opened",
    EventKind.NODE_FORGOTTEN: "forgotten",
}

EVENT_METRICS = (
    Metric(
        "sched_job_wait_seconds",
        "histogram",
        ("priority_class",),
        "Time from queueing, or requeueing, to start.",
        _WAIT_BUCKETS,
        each((ANY_CLASS,)),
    ),
    Metric(
        "sched_preempt_to_running_seconds",
        "histogram",
        (),
        "Time from the first request to a worker to leave for a job until the job runs. The time restarts if the job "
        "gives up the slots reserved for it, or is suspended.",
        _PREEMPT_BUCKETS,
    ),
    Metric(
        "sched_resize_pause_seconds",
        "histogram",
        (),
        "Time from the last step at the old size to the first step at the new size, as measured by workers.",
        _PREEMPT_BUCKETS,
    ),
    Metric(
        "sched_job_completion_seconds",
        "histogram",
        ("priority_class",),
        "Time from submission to success.",
        _COMPLETION_BUCKETS,
        each((ANY_CLASS,)),
    ),
    Metric("sched_jobs_started_total", "counter", (), "Starts of jobs, including restarts."),
    Metric("sched_jobs_ended_total", "counter", ("state", "cause"), "Ended jobs, by state and cause.", series=_ENDS),
    Metric(
        "sched_resizes_total",
        "counter",
        ("direction", "cause"),
        "Resizes of running jobs, by direction (grow or shrink) and cause.",
        series=(("grow", Cause.FREE_SLOTS), *each(("shrink",), _SHRINKS)),
    ),
    Metric("sched_job_stops_total", "counter", ("cause",), "Jobs that were stopped, by cause.", series=each(_STOPS)),
    Metric(
        "sched_preemptions_total",
        "counter",
        ("how",),
        "Preemptions: a job shrank or was stopped for another one.",
        series=each(("shrink", "stop")),
    ),
    Metric(
        "sched_job_requeues_total",
        "counter",
        ("cause",),
        "Stopped jobs that went back to the queue, by cause of the stop.",
        series=each(_RETURNS),
    ),
    Metric(
        "sched_worker_restarts_total",
        "counter",
        ("cause",),
        "Failed workers that were replaced while the others continued, by cause.",
        series=each(_EXITS),
    ),
    Metric(
        "sched_workers_ended_total",
        "counter",
        ("cause",),
        "Workers that ended, by cause.",
        series=each(_EXITS),
    ),
    Metric(
        "sched_lost_work_slot_seconds_total",
        "counter",
        ("cause",),
        "Work lost since the last commit or checkpoint, in slot-seconds.",
        series=each((*_EXITS, *_STOPS)),
    ),
    Metric(
        "sched_resize_pause_slot_seconds_total",
        "counter",
        (),
        "Resize pauses as measured by workers, multiplied by the slots of the new size.",
    ),
    Metric(
        "sched_node_changes_total",
        "counter",
        ("change",),
        "Node changes: up, down, cordoned, uncordoned, draining, quarantined, resized, slots_closed, slots_opened, "
        "forgotten.",
        series=each(_NODE_CHANGES.values()),
    ),
    Metric(
        "sched_requests_refused_total",
        "counter",
        ("intent",),
        "User requests that could no longer be carried out.",
        series=each(IntentKind),
    ),
)

#: Beneficiaries of preemptions that may be waited for at once; older ones are given up.
_PENDING_MAX = 10_000


class EventCounts:
    """Takes in reports, on the engine's thread."""

    def __init__(self, recorder: Recorder, classes: PriorityClasses) -> None:
        self._recorder = recorder
        self._classes = classes
        #: When the first worker was asked to leave for a job that does not run yet.
        self._asked_at: dict[JobId, float] = {}

    def take(self, report: TickReport) -> None:
        """Count what the report tells."""
        jobs = {job.id: job for job in report.changed}
        for event in report.events:
            self._take(event, jobs.get(event.job_id) if event.job_id is not None else None)
        for job in report.changed:
            if _has_given_up(job):
                self._asked_at.pop(job.id, None)

    def _take(self, event: Event, job: Job | None) -> None:
        """`job`: as it is after the tick, where it is known."""
        count = self._recorder.count
        match event.kind:
            case EventKind.JOB_STARTED:
                count("sched_jobs_started_total")
                if job is not None and event.amount is not None:
                    self._of_class("sched_job_wait_seconds", event.amount, job)
            case EventKind.JOB_RUNNING:
                self._runs(event)
            case EventKind.JOB_GREW:
                count("sched_resizes_total", direction="grow", cause=known(event.cause, _CAUSES))
            case EventKind.JOB_SHRANK:
                count("sched_resizes_total", direction="shrink", cause=known(event.cause, _CAUSES))
                self._preempted(event, "shrink")
            case EventKind.JOB_STOPPING:
                count("sched_job_stops_total", cause=known(event.cause, _CAUSES))
                self._preempted(event, "stop")
                self._lost_work(event)
            case EventKind.JOB_REQUEUED:
                count("sched_job_requeues_total", cause=known(event.cause, _CAUSES))
            case EventKind.WORKER_REPLACED:
                count("sched_worker_restarts_total", cause=known(event.cause, _CAUSES))
            case EventKind.WORKER_ENDED:
                count("sched_workers_ended_total", cause=known(event.cause, _CAUSES))
                self._lost_work(event)
            case EventKind.JOB_SUCCEEDED | EventKind.JOB_FAILED | EventKind.JOB_CANCELLED:
                self._ended(event, job)
            case EventKind.REQUEST_REFUSED:
                count("sched_requests_refused_total", intent=known(event.cause, frozenset(IntentKind)))
            case kind if kind in _NODE_CHANGES:
                count("sched_node_changes_total", change=_NODE_CHANGES[kind])
            case _:
                pass

    def _runs(self, event: Event) -> None:
        asked_at = self._asked_at.pop(event.job_id, None) if event.job_id is not None else None
        if asked_at is not None:
            self._recorder.observe("sched_preempt_to_running_seconds", event.at - asked_at, job=event.job_id)

    def _ended(self, event: Event, job: Job | None) -> None:
        state = event.kind.removeprefix("JOB_")
        self._recorder.count("sched_jobs_ended_total", state=state, cause=known(event.cause, _CAUSES))
        if event.kind is EventKind.JOB_SUCCEEDED and job is not None:
            self._of_class("sched_job_completion_seconds", event.at - job.submitted_at, job)

    def _of_class(self, name: str, seconds: float, job: Job) -> None:
        self._recorder.observe(name, seconds, {"priority_class": self._classes.of(job.priority)}, job.id)

    def _preempted(self, event: Event, how: str) -> None:
        if event.cause not in (StopReason.PREEMPTED, StopReason.REBALANCED, StopReason.RECLAIMED):
            return
        self._recorder.count("sched_preemptions_total", how=how)
        if event.for_job is not None:
            self._asked_at.setdefault(event.for_job, event.at)
            if len(self._asked_at) > _PENDING_MAX:
                del self._asked_at[next(iter(self._asked_at))]

    def _lost_work(self, event: Event) -> None:
        if event.amount:
            cause = known(event.cause, _CAUSES)
            self._recorder.count("sched_lost_work_slot_seconds_total", event.amount, cause=cause)


def _has_given_up(job: Job) -> bool:
    """Whether nothing is held for the job any more, and it does not run either."""
    return not (job.state.active or job.reservation or job.fixed_reservation)
