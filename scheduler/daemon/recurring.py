"""Recurring jobs: submitted by cron expression, each time once, and once for all times that were missed.

SQL keeps the entries and how far each has been submitted; APScheduler only tells when to look. So a restart, a
second daemon or a repeated look submits nothing twice: the client key of a run names its time.

Cron goes by the machine's time, as people read it; jobs are submitted by the engine's clock.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC

import structlog
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler

from scheduler.daemon.cron import Cron
from scheduler.daemon.run_rights import check_run
from scheduler.engine.ports import EngineClock
from scheduler.errors import InvalidInput, SchedulerError, StoreUnavailable
from scheduler.http.auth.login_groups import groups_of
from scheduler.http.services import Schedule
from scheduler.model.client_key import run_key
from scheduler.model.identity import Identity
from scheduler.model.ids import JobId
from scheduler.model.job import JobSpec
from scheduler.store.records import Recurring
from scheduler.store.sqlstore import SqlStore

log = structlog.get_logger(__name__)

#: Whoever owns this calls `sweep` this often too: runs that the store refused, or that a clock which was set jumped
#: over, are made up for.
SWEEP_SECONDS = 60
#: Gives the groups of a login.
GroupsOf = Callable[[str], Collection[str]]


def due_time(entry: Recurring, now: float) -> float | None:
    """The first time of the expression that has come and was not submitted for; None if there is none."""
    due = Cron(entry.cron, entry.timezone).next_after(_reached(entry))
    return due if due is not None and due <= now else None


def _reached(entry: Recurring) -> float:
    return entry.created_at if entry.last_run_at is None else entry.last_run_at


def submit_due(
    store: SqlStore, entry: Recurring, wall: float, now: float, groups_of: GroupsOf = groups_of
) -> JobId | None:
    """Submit one job if a time has come by `wall`; all up to then are done with. None if nothing was due.

    Raises why it may not be submitted at `wall`.
    """
    due = due_time(entry, wall)
    if due is None:
        if _reached(entry) > wall + SWEEP_SECONDS:  # the clock was set back; times that come again have known keys
            store.resume_recurring(entry.id, wall)
        return None
    spec = replace(entry.spec, client_key=run_key(entry.id, due))
    if not store.find_submitted([spec]):
        check_run(store, entry, wall, groups_of)
    [submitted] = store.submit([spec], now)
    # If it is lost before this, the same time is due again and its key is known.
    store.mark_recurring_run(entry.id, wall)
    return submitted.id


class RecurringJobs:
    """The entries of one store, and their timers."""

    def __init__(self, store: SqlStore, clock: EngineClock, timers: BackgroundScheduler) -> None:
        self._store = store
        self._clock = clock
        self._timers = timers
        #: Called with the jobs that were submitted.
        self.on_submitted: Callable[[Sequence[JobId]], None] = _ignore

    def start(self) -> None:
        """Make up for what was missed, and set the timers. The scheduler may run already or start later."""
        for entry in self._store.list_recurring():
            with suppress(InvalidInput):  # `list` leaves it out
                self._set_timer(entry)
        self.sweep()

    def sweep(self) -> None:
        """Submit whatever is due."""
        try:
            for entry in self._store.list_recurring():
                self._submit_or_tell(entry)
        except SchedulerError as error:
            log.warning("recurring jobs failed, retrying later", error=str(error))

    def add(self, cron: str, timezone: str, spec: JobSpec, submitter: Identity) -> Schedule:
        now = self._clock.wall()
        if Cron(cron, timezone).next_after(now) is None:
            raise InvalidInput("cron", f"{cron!r} never matches a future time")
        entry = self._store.get_recurring(self._store.add_recurring(cron, timezone, spec, now, submitter))
        if entry is None:
            raise InvalidInput("cron", "the recurring job was deleted concurrently")
        self._set_timer(entry)
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
        existed = self._store.delete_recurring(recurring_id, self._clock.wall())
        with suppress(JobLookupError):  # another daemon has its timer
            self._timers.remove_job(_timer_id(recurring_id))
        return existed

    def _schedule(self, entry: Recurring) -> Schedule:
        return Schedule(entry, Cron(entry.cron, entry.timezone).next_after(self._clock.wall()))

    def _set_timer(self, entry: Recurring) -> None:
        self._timers.add_job(
            self._fire,
            Cron(entry.cron, entry.timezone),
            args=[entry.id],
            id=_timer_id(entry.id),
            coalesce=True,
            misfire_grace_time=None,
            replace_existing=True,
        )

    def _fire(self, recurring_id: int) -> None:
        try:
            entry = self._store.get_recurring(recurring_id)
            if entry is not None:
                self._submit_or_tell(entry)
        except SchedulerError as error:
            log.warning("recurring job failed, retrying later", recurring=recurring_id, error=str(error))

    def _submit_or_tell(self, entry: Recurring) -> None:
        """Whatever keeps one from being submitted keeps no other from it, unless the store is away.

        What is stored as said already, by this daemon or another, is not said again.
        """
        try:
            self._submit_due(entry)
        except StoreUnavailable:
            raise
        except SchedulerError as error:
            if str(error) != entry.refusal:
                log.warning("recurring job cannot be submitted", recurring=entry.id, error=str(error))
                self._store.refuse_recurring(entry.id, str(error), self._clock.now())

    def _submit_due(self, entry: Recurring) -> None:
        job_id = submit_due(self._store, entry, self._clock.wall(), self._clock.now())
        if job_id is not None:
            log.info("recurring job submitted", recurring=entry.id, job=job_id)
            self.on_submitted([job_id])


def new_timers() -> BackgroundScheduler:
    """The daemon's APScheduler: timers of recurring jobs alone."""
    return BackgroundScheduler(timezone=UTC, job_defaults={"max_instances": 1, "coalesce": True})


def _timer_id(recurring_id: int) -> str:
    return f"recurring-{recurring_id}"


def _ignore(_: Sequence[JobId]) -> None:
    """Nobody wants to know."""
