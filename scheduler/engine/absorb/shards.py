"""Absorb the progress of jobs on their data: workers report shards to the store, through any replica."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from scheduler import bounds
from scheduler.config import EngineSettings
from scheduler.engine.absorb.workers import with_fraction
from scheduler.engine.changeset import Changeset
from scheduler.engine.ports import Store
from scheduler.engine.state.deadlines import hang_deadline
from scheduler.engine.state.reports import Liveness, ReportBox
from scheduler.model.data_queue import DataQueue
from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.observation import Observation, WorkerReport
from scheduler.model.worker import Worker
from scheduler.model.world import World


class DataWatch:
    """Reads the store only while a job with data is active, and only where it may matter."""

    def __init__(self, store: Store, settings: EngineSettings) -> None:
        self._store = store
        self._settings = settings
        self._looked_at = -math.inf

    def shares_done(self, world: World, now: float) -> Mapping[JobId, float]:
        """The done share of each active job's data, once per interval; nothing in between."""
        interval_seconds = self._settings.progress_interval_seconds
        if 0 <= now - self._looked_at < interval_seconds:  # also where the machine's time was set back
            return {}
        self._looked_at = now
        if all(job.spec.data is None for job in world.active.values()):
            return {}
        return self._store.data_shares_done()

    def all_queues(self, world: World) -> Mapping[JobId, DataQueue]:
        """The data of all active jobs."""
        reading = [job.id for job in world.active.values() if job.spec.data is not None]
        return self._store.read_queues(reading) if reading else {}

    def queues(
        self, jobs: Iterable[Job], observation: Observation, liveness: Liveness, now: float
    ) -> Mapping[JobId, DataQueue]:
        """The data of those of the jobs that may end now, or that have a worker which ended or seems to hang."""

        def matters(job: Job, worker: Worker) -> bool:
            seen = observation.workers.get(worker.id)
            deadline = hang_deadline(job, worker, liveness, self._settings)
            return (seen is not None and not seen.alive) or (deadline is not None and deadline <= now)

        reading = [job for job in jobs if job.spec.data is not None]
        wanted = [job.id for job in reading if job.finishing or any(matters(job, each) for each in job.all_workers)]
        return self._store.read_queues(wanted) if wanted else {}


def absorb_data(changeset: Changeset, shares: Mapping[JobId, float], reports: ReportBox) -> None:
    """Keep the share as the job's fraction, unless its workers report one of their own."""
    for job_id, exact in shares.items():
        job, share = changeset.job(job_id), bounds.FRACTION.nearest(exact)
        if job is None or not job.state.active or job.progress.fraction == share:
            continue
        report = _report_of_oldest(job, reports)
        if report is None:
            changeset.put_progress(job, replace(with_fraction(job, share, changeset.now), reported_at=changeset.now))
        elif report.fraction is None:
            # The time of the last report decides when the next one is kept.
            changeset.put_progress(job, with_fraction(job, share, changeset.now))


def _report_of_oldest(job: Job, reports: ReportBox) -> WorkerReport | None:
    oldest = next((worker for worker in job.workers if worker.rank == 0), None)
    return None if oldest is None else reports.latest(oldest.id)
