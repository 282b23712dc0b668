"""HANGS: a worker that hangs is found in time, whatever else happens, as long as a daemon leads and observes."""

from typing import TYPE_CHECKING

from scheduler.engine.state.deadlines import silence_seconds_max
from scheduler.model.ids import WorkerId, job_of
from scheduler.model.worker import Worker
from tests.faults.kinds import SlowCommits, SlowObservations
from tests.invariants.broken import hold

if TYPE_CHECKING:
    from tests.faults.daemon import Daemon, Fate, Slow
    from tests.faults.run import Run

#: Reports may come late, and ticks take their time.
SLACK_SECONDS = 10.0
#: Who did not decide for longer stood still: what it did not hear proves nothing.
STANDSTILL_SECONDS = 15.0


class HangsEnd:
    """Counts for how long workers have hung while one and the same daemon could have noticed."""

    def __init__(self, run: "Run") -> None:
        self._run = run
        self._hung_since: dict[WorkerId, float] = {}
        self._leader = ""
        self._decided_at = 0.0

    def begins(self, worker_id: WorkerId) -> None:
        self._hung_since[worker_id] = self._run.clock.now()

    def after_tick(self, daemon: "Daemon", fate: "Fate | Slow | None") -> None:
        """Look at those that hang after a tick, of which something may have befallen the daemon."""
        if not daemon.leads or not self._hung_since:
            return
        now, report = self._run.clock.now(), daemon.engine.report
        if isinstance(fate, SlowCommits | SlowObservations):
            return
        term = f"{daemon.holder} {daemon.starts} {daemon.line.term}"
        standstill = now - self._decided_at > STANDSTILL_SECONDS
        self._decided_at = now
        if fate is not None or report.error is not None or report.action_failures or standstill or term != self._leader:
            self._leader = term
            self._hung_since = dict.fromkeys(self._hung_since, now)
        for worker_id in list(self._hung_since):
            self._look(daemon, worker_id, now)

    def _look(self, daemon: "Daemon", worker_id: WorkerId, now: float) -> None:
        process, worker = self._run.cluster.process(worker_id), _wanted(daemon, worker_id)
        may_come_back = worker is not None or job_of(worker_id) in self._run.spoilt.jobs
        if process is None or not process.alive or not may_come_back:
            del self._hung_since[worker_id]
            return
        if worker is None:
            self._hung_since[worker_id] = now
            return
        job, settings = daemon.engine.world.active[job_of(worker_id)], daemon.settings.engine
        limit = silence_seconds_max(job, worker, settings)
        never_reported = worker.fixed and worker.reported_generation == 0
        if limit is None or never_reported or self._run.is_lost(process.node):
            self._hung_since[worker_id] = now
            return
        hung = now - self._hung_since[worker_id]
        in_time = hung <= limit + settings.ready_seconds + SLACK_SECONDS
        hold(in_time, "HANGS", f"worker {worker_id} ({worker.state}) has hung for {hung:.1f} s of {limit:g} s")


def _wanted(daemon: "Daemon", worker_id: WorkerId) -> Worker | None:
    """The worker, as long as it is neither asked to leave nor known to hang."""
    world = daemon.engine.world
    job = world.active.get(job_of(worker_id)) if world is not None else None
    worker = job.worker(worker_id) if job is not None else None
    return worker if worker is not None and worker.wanted and not worker.condemned else None
