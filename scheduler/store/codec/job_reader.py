"""Jobs out of rows of the jobs table: a hundred thousand of them are read when the engine starts."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from scheduler import bounds
from scheduler.bounds import Bound
from scheduler.model.export import Export
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job, JobSpec, Runtime
from scheduler.model.job_state import JobState, StopReason, WaitReason
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import Worker
from scheduler.store.codec.job_rows import shape_from_columns
from scheduler.store.codec.json_text import (
    Launch,
    data_from_text,
    export_from_text,
    labels_from_text,
    launch_from_text,
    placement_from_text,
    speedup_from_text,
    words_from_text,
)
from scheduler.store.codec.progress_text import progress_from_text
from scheduler.store.codec.reading import SetAside
from scheduler.store.codec.row_check import BrokenColumn, raw_columns
from scheduler.store.sql.engine_tables import jobs

K = TypeVar("K")
V = TypeVar("V")

#: Distinct parts that a reader remembers, so that jobs that share nothing do not fill the memory.
PARTS_KEPT = 10_000

#: A row of the table as it is stored.
JOB_COLUMNS = raw_columns(jobs)
#: It is a part of names of directories and pods.
_NONCE = re.compile(r"[0-9a-z]{0,32}")
_STATES = {state.value: state for state in JobState}
_WAIT_REASONS: dict[str | None, WaitReason | None] = {None: None, **{reason.value: reason for reason in WaitReason}}
_STOP_REASONS: dict[str | None, StopReason | None] = {None: None, **{reason.value: reason for reason in StopReason}}


def jobs_from_rows(
    rows: Iterable[Sequence[Any]],
    workers: Mapping[JobId, tuple[Worker, ...]],
    aside: SetAside,
    nodes: Collection[NodeName] | None = None,
) -> Iterator[Job]:
    """The jobs of these rows, each with its workers; those that cannot be read are set aside.

    `nodes`: all that are known, so that no worker is on any other; None: that is not looked at.
    """
    reader = JobReader()

    def read(columns: Sequence[Any]) -> Job:
        row = JobColumns._make(columns)
        if (blamed := aside.jobs.get(row.id)) is not None:
            raise BrokenColumn(blamed)
        job = reader.job(row, workers.get(row.id, ()))
        if (broken := _broken_rule(job, bool(row.active), nodes)) is not None:
            raise BrokenColumn(broken)
        return job

    return aside.read(jobs, rows, read)


def _broken_rule(job: Job, active: bool, nodes: Collection[NodeName] | None) -> str | None:
    """What no job is that the engine has stored, whatever its columns hold one by one."""
    if active != job.state.active:
        return f"active: must be {str(job.state.active).lower()} of a job that is {job.state}"
    if job.min_workers > job.max_workers or job.spec.min_workers > job.spec.max_workers:
        return f"min_workers: must be from 1 to max_workers, not {job.min_workers} with {job.max_workers}"
    if (job.finished_at is not None) != job.state.terminal:
        return f"finished_at: does not go with a job that is {job.state}"
    if (job.held_from is not None) != (job.state is JobState.HELD):
        return f"held_from: does not go with a job that is {job.state}"
    if JobState.STOPPING in (job.state, job.held_from) and job.stop_reason is None:
        return "stop_reason: must not be NULL for a job that is STOPPING"
    if not _NONCE.fullmatch(job.nonce):
        return "nonce: must be empty, or digits and letters as it was made"
    if nodes is not None and not {name for name, _ in (*job.reservation, *job.fixed_reservation)} <= set(nodes):
        return "reservation: names a node that is not known"
    return _broken_by_worker(job, nodes) if job.all_workers or job.published_size else None


def _broken_by_worker(job: Job, nodes: Collection[NodeName] | None) -> str | None:
    if not job.state.active:
        return f"state: a job that is {job.state} has no live workers"
    ranks = [worker.rank for worker in job.members]
    if len(set(ranks)) < len(ranks):
        return f"worker {job.members[0].id}: has the rank of another"
    replicas = 0 if job.spec.fixed is None else job.spec.fixed.replicas
    for worker in job.all_workers:
        if worker.ordinal >= job.next_ordinal:
            return f"next_ordinal: must be above {worker.ordinal}, which worker {worker.id} has"
        if worker.fixed_index is not None and worker.fixed_index >= replicas:
            return f"worker {worker.id}: fixed_index: must be below {replicas}, not {worker.fixed_index}"
        if nodes is not None and worker.node not in nodes:
            return f"worker {worker.id}: node: {worker.node[:100]!r} is not known"
    return None


class JobColumns(NamedTuple):
    """A row of the jobs table: its columns in their order, as they are once they were checked.

    A boolean may be a number, as SQLite has it.
    """

    id: JobId
    name: str
    client_key: str | None
    launch: str
    user_name: str
    runtime: str
    labels: str
    spec_priority: int
    spec_min_workers: int
    spec_max_workers: int
    slots_per_worker: int
    cpus_per_worker: float
    memory_mib_per_worker: int
    node_selector: str
    gpu_type: str | None
    time_limit_seconds: float | None
    max_retries: int
    grace_seconds: float
    heartbeat_seconds: float | None
    preemptible: bool
    preferred_workers: int | None
    expected_seconds: float | None
    speedup: str | None
    oversell: bool | None
    booking: str | None
    data: str | None
    export: str | None
    nonce: str | None
    submitted_at: float
    priority: int
    min_workers: int
    max_workers: int
    queued_at: float
    state: str
    held_from: str | None
    active: bool
    waited_seconds: float
    attempt: int
    retries_used: int
    last_failure_at: float | None
    not_before: float
    next_ordinal: int
    generation: int
    published_size: int
    first_started_at: float | None
    started_at: float | None
    running_at: float | None
    finished_at: float | None
    last_resize_at: float | None
    served_slot_seconds: float | None
    finishing: bool
    master_port: int
    wait_reason: str | None
    wait_for: JobId | None
    stop_reason: str | None
    stop_for: JobId | None
    detail: str
    exit_code: int | None
    reservation: str
    reservation_shared: bool | None
    fixed_reservation: str | None
    fixed_hosts: str | None
    progress: str
    version: int
    revision: int | None


#: Columns of a spec that many jobs have in common.
_SHARED = slice(JobColumns._fields.index("user_name"), JobColumns._fields.index("nonce"))


class JobReader:
    """Jobs from rows of the whole jobs table. Equal parts of the jobs that one reader makes are one object."""

    def __init__(self) -> None:
        #: By the columns that are shared: the last launch with the last spec.
        self._specs: dict[object, tuple[str, JobSpec]] = {}
        self._launches = _Parts[str, Launch](launch_from_text)
        self._shapes = _Parts[tuple[Any, ...], WorkerShape](lambda columns: shape_from_columns(*columns))
        self._exports = _Parts[str, Export](export_from_text)

    def job(self, row: JobColumns, workers: tuple[Worker, ...]) -> Job:
        scaled, fixed_workers = _apart(workers)
        return Job(
            id=row.id,
            spec=self._spec(row),
            priority=row.priority,
            min_workers=row.min_workers,
            max_workers=row.max_workers,
            submitted_at=row.submitted_at,
            queued_at=row.submitted_at if row.queued_at == row.submitted_at else row.queued_at,
            state=_STATES[row.state],
            held_from=None if row.held_from is None else _STATES[row.held_from],
            waited_seconds=row.waited_seconds or 0.0,
            attempt=row.attempt,
            retries_used=row.retries_used,
            last_failure_at=row.last_failure_at,
            not_before=row.not_before or 0.0,
            next_ordinal=row.next_ordinal,
            generation=row.generation,
            published_size=row.published_size,
            first_started_at=row.first_started_at,
            started_at=row.started_at,
            running_at=row.running_at,
            finished_at=row.finished_at,
            last_resize_at=row.last_resize_at,
            served_slot_seconds=row.served_slot_seconds or 0.0,
            finishing=bool(row.finishing),
            master_port=row.master_port,
            wait_reason=_WAIT_REASONS[row.wait_reason],
            wait_for=row.wait_for,
            stop_reason=_STOP_REASONS[row.stop_reason],
            stop_for=row.stop_for,
            detail=row.detail,
            exit_code=row.exit_code,
            reservation=placement_from_text(row.reservation),
            reservation_shared=bool(row.reservation_shared),
            fixed_reservation=placement_from_text(row.fixed_reservation) if row.fixed_reservation else (),
            fixed_hosts=words_from_text(row.fixed_hosts) if row.fixed_hosts else (),
            progress=progress_from_text(row.progress),
            workers=scaled,
            fixed_workers=fixed_workers,
            nonce=row.nonce or "",
            version=row.version,
        )

    def _spec(self, row: JobColumns) -> JobSpec:
        """Jobs that differ in name, client key and launch only, as those of a sweep do, share all the rest."""
        rest = row[_SHARED]
        launch, spec = self._specs.get(rest) or (row.launch, self._first_spec(row))
        if (row.launch, row.name, row.client_key) != (launch, spec.name, spec.client_key):
            command, env, workdir, pod_template, fixed = self._launches[row.launch]
            spec = replace(
                spec,
                name=row.name,
                client_key=row.client_key,
                command=command,
                env=env,
                workdir=workdir,
                pod_template=pod_template,
                fixed=fixed,
            )
        if len(self._specs) >= PARTS_KEPT:
            self._specs.clear()
        self._specs[rest] = (row.launch, spec)
        return spec

    def _first_spec(self, row: JobColumns) -> JobSpec:
        command, env, workdir, pod_template, fixed = self._launches[row.launch]
        shape = row.slots_per_worker, row.cpus_per_worker, row.memory_mib_per_worker
        return JobSpec(
            name=row.name,
            command=command,
            user=row.user_name,
            env=env,
            workdir=workdir,
            labels=labels_from_text(row.labels),
            runtime=Runtime(row.runtime),
            priority=row.spec_priority,
            min_workers=row.spec_min_workers,
            max_workers=row.spec_max_workers,
            shape=self._shapes[(*shape, row.node_selector, row.gpu_type, row.oversell)],
            time_limit_seconds=_within(row.time_limit_seconds, bounds.DURATION),
            max_retries=row.max_retries,
            grace_seconds=bounds.GRACE.nearest(row.grace_seconds),
            heartbeat_seconds=_within(row.heartbeat_seconds, bounds.HEARTBEAT),
            preemptible=bool(row.preemptible),
            preferred_workers=row.preferred_workers,
            expected_seconds=_within(row.expected_seconds, bounds.DURATION),
            speedup=speedup_from_text(row.speedup),
            booking=row.booking,
            client_key=row.client_key,
            pod_template=pod_template,
            data=None if row.data is None else data_from_text(row.data),
            fixed=fixed,
            export=None if row.export is None else self._exports[row.export],
        )


class _Parts(dict[K, V]):
    """Parts by what they are read from, each read once; all are forgotten where they become too many."""

    def __init__(self, read: Callable[[K], V]) -> None:
        self._read = read

    def __missing__(self, key: K) -> V:
        if len(self) >= PARTS_KEPT:
            self.clear()
        part = self[key] = self._read(key)
        return part


def _within(value: float | None, bound: Bound) -> float | None:
    """Earlier versions took numbers that are too small or too large now."""
    return None if value is None else bound.nearest(value)


def _apart(workers: tuple[Worker, ...]) -> tuple[tuple[Worker, ...], tuple[Worker, ...]]:
    """Those that are scaled, and the fixed ones."""
    if not any(worker.fixed for worker in workers):
        return workers, ()
    return tuple(w for w in workers if not w.fixed), tuple(w for w in workers if w.fixed)
