"""I12: no duration ends early, whatever is done to clocks."""

from typing import TYPE_CHECKING

from scheduler.model.event import EventKind
from scheduler.model.ids import JobId
from tests.invariants.broken import hold

if TYPE_CHECKING:
    from tests.faults.run import Run

#: Of comparing times of two clocks.
TOLERANCE_SECONDS = 0.5


class Durations:
    """No time limit ends a job before the job has run for that time, by the true clock."""

    def __init__(self) -> None:
        self._started_at: dict[JobId, float] = {}

    def after_tick(self, run: "Run") -> None:
        """Look at what the tick did."""
        ahead = run.leader.clock.now() - run.clock.now()
        # A daemon that comes back on another machine than the leader's may have nothing but a clock that was set.
        strange = len(run.daemons) > 1 and any(daemon.starts > 1 for daemon in run.daemons)
        strange = strange or any(daemon.misled for daemon in run.daemons)
        for event in run.engine.report.events:
            if event.job_id is None:
                continue
            now = event.at - ahead  # a tick may stand still between its beginning and its report
            if event.kind is EventKind.JOB_STARTED:
                self._started_at[event.job_id] = now
            elif event.kind is EventKind.JOB_STOPPING and event.cause == "TIME_LIMIT" and not strange:
                limit = run.scenario.arrivals[run.submitted.index(event.job_id)].spec.time_limit_seconds
                ran = now - self._started_at.get(event.job_id, now)
                enough = limit is None or event.job_id not in self._started_at or ran >= limit - TOLERANCE_SECONDS
                hold(enough, "I12", f"job {event.job_id} ran for {ran:.1f} s of its limit of {limit} s")
