"""One log line for each decision: what was done with which job or node, in which generation, why, and for whom.

Written on a thread of its own, since thousands of decisions may fall into one tick. History (`sched events`) has them,
too; what cannot be written in time is left out here, and said so.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from queue import Full, Queue
from typing import Any

import structlog

from scheduler.engine.tick import TickReport
from scheduler.model.event import Event, EventKind
from scheduler.model.ids import JobId
from scheduler.model.job import Job, JobState, WaitReason

log = structlog.get_logger(__name__)

#: Reports that wait to be written at most.
REPORTS_MAX = 1000
#: Of one tick, the others are counted: ten thousand jobs may come to wait at once, and starts alone are few.
WAITS_MAX = 100
STOP_SECONDS = 5.0

#: What is decided, and why where the event itself names no cause.
DECISIONS: dict[EventKind, str] = {
    EventKind.JOB_STARTED: "SLOTS_FREE",
    EventKind.JOB_GREW: "SLOTS_FREE",
    EventKind.JOB_SHRANK: "",
    EventKind.JOB_STOPPING: "",
    EventKind.JOB_REQUEUED: "",
    EventKind.JOB_SUSPENDED: "REQUESTED",
    EventKind.JOB_RESUMED: "REQUESTED",
    EventKind.JOB_RESERVED: "SLOTS_BEING_FREED",
    EventKind.JOB_SUCCEEDED: "DONE",
    EventKind.JOB_FAILED: "",
    EventKind.JOB_CANCELLED: "REQUESTED",
    EventKind.JOB_CHANGED: "REQUESTED",
    EventKind.GENERATION_PUBLISHED: "MEMBERS_CHANGED",
    EventKind.SUBGENERATION_ADOPTED: "WORKERS_LOST",
    EventKind.WORKER_REPLACED: "",
    EventKind.NODE_UP: "OBSERVED",
    EventKind.NODE_DOWN: "OBSERVED",
    EventKind.NODE_CORDONED: "REQUESTED",
    EventKind.NODE_UNCORDONED: "",
    EventKind.NODE_DRAINING: "REQUESTED",
    EventKind.NODE_QUARANTINED: "FAILURES",
    EventKind.BOOKING_PLANNED: "REQUESTED",
    EventKind.BOOKING_STARTED: "TIME",
    EventKind.BOOKING_ENDED: "TIME",
    EventKind.BOOKING_CANCELLED: "REQUESTED",
    EventKind.REQUEST_REFUSED: "",
}


class DecisionLog:
    """Takes the leader's reports on the engine's thread, and writes their decisions on another one."""

    def __init__(self) -> None:
        self._reports: Queue[TickReport | None] = Queue(REPORTS_MAX)
        self._left_out = 0
        #: Why each waiting job was said to wait.
        self._waits: dict[JobId, tuple[WaitReason, JobId | None]] = {}
        self._thread = threading.Thread(target=self._run, name="decisions", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Write what has come so far."""
        with suppress(Full):  # nobody reads stderr
            self._reports.put(None, timeout=STOP_SECONDS)
        self._thread.join(STOP_SECONDS)

    def see(self, report: TickReport) -> None:
        """Take in what a tick did; never waits."""
        if not report.leading or not (report.events or report.changed):
            return
        try:
            self._reports.put_nowait(report)
        except Full:
            self._left_out += 1

    def _run(self) -> None:
        while (report := self._reports.get()) is not None:
            if self._left_out:
                log.warning("decisions of some ticks are not in the log: see `sched events`", ticks=self._left_out)
                self._left_out = 0
            for what, facts in self.lines(report):
                log.info(what, **facts)

    def lines(self, report: TickReport) -> Iterator[tuple[str, dict[str, Any]]]:
        """What is to be written of a report, in the order in which it was decided."""
        jobs = {job.id: job for job in report.changed}
        for event in report.events:
            if event.kind in DECISIONS:
                yield event.kind.lower().replace("_", " "), _facts(event, jobs.get(event.job_id or JobId(0)))
        waiting = [job for job in report.changed if self._comes_to_wait(job)]
        for job in waiting[:WAITS_MAX]:
            facts = {"job": job.id, "generation": job.generation, "reason": _why(job), "for_job": job.wait_for}
            yield "job waits", {name: value for name, value in facts.items() if value is not None}
        for reason, count in Counter(map(_why, waiting[WAITS_MAX:])).items():
            yield "more jobs wait", {"jobs": count, "reason": reason}

    def _comes_to_wait(self, job: Job) -> bool:
        """Whether it waits for something that it has not waited for before."""
        reason = job.wait_reason
        if job.state is not JobState.QUEUED or reason is None:
            self._waits.pop(job.id, None)
            return False
        why = (reason, job.wait_for)
        if reason is WaitReason.SUBMITTED or self._waits.get(job.id) == why:
            return False
        self._waits[job.id] = why
        return True


def _why(job: Job) -> str:
    return "" if job.wait_reason is None else job.wait_reason.value


def _facts(event: Event, job: Job | None) -> dict[str, Any]:
    """Those that there are."""
    facts = {
        "job": event.job_id,
        "generation": None if job is None else job.generation,
        "reason": event.cause or DECISIONS[event.kind],
        "for_job": event.for_job,
        "worker": event.worker_id,
        "node": event.node,
        "detail": event.detail,
    }
    return {name: value for name, value in facts.items() if value not in (None, "")}
