"""Jobs and their workers as rows, and back."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from sqlalchemy import Row

from scheduler.model.ids import JobId, NodeName, worker_id
from scheduler.model.job import Job, JobSpec, JobState, Runtime, StopReason, WaitReason
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import Desired, ExitReason, LeaveReason, Worker, WorkerState
from scheduler.store.schema import jobs
from scheduler.store.text import (
    EMPTY,
    labels_from_text,
    launch_from_text,
    launch_to_text,
    numbers_from_text,
    numbers_to_text,
    pairs_to_text,
    placement_from_text,
    progress_from_text,
    progress_to_text,
)

Values = dict[str, Any]
_T = TypeVar("_T")

_STATES = {state.value: state for state in JobState}
_WAIT_REASONS: dict[str | None, WaitReason | None] = {None: None, **{reason.value: reason for reason in WaitReason}}
_STOP_REASONS: dict[str | None, StopReason | None] = {None: None, **{reason.value: reason for reason in StopReason}}
_WORKER_STATES = {state.value: state for state in WorkerState}

#: Columns of a job's row: id, name, client key, then the rest of what was submitted, then what became of it.
_SPEC_START = jobs.columns.keys().index("user_name")
_SPEC_END = jobs.columns.keys().index("submitted_at")
#: Distinct parts that a reader remembers, so that jobs that share nothing do not fill the memory.
PARTS_KEPT = 10_000


def spec_values(spec: JobSpec) -> Values:
    shape = spec.shape
    return {
        "name": spec.name,
        "user_name": spec.user,
        "client_key": spec.client_key,
        "runtime": spec.runtime.value,
        "launch": launch_to_text(spec),
        "labels": pairs_to_text(spec.labels),
        "spec_priority": spec.priority,
        "spec_min_workers": spec.min_workers,
        "spec_max_workers": spec.max_workers,
        "slots_per_worker": shape.slots,
        "cpus_per_worker": shape.cpus,
        "memory_mib_per_worker": shape.memory_mib,
        "node_selector": pairs_to_text(shape.node_selector),
        "gpu_type": shape.gpu_type,
        "time_limit_seconds": spec.time_limit_seconds,
        "max_retries": spec.max_retries,
        "grace_seconds": spec.grace_seconds,
        "heartbeat_seconds": spec.heartbeat_seconds,
        "preemptible": spec.preemptible,
    }


def job_values(job: Job, version: int) -> Values:
    """What may change of a job, with the version that the row then has."""
    return {
        "priority": job.priority,
        "min_workers": job.min_workers,
        "max_workers": job.max_workers,
        "queued_at": job.queued_at,
        "state": job.state.value,
        "active": job.state.active,
        "waited_seconds": job.waited_seconds,
        "attempt": job.attempt,
        "retries_used": job.retries_used,
        "last_failure_at": job.last_failure_at,
        "not_before": job.not_before,
        "next_ordinal": job.next_ordinal,
        "generation": job.generation,
        "published_size": job.published_size,
        "started_at": job.started_at,
        "running_at": job.running_at,
        "finished_at": job.finished_at,
        "last_resize_at": job.last_resize_at,
        "finishing": job.finishing,
        "master_port": job.master_port,
        "wait_reason": job.wait_reason and job.wait_reason.value,
        "wait_for": job.wait_for,
        "stop_reason": job.stop_reason and job.stop_reason.value,
        "stop_for": job.stop_for,
        "detail": job.detail,
        "exit_code": job.exit_code,
        "reservation": pairs_to_text(job.reservation) if job.reservation else EMPTY,
        "progress": progress_to_text(job.progress),
        "version": version,
    }


class JobReader:
    """Jobs from rows of the whole jobs table. Equal parts of the jobs that one reader makes are one object.

    Rows are taken apart by position, since a hundred thousand of them are read when the engine starts.
    """

    def __init__(self) -> None:
        self._specs: dict[Sequence[Any], JobSpec] = {}
        self._parts: dict[object, Any] = {}

    def job(self, row: Row[Any], workers: tuple[Worker, ...] = ()) -> Job:
        (
            submitted_at,
            priority,
            min_workers,
            max_workers,
            queued_at,
            state,
            _active,
            waited_seconds,
            attempt,
            retries_used,
            last_failure_at,
            not_before,
            next_ordinal,
            generation,
            published_size,
            started_at,
            running_at,
            finished_at,
            last_resize_at,
            finishing,
            master_port,
            wait_reason,
            wait_for,
            stop_reason,
            stop_for,
            detail,
            exit_code,
            reservation,
            progress,
            version,
        ) = row[_SPEC_END:]
        return Job(
            id=row[0],
            spec=self._spec(row),
            priority=priority,
            min_workers=min_workers,
            max_workers=max_workers,
            submitted_at=submitted_at,
            queued_at=submitted_at if queued_at == submitted_at else queued_at,
            state=_STATES[state],
            waited_seconds=waited_seconds or 0.0,
            attempt=attempt,
            retries_used=retries_used,
            last_failure_at=last_failure_at,
            not_before=not_before or 0.0,
            next_ordinal=next_ordinal,
            generation=generation,
            published_size=published_size,
            started_at=started_at,
            running_at=running_at,
            finished_at=finished_at,
            last_resize_at=last_resize_at,
            finishing=finishing,
            master_port=master_port,
            wait_reason=_WAIT_REASONS[wait_reason],
            wait_for=wait_for,
            stop_reason=_STOP_REASONS[stop_reason],
            stop_for=stop_for,
            detail=detail,
            exit_code=exit_code,
            reservation=placement_from_text(reservation),
            progress=progress_from_text(progress),
            workers=workers,
            version=version,
        )

    def _spec(self, row: Row[Any]) -> JobSpec:
        """Jobs that differ in name and client key only, as those of a sweep do, share all the rest."""
        _, name, client_key = row[:_SPEC_START]
        key = row[_SPEC_START:_SPEC_END]
        like = self._specs.get(key)
        if like is None:
            if len(self._specs) >= PARTS_KEPT:
                self._specs.clear()
            like = self._specs[key] = self._decode_spec(row)
        if like.name == name and like.client_key == client_key:
            return like
        return JobSpec(
            name=name,
            command=like.command,
            user=like.user,
            env=like.env,
            workdir=like.workdir,
            labels=like.labels,
            runtime=like.runtime,
            priority=like.priority,
            min_workers=like.min_workers,
            max_workers=like.max_workers,
            shape=like.shape,
            time_limit_seconds=like.time_limit_seconds,
            max_retries=like.max_retries,
            grace_seconds=like.grace_seconds,
            heartbeat_seconds=like.heartbeat_seconds,
            preemptible=like.preemptible,
            client_key=client_key,
        )

    def _decode_spec(self, row: Row[Any]) -> JobSpec:
        launch, labels = row.launch, row.labels
        command, env, workdir = self._shared(("launch", launch), lambda: launch_from_text(launch))
        return JobSpec(
            name=row.name,
            command=command,
            user=self._shared(("user", row.user_name), lambda: row.user_name),
            env=env,
            workdir=workdir,
            labels=self._shared(("labels", labels), lambda: labels_from_text(labels)),
            runtime=Runtime(row.runtime),
            priority=row.spec_priority,
            min_workers=row.spec_min_workers,
            max_workers=row.spec_max_workers,
            shape=self._shape(row),
            time_limit_seconds=row.time_limit_seconds,
            max_retries=row.max_retries,
            grace_seconds=row.grace_seconds,
            heartbeat_seconds=row.heartbeat_seconds,
            preemptible=row.preemptible,
            client_key=row.client_key,
        )

    def _shape(self, row: Row[Any]) -> WorkerShape:
        slots, cpus, memory_mib = row.slots_per_worker, row.cpus_per_worker, row.memory_mib_per_worker
        selector, gpu_type = row.node_selector, row.gpu_type
        return self._shared(
            ("shape", slots, cpus, memory_mib, selector, gpu_type),
            lambda: WorkerShape(slots, cpus, memory_mib, labels_from_text(selector), gpu_type),
        )

    def _shared(self, key: object, make: Callable[[], _T]) -> _T:
        part: _T | None = self._parts.get(key)
        if part is None:
            if len(self._parts) >= PARTS_KEPT:
                self._parts.clear()
            part = self._parts[key] = make()
        return part


def worker_values(worker: Worker) -> Values:
    return {
        "job_id": worker.job_id,
        "ordinal": worker.ordinal,
        "node": worker.node,
        "host": worker.host,
        "slot_ids": numbers_to_text(worker.slot_ids),
        "created_at": worker.created_at,
        "cpus": worker.cpus,
        "memory_mib": worker.memory_mib,
        "not_before": worker.not_before,
        "desired": worker.desired.value,
        "state": worker.state.value,
        "live": True if worker.state.live else None,
        "rank": worker.rank,
        "reported_generation": worker.reported_generation,
        "endpoint": worker.endpoint,
        "started_at": worker.started_at,
        "ready_at": worker.ready_at,
        "leave_reason": worker.leave_reason and worker.leave_reason.value,
        "leave_for": worker.leave_for,
        "stop_deadline": worker.stop_deadline,
        "ended_at": worker.ended_at,
        "exit_code": worker.exit_code,
        "exit_reason": worker.exit_reason and worker.exit_reason.value,
    }


def worker_from_row(row: Row[Any]) -> Worker:
    job_id = JobId(row.job_id)
    return Worker(
        id=worker_id(job_id, row.ordinal),
        job_id=job_id,
        ordinal=row.ordinal,
        node=NodeName(row.node),
        host=row.host,
        slot_ids=numbers_from_text(row.slot_ids),
        created_at=row.created_at,
        cpus=row.cpus,
        memory_mib=row.memory_mib,
        not_before=row.not_before,
        desired=Desired(row.desired),
        state=_WORKER_STATES[row.state],
        rank=row.rank,
        reported_generation=row.reported_generation,
        endpoint=row.endpoint,
        started_at=row.started_at,
        ready_at=row.ready_at,
        leave_reason=None if row.leave_reason is None else LeaveReason(row.leave_reason),
        leave_for=row.leave_for,
        stop_deadline=row.stop_deadline,
        ended_at=row.ended_at,
        exit_code=row.exit_code,
        exit_reason=None if row.exit_reason is None else ExitReason(row.exit_reason),
    )


def workers_by_job(rows: Iterable[Row[Any]]) -> dict[JobId, tuple[Worker, ...]]:
    """Workers of each job, in the order of the rows."""
    found: dict[JobId, list[Worker]] = {}
    for row in rows:
        worker = worker_from_row(row)
        found.setdefault(worker.job_id, []).append(worker)
    return {job_id: tuple(workers) for job_id, workers in found.items()}


def jobs_from_rows(rows: Iterable[Row[Any]], workers: dict[JobId, tuple[Worker, ...]]) -> Iterator[Job]:
    reader = JobReader()
    for row in rows:
        yield reader.job(row, workers.get(JobId(row.id), ()))


def submitted_values(job_id: JobId, spec: JobSpec, now: float, template: Values) -> Values:
    """The row of a job that was submitted just now; `template` is `job_values` of any queued job."""
    return {
        **template,
        **spec_values(spec),
        "id": job_id,
        "submitted_at": now,
        "queued_at": now,
        "priority": spec.priority,
        "min_workers": spec.min_workers,
        "max_workers": spec.max_workers,
    }


def template_of(specs: Sequence[JobSpec]) -> Values:
    """What the rows of newly submitted jobs have in common."""
    first = specs[0]
    return job_values(Job(JobId(0), first, first.priority, first.min_workers, first.max_workers, 0.0, 0.0), 0)
