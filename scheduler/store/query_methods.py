"""What users read of the store: jobs, workers, events, nodes, bookings and reports."""

from collections.abc import Collection, Sequence

from scheduler.model.account import AccountSum
from scheduler.model.booking import Booking
from scheduler.model.event import Event, EventKind
from scheduler.model.hosts import HostList
from scheduler.model.ids import JobId
from scheduler.model.job import Job, JobSpec
from scheduler.model.job_state import JobState
from scheduler.model.node import Node
from scheduler.model.report import Report, Usage, Window
from scheduler.model.worker import Worker
from scheduler.store.database_access import DatabaseAccess
from scheduler.store.queries import accounts, browse, report, slot_usage
from scheduler.store.records import JobFilter, JobPage, WorkerPage
from scheduler.store.requests import bookings, submit

EVERY_JOB = JobFilter()


class QueryMethods(DatabaseAccess):
    """Reads what is stored, and writes nothing."""

    def get_job(self, job_id: JobId) -> Job | None:
        """The job with its live workers. Raises `UnreadableRow`."""
        with self._reading() as (connection, aside):
            return browse.get_job(connection, job_id, aside)

    def find_job(self, client_key: str) -> JobId | None:
        """The job that was submitted under this key."""
        with self._database.read() as connection:
            return browse.find_job(connection, client_key)

    def find_submitted(self, specs: Sequence[JobSpec]) -> dict[str, JobId]:
        """By client key, the jobs that were submitted before under keys of these.

        Raises `Conflict` for a key of another user's job.
        """
        if all(spec.client_key is None for spec in specs):
            return {}
        with self._database.read() as connection:
            return submit.known_keys(connection, specs)

    def list_jobs(
        self, wanted: JobFilter = EVERY_JOB, after: int | None = None, limit: int = 100, *, descending: bool = False
    ) -> list[Job]:
        """Jobs by id, those beyond `after` in the chosen direction, as far as they can be read."""
        return list(self.page_of_jobs(wanted, after, limit, descending=descending).jobs)

    def page_of_jobs(
        self, wanted: JobFilter = EVERY_JOB, after: int | None = None, limit: int = 100, *, descending: bool = False
    ) -> JobPage:
        """A page of jobs by id: those that can be read, those that cannot, and where the next page begins."""
        with self._reading() as (connection, aside):
            return browse.list_jobs(connection, wanted, after, limit, aside, descending=descending)

    def count_jobs(self) -> dict[JobState, int]:
        """How many jobs are stored in each state."""
        with self._database.read() as connection:
            return browse.count_jobs(connection)

    def list_workers(self, job_id: JobId, after: int = 0, limit: int = 100) -> list[Worker]:
        """Workers of all attempts, ended ones too, oldest first; those with an ordinal above `after`."""
        return list(self.page_of_workers(job_id, after, limit).workers)

    def page_of_workers(self, job_id: JobId, after: int = 0, limit: int = 100) -> WorkerPage:
        """A page of the job's workers: those that can be read, those that cannot, and where the next page begins."""
        with self._reading() as (connection, aside):
            return browse.list_workers(connection, job_id, after, limit, aside)

    def list_events(
        self, after: int | None = None, job_id: JobId | None = None, limit: int = 100, *, descending: bool = False
    ) -> list[tuple[int, Event]]:
        """Events with their ids, those beyond `after` in the chosen direction. No smaller id appears later."""
        with self._reading() as (connection, aside):
            return browse.list_events(connection, after, job_id, limit, aside, descending=descending)

    def newest_of_job(self, job_id: JobId, kinds: Collection[EventKind], limit: int) -> list[tuple[int, Event]]:
        """The newest events of these kinds of the job, newest first."""
        with self._reading() as (connection, aside):
            return browse.newest_of_job(connection, job_id, kinds, limit, aside)

    def newest_for_job(
        self, job_id: JobId, kinds: Collection[EventKind], limit: int, events_max: int
    ) -> list[tuple[int, Event]]:
        """Events of these kinds done for the job, among the newest `events_max` events; newest first."""
        with self._reading() as (connection, aside):
            return browse.newest_for_job(connection, job_id, kinds, limit, events_max, aside)

    def ended_workers(self, since: float, events_max: int) -> tuple[float, list[Worker]]:
        """Workers that ended since then, among the newest `events_max` events; and since when these are all."""
        with self._reading() as (connection, aside):
            return browse.ended_workers(connection, since, events_max, aside)

    def list_nodes(self) -> list[Node]:
        """All nodes by name."""
        with self._reading() as (connection, aside):
            return browse.list_nodes(connection, aside)

    def get_booking(self, name: str) -> Booking | None:
        """The booking, also one that no tick has decided on yet."""
        with self._database.read() as connection:
            return bookings.get(connection, name)

    def list_bookings(self) -> list[Booking]:
        """All bookings by start, also those that no tick has decided on yet."""
        with self._reading() as (connection, aside):
            return bookings.present(connection, aside)

    def published_hosts(self, job_id: JobId) -> HostList | None:
        """The host list that was published last for the job."""
        with self._database.read() as connection:
            return browse.published_hosts(connection, job_id)

    def usage(self, window: Window, classes: Sequence[int]) -> Usage:
        """Slots over time by priority class; `classes` are their lower bounds, ascending."""
        with self._database.read() as connection:
            return slot_usage.usage(connection, window, classes)

    def report(self, window: Window, classes: Sequence[int], users: int) -> Report:
        """Results of the window, with the `users` users that held most."""
        with self._database.read() as connection:
            return report.report(connection, window, classes, users)

    def accounts(self, span: accounts.Span, by: Collection[str]) -> list[AccountSum]:
        """What accounts came to in these hours, by any of queue, user, gpu_type and job."""
        with self._database.read() as connection:
            return accounts.sums(connection, span, by)

    def first_hour(self) -> int | None:
        """The hour in which accounts begin; None: nothing was ever held."""
        with self._database.read() as connection:
            return accounts.first_hour(connection)
