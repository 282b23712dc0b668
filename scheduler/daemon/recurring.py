"""Recurring jobs: submitted by cron expression, each time once, and once for all times that were missed.

SQL keeps the entries and how far each has been submitted. So a restart, a second daemon or a repeated sweep submits
nothing twice: the client key of a run names its time.

Cron goes by the machine's time, as people read it; jobs are submitted by the engine's clock.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import structlog

from scheduler.daemon.cron import Cron
from scheduler.engine.ports import EngineClock
from scheduler.errors import InvalidInput, SchedulerError
from scheduler.http.services import Schedule
from scheduler.model.client_key import run_key
from scheduler.model.ids import JobId
from scheduler.model.job import JobSpec
from scheduler.store.records import Recurring
from scheduler.store.sqlstore import SqlStore

log = structlog.get_logger(__name__)

#: The times of expressions are whole minutes.
MINUTE_SECONDS = 60.0


def due_time(entry: Recurring, now: float) -> float | None:
    """The first time of the expression that has come and was not submitted for; None if there is none."""
    due = Cron(entry.cron, entry.timezone).next_after(_reached(entry))
    return due if due is not None and due <= now else None


def _reached(entry: Recurring) -> float:
    return entry.created_at if entry.last_run_at is None else entry.last_run_at


def submit_due(store: SqlStore, entry: Recurring, wall: float, now: float) -> JobId | None:
    """Submit one job if a time has come by `wall`; all up to then are done with. None if nothing was due."""
    due = due_time(entry, wall)
    if due is None:
        if _reached(entry) > wall + MINUTE_SECONDS:  # the clock was set back; times that come again have known keys
            store.resume_recurring(entry.id, wall)
        return None
    spec = replace(entry.spec, client_key=run_key(entry.id, due))
    [submitted] = store.submit([spec], now)
    # If it is lost before this, the same time is due again and its key is known.
    store.mark_recurring_run(entry.id, wall)
    return submitted.id


class RecurringJobs:
    """The entries of one store. Their owner calls `sweep` as each minute begins."""

    def __init__(self, store: SqlStore, clock: EngineClock) -> None:
        self._store = store
        self._clock = clock
        #: Called with the jobs that were submitted.
        self.on_submitted: Callable[[Sequence[JobId]], None] = _ignore

    def seconds_to_next_minute(self) -> float:
        return MINUTE_SECONDS - self._clock.wall() % MINUTE_SECONDS

    def sweep(self) -> None:
        """Submit whatever is due, runs that were missed included."""
        try:
            for entry in self._store.list_recurring():
                self._submit_or_tell(entry)
        except SchedulerError as error:
            log.warning("recurring jobs failed, retrying later", error=str(error))

    def add(self, cron: str, timezone: str, spec: JobSpec) -> Schedule:
        now = self._clock.wall()
        if Cron(cron, timezone).next_after(now) is None:
            raise InvalidInput("cron", f"{cron!r} never matches a future time")
        entry = self._store.get_recurring(self._store.add_recurring(cron, timezone, spec, now))
        if entry is None:
            raise InvalidInput("cron", "the recurring job was deleted concurrently")
        return self._schedule(entry)

    def get(self, recurring_id: int) -> Schedule | None:
        entry = self._store.get_recurring(recurring_id)
        return None if entry is None else self._schedule(entry)

    def list(self) -> Sequence[Schedule]:
        """Those whose expression and timezone can be read."""
        found = []
        for entry in self._store.list_recurring():
            try:
                found.append(self._schedule(entry))
            except InvalidInput as error:
                log.warning("recurring job cannot be read", recurring=entry.id, error=str(error))
        return found

    def delete(self, recurring_id: int) -> bool:
        return self._store.delete_recurring(recurring_id, self._clock.wall())

    def _schedule(self, entry: Recurring) -> Schedule:
        return Schedule(entry, Cron(entry.cron, entry.timezone).next_after(self._clock.wall()))

    def _submit_or_tell(self, entry: Recurring) -> None:
        """One whose row makes no sense keeps no other from being submitted."""
        try:
            job_id = submit_due(self._store, entry, self._clock.wall(), self._clock.now())
        except InvalidInput as error:
            log.warning("recurring job cannot be submitted", recurring=entry.id, error=str(error))
            return
        if job_id is not None:
            log.info("recurring job submitted", recurring=entry.id, job=job_id)
            self.on_submitted([job_id])


def _ignore(_: Sequence[JobId]) -> None:
    """Nobody wants to know."""
