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
from scheduler.model.event import DECISIONS, Event, EventKind
from scheduler.model.ids import JobId
from scheduler.model.job import Job

log = structlog.get_logger(__name__)

#: Reports that wait to be written at most.
REPORTS_MAX = 1000
#: Of one tick, the others are counted: ten thousand jobs may come to wait at once, and starts alone are few.
WAITS_MAX = 100
STOP_SECONDS = 5.0


class DecisionLog:
    """Takes the leader's reports on the engine's thread, and writes their decisions on another one."""

    def __init__(self) -> None:
        self._reports: Queue[TickReport | None] = Queue(REPORTS_MAX)
        self._left_out = 0
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
        if not report.leading or not report.events:
            return
        try:
            self._reports.put_nowait(report)
        except Full:
            self._left_out += 1

    def _run(self) -> None:
        while (report := self._reports.get()) is not None:
            if self._left_out:
                log.warning("decisions of some ticks were not logged: see `sched events`", ticks=self._left_out)
                self._left_out = 0
            try:
                for what, facts in self.lines(report):
                    log.info(what, **facts)
            except Exception:
                log.exception("decisions of a tick could not be logged: see `sched events`")

    def lines(self, report: TickReport) -> Iterator[tuple[str, dict[str, Any]]]:
        """What is to be written of a report, in the order in which it was decided."""
        jobs = {job.id: job for job in report.changed}
        waits, unsaid = 0, Counter[str]()
        for event in report.events:
            waits += event.kind is EventKind.JOB_WAITS
            if event.kind is EventKind.JOB_WAITS and waits > WAITS_MAX:
                unsaid[event.cause] += 1
            elif event.kind in DECISIONS:
                yield event.kind.lower().replace("_", " "), _facts(event, jobs.get(event.job_id or JobId(0)))
        for reason, count in unsaid.items():
            yield "more jobs are waiting", {"jobs": count, "reason": reason}


def _facts(event: Event, job: Job | None) -> dict[str, Any]:
    """Those that there are."""
    facts = {
        "job": event.job_id,
        "generation": None if job is None else job.generation,
        "reason": event.cause,
        "for_job": event.for_job,
        "worker": event.worker_id,
        "node": event.node,
        "detail": event.detail,
    }
    return {name: value for name, value in facts.items() if value not in (None, "")}
