"""Upkeep: ended jobs, events, records of requests and logs that are older than the settings say are removed."""

from collections.abc import Callable
from pathlib import Path

import structlog

from scheduler.config import RetentionSettings
from scheduler.engine.ports import EngineClock
from scheduler.errors import UnreadableRow
from scheduler.model.ids import JobKey, split_job_key
from scheduler.store.records import Purged
from scheduler.store.sqlstore import SqlStore

log = structlog.get_logger(__name__)

INTERVAL_SECONDS = 3600
#: Rows per transaction, so that the engine's own commits never wait long.
BATCH_ROWS = 500


def purge(store: SqlStore, settings: RetentionSettings, now: float) -> Purged:
    """Remove all rows that are old enough; how many."""
    jobs = events = 0
    while True:
        purged = store.purge(now - settings.jobs_seconds, now - settings.events_seconds, BATCH_ROWS)
        jobs, events = jobs + purged.jobs, events + purged.events
        if purged.jobs < BATCH_ROWS and purged.events < BATCH_ROWS:
            return Purged(jobs, events)


def purge_audit(store: SqlStore, settings: RetentionSettings, wall: float) -> int:
    """Remove all records of requests, and tokens that open nothing, that are old enough; how many records."""
    before = wall - settings.audit_seconds
    _purge_all(store.purge_tokens, before)
    return _purge_all(store.purge_audit, before)


def _purge_all(purge_some: Callable[[float, int], int], before: float) -> int:
    """Remove what is older, batch by batch; how many."""
    removed = 0
    while True:
        count = purge_some(before, BATCH_ROWS)
        removed += count
        if count < BATCH_ROWS:
            return removed


def remove_orphaned_logs(store: SqlStore, logs_dir: Path, remove: Callable[[JobKey], None], older_than: float) -> int:
    """Remove logs of jobs that the store has no longer; how many jobs. Fresh directories are not looked at."""
    removed = 0
    for path in logs_dir.iterdir() if logs_dir.is_dir() else ():
        try:
            job_id, nonce = split_job_key(path.name)
        except ValueError:
            continue  # not a job's
        if path.stat().st_mtime >= older_than:
            continue
        try:
            job = store.get_job(job_id)
        except UnreadableRow:
            continue  # it may be this job's
        if job is None or job.nonce != nonce:
            remove(JobKey(path.name))
            removed += 1
    return removed


class Retention:
    """The periodic removal."""

    def __init__(
        self,
        store: SqlStore,
        settings: RetentionSettings,
        clock: EngineClock,
        logs_dir: Path,
        remove_logs: Callable[[JobKey], None],
        waits: Callable[[], bool],
    ) -> None:
        """`waits`: whether nothing may be removed for now; another replica leads, or somebody has set the clock."""
        self._store = store
        self._settings = settings
        self._clock = clock
        self._waits = waits
        self._logs_dir = logs_dir
        self._remove_logs = remove_logs

    def run(self) -> None:
        """Remove what is old enough now; the next run makes up for one that failed."""
        if self._waits():
            return
        purged = purge(self._store, self._settings, self._clock.now())
        wall = self._clock.wall()  # which files, tokens and records of requests bear
        audit = purge_audit(self._store, self._settings, wall)
        older_than = wall - self._settings.jobs_seconds
        logs = remove_orphaned_logs(self._store, self._logs_dir, self._remove_logs, older_than)
        if purged.jobs or purged.events or audit or logs:
            log.info("retention removed old rows", jobs=purged.jobs, events=purged.events, audit=audit, logs=logs)
