"""Absorb how far jobs are with their data: workers report shards to the store, on whichever replica."""

import math
from collections.abc import Mapping
from dataclasses import replace

from scheduler.engine.draft import Draft
from scheduler.engine.ports import Store
from scheduler.engine.reports import ReportBox
from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.observation import WorkerReport
from scheduler.model.world import World


class DataWatch:
    """Looks at most once per interval, and only while a job with data is active."""

    def __init__(self, store: Store, interval_seconds: float) -> None:
        self._store = store
        self._interval_seconds = interval_seconds
        self._looked_at = -math.inf

    def shares_done(self, world: World, now: float) -> Mapping[JobId, float]:
        """The share of its data that each active job is done with; nothing where it is not time to look."""
        if 0 <= now - self._looked_at < self._interval_seconds:  # also where the machine's time was set back
            return {}
        self._looked_at = now
        if all(job.spec.data is None for job in world.active.values()):
            return {}
        return self._store.data_shares_done()


def absorb_data(draft: Draft, shares: Mapping[JobId, float], reports: ReportBox) -> None:
    """Keep the share as the job's fraction, unless its workers report one of their own."""
    for job_id, share in shares.items():
        job = draft.job(job_id)
        if job is None or not job.state.active or job.progress.fraction == share:
            continue
        report = _report_of_oldest(job, reports)
        if report is None:
            draft.put_progress(job, replace(job.progress, fraction=share, reported_at=draft.now))
        elif report.fraction is None:
            # When it was reported last decides when the next report is kept.
            draft.put_progress(job, replace(job.progress, fraction=share))


def _report_of_oldest(job: Job, reports: ReportBox) -> WorkerReport | None:
    oldest = next((worker for worker in job.workers if worker.rank == 0), None)
    return None if oldest is None else reports.latest(oldest.id)
