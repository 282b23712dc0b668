"""Keeps TrainingJob objects and jobs in step: specs become jobs and requests, jobs become statuses.

Level-based: an object and its job as they are now tell what to do next, whatever happened before, so that it may be
done again, later, or by another daemon. Only the leader writes.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

import structlog

from scheduler.backoff import Backoff
from scheduler.clusters.kubernetes.api.custom_resource import ObjectKey
from scheduler.config import KubernetesSettings
from scheduler.daemon.trainingjobs.agenda import Agenda
from scheduler.daemon.trainingjobs.crd import FINALIZER
from scheduler.daemon.trainingjobs.queue import into_queue
from scheduler.daemon.trainingjobs.resource import (
    INVALID,
    QUEUE_FULL,
    QUEUE_REFUSES,
    QUEUE_UNREADABLE,
    Document,
    Refusal,
    TrainingJob,
    as_asked,
    changes,
    differs,
    frozen_fields,
    job_spec,
    not_yet,
    refusal,
    status_of,
    training_job,
)
from scheduler.engine.ports import EngineClock
from scheduler.engine.tick import TickReport
from scheduler.errors import InvalidInput, LimitReached, SchedulerError, UnreadableRow
from scheduler.model.ids import JobId
from scheduler.model.intent import Intent, IntentKind
from scheduler.model.job import Job, JobSpec
from scheduler.model.job_state import JobState
from scheduler.store.sqlstore import SqlStore

log = structlog.get_logger(__name__)

RETRY = Backoff(2.0, 60.0)
#: Requests that wait to be carried out, as far as they are looked at.
REQUESTS_MAX = 10_000


class Objects(Protocol):
    """The objects of the cluster, kept in step by whoever implements this. Writing raises `ClusterError`."""

    def follow(self, changed: Callable[[ObjectKey], None]) -> None:
        """Begin to read; call `changed`, from another thread, for each object that is new, changed or gone."""
        ...

    def close(self) -> None:
        """End that."""
        ...

    def get(self, key: ObjectKey) -> Document | None:
        """The object as it was last seen; None: there is none."""
        ...

    def keys(self) -> Iterable[ObjectKey]: ...

    def write_status(self, item: Document, status: Document) -> None:
        """Put these fields into the object's status."""
        ...

    def write_finalizers(self, item: Document, finalizers: Iterable[str]) -> None:
        """Replace the object's finalizers, if it is still as it was seen."""
        ...


class TrainingJobs:
    """Reconciles one object after the other in a thread of its own. All methods may be called from any thread."""

    def __init__(
        self,
        objects: Objects,
        store: SqlStore,
        clock: EngineClock,
        settings: KubernetesSettings,
        explain: Callable[[Job], str],
        leading: Callable[[], bool],
        stored: Callable[[list[JobId]], None],
    ) -> None:
        """`explain` says in a line how a job is; `stored` tells of new jobs, or of requests (no ids), in the store."""
        self._objects = objects
        self._store = store
        self._clock = clock
        self._settings = settings
        self._explain = explain
        self._leading = leading
        self._stored = stored
        self._lock = threading.Condition()
        self._agenda = Agenda()
        #: How often in a row each failed, and at what the last time.
        self._failures: dict[ObjectKey, tuple[int, str]] = {}
        #: Objects of jobs that have not ended, as far as they were looked at.
        self._of_job: dict[JobId, ObjectKey] = {}
        self._stopped = False
        #: Whether the last tick led and ran through.
        self._led = False
        self._thread = threading.Thread(target=self._run, name="trainingjobs")

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Read objects and keep jobs in step with them meanwhile."""
        self._thread.start()
        self._objects.follow(self.look_at)
        try:
            yield
        finally:
            self._objects.close()
            with self._lock:
                self._stopped = True
                self._lock.notify_all()
            self._thread.join()

    def see(self, report: TickReport) -> None:
        """What the engine did. Whoever begins to lead looks at everything, since the last one may have left off.

        So does who goes on after an error: what was committed then may be in no report.
        """
        leads = report.leading and report.error is None
        if leads and not self._led:
            self._look_at(self._objects.keys())
        self._led = leads
        self._changed(report.changed)

    def crashed(self) -> None:
        """A tick ended by a defect, and may have committed."""
        self._led = False

    def look_at(self, key: ObjectKey) -> None:
        """The object may have changed."""
        self._look_at([key])

    def reconcile(self, key: ObjectKey) -> None:
        """One step for this object. Raises `SchedulerError` if it has to be tried again."""
        item = self._objects.get(key)
        if item is None:
            return
        wanted = training_job(item)
        if wanted.deleting:
            self._let_go(item, wanted)
        elif not wanted.over:
            self._serve(item, wanted)
        elif wanted.held:
            self._release(item, wanted)

    def _serve(self, item: Document, wanted: TrainingJob) -> None:
        job = self._job_of(wanted)
        try:
            spec = self._spec_of(wanted, job)
        except UnreadableRow as error:
            if job is None:
                self._write(item, wanted, not_yet(wanted, QUEUE_UNREADABLE, str(error), self._clock.wall()))
            raise  # it is tried again until its queue's row can be read
        if isinstance(spec, Refusal):
            self._refuse(item, wanted, job, spec)
        elif not wanted.held:
            self._hold(item, wanted)
        else:
            job = self._submit(item, wanted, spec) if job is None else self._ask(wanted, spec, job)
            self._tell(item, wanted, job, frozen_fields(spec, job))

    def _spec_of(self, wanted: TrainingJob, job: Job | None) -> JobSpec | Refusal:
        """The job that the object asks for, in its queue, or why it is none. Raises `UnreadableRow`."""
        try:
            spec = job_spec(wanted, self._settings)
        except InvalidInput as error:
            return Refusal(INVALID, error)
        try:
            return self._in_its_queue(spec, job, wanted.namespace)
        except InvalidInput as error:
            return Refusal(QUEUE_REFUSES, error)

    def _refuse(self, item: Document, wanted: TrainingJob, job: Job | None, refused: Refusal) -> None:
        """Say why; a job that there is goes on as it is. Raises why where it may be no reason soon."""
        if job is None:
            self._write(item, wanted, refusal(wanted, refused, self._clock.wall()))
        elif not wanted.held:
            self._hold(item, wanted)
        else:
            self._tell(item, wanted, job, [], refused)
        if refused.passing:
            raise refused.error  # it is tried again until the queue takes it

    def _hold(self, item: Document, wanted: TrainingJob) -> None:
        """Before there is a job, so that a deletion never leaves one behind. The change brings it here again."""
        self._objects.write_finalizers(item, (*wanted.finalizers, FINALIZER))

    def _tell(
        self, item: Document, wanted: TrainingJob, job: Job, ignored: list[str], refused: Refusal | None = None
    ) -> None:
        """Write how the job is into the object, and look at it again when the job changes."""
        self._watch(wanted, job)
        now = self._clock.wall()  # people read it in the object's status
        shown = self._in_wall_time(job)
        self._write(item, wanted, status_of(wanted, shown, self._explain(job), now, ignored, refused))

    def _in_its_queue(self, spec: JobSpec, job: Job | None, namespace: str) -> JobSpec:
        """The job in the queue that it names, in that of its namespace, or where it is. Raises `InvalidInput`."""
        queues = {queue.path: queue for queue in self._store.list_queues()}
        return into_queue(spec, job, queues, namespace)

    def _in_wall_time(self, job: Job) -> Job:
        """With the moments that a status shows as people read them off their clocks, to the second."""
        ahead = round(self._clock.wall() - self._clock.now())

        def moved(at: float | None) -> float | None:
            return None if at is None else at + ahead

        return replace(job, started_at=moved(job.started_at), finished_at=moved(job.finished_at))

    def _let_go(self, item: Document, wanted: TrainingJob) -> None:
        """Cancel the job of an object that is being deleted; the object goes when the job's workers are gone."""
        if not wanted.held:
            return
        job = self._job_of(wanted)
        if job is not None:
            self._watch(wanted, job)
        if job is None or job.state.terminal:
            self._release(item, wanted)
            return
        if not (job.cancelled and job.state in (JobState.STOPPING, JobState.HELD)):
            self._store.add_intent(IntentKind.CANCEL, self._clock.now(), job_id=job.id)
            self._stored([])

    def _release(self, item: Document, wanted: TrainingJob) -> None:
        """Nothing is left that the object has to be kept for."""
        self._objects.write_finalizers(item, (each for each in wanted.finalizers if each != FINALIZER))

    def _job_of(self, wanted: TrainingJob) -> Job | None:
        """The job that the object was given; one of another database that has its number is not it."""
        job = self._store.get_job(wanted.job_id) if wanted.job_id is not None else None
        if job is None or job.spec.client_key != wanted.key:
            job_id = self._store.find_job(wanted.key)
            job = self._store.get_job(job_id) if job_id is not None else None
        return job

    def _submit(self, item: Document, wanted: TrainingJob, spec: JobSpec) -> Job:
        now = self._clock.now()
        try:
            [submitted] = self._store.submit([spec], now)
        except LimitReached as error:
            self._write(item, wanted, not_yet(wanted, QUEUE_FULL, str(error), self._clock.wall()))
            raise  # it is tried again until there is room
        if wanted.suspend and submitted.created:
            self._store.add_intent(IntentKind.SUSPEND, now, job_id=submitted.id)
        self._stored([submitted.id])
        job = self._store.get_job(submitted.id)
        assert job is not None, "a job that was submitted just now is stored"
        return job

    def _ask(self, wanted: TrainingJob, spec: JobSpec, job: Job) -> Job:
        """Ask for what was changed in the object; returns the job."""
        if wanted.job_id is None and wanted.generation <= 1 and not wanted.suspend:
            return job  # nothing was changed since it was created; a suspension may not have been asked for yet
        if not wanted.changed:
            return job
        # Read before the job: what is carried out meanwhile shows in one of them.
        requests = self._store.take_inbox(REQUESTS_MAX).intents
        job = self._store.get_job(job.id) or job
        now = self._clock.now()
        asked = [
            Intent(
                0,
                change.kind,
                now,
                job.id,
                priority=change.priority,
                min_workers=change.min_workers,
                max_workers=change.max_workers,
            )
            for change in changes(wanted, spec, as_asked(job, requests))
        ]
        if asked:
            self._store.add_intents(asked)
            self._stored([])
        return job

    def _write(self, item: Document, wanted: TrainingJob, status: Document) -> None:
        if differs(wanted.status, status):
            self._objects.write_status(item, status)

    def _watch(self, wanted: TrainingJob, job: Job) -> None:
        """Look at the object again whenever its job changes, until that has ended."""
        with self._lock:
            if job.state.terminal:
                self._of_job.pop(job.id, None)
            else:
                self._of_job[job.id] = (wanted.namespace, wanted.name)

    def _changed(self, jobs: Sequence[Job]) -> None:
        with self._lock:
            keys = [self._of_job[job.id] for job in jobs if job.id in self._of_job]
            for job in jobs:
                if job.state.terminal:
                    self._of_job.pop(job.id, None)
        self._look_at(keys)

    def _look_at(self, keys: Iterable[ObjectKey]) -> None:
        with self._lock:
            for key in keys:
                self._agenda.put(key, 0.0)
            self._lock.notify_all()

    def _run(self) -> None:
        while True:
            key = self._next()
            if key is None:
                return
            if not self._leading():
                continue  # whoever leads looks at all of them
            try:
                self.reconcile(key)
            except SchedulerError as error:
                self._retry(key, str(error))
            except Exception:
                log.exception("TrainingJob could not be reconciled", namespace=key[0], name=key[1])
                self._retry(key, "internal error: see the log of the daemon")
            else:
                self._failures.pop(key, None)

    def _next(self) -> ObjectKey | None:
        """The object to be looked at next, once it is due; None: stop."""
        with self._lock:
            while not self._stopped:
                now = self._clock.now()
                key = self._agenda.take(now)
                if key is not None:
                    return key
                next_at = self._agenda.next_at()
                self._lock.wait(next_at - now if next_at is not None else None)
            return None

    def _retry(self, key: ObjectKey, error: str) -> None:
        failures, before = self._failures.get(key, (0, None))
        self._failures[key] = (failures + 1, error)
        pause = RETRY.pause_seconds(failures + 1)
        if error != before:
            log.warning("TrainingJob failed, retrying later", namespace=key[0], name=key[1], error=error, seconds=pause)
        with self._lock:
            self._agenda.put(key, self._clock.now() + pause)
