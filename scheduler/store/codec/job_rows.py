"""Jobs and their workers as rows, and workers back; `job_reader` makes jobs of rows."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Row

from scheduler import bounds
from scheduler.model.ids import JobId, NodeName, worker_id
from scheduler.model.job import Job, JobSpec
from scheduler.model.shape import WorkerShape
from scheduler.model.unreadable import Unreadable
from scheduler.model.worker import Desired, ExitReason, LeaveReason, Worker, WorkerState
from scheduler.store.codec.json_text import (
    EMPTY,
    data_to_text,
    export_to_text,
    labels_from_text,
    launch_to_text,
    numbers_from_text,
    numbers_to_text,
    pairs_to_text,
    speedup_to_text,
    words_to_text,
)
from scheduler.store.codec.progress_text import progress_to_text
from scheduler.store.codec.reading import SetAside
from scheduler.store.codec.row_check import BrokenColumn, raw_columns
from scheduler.store.sql.engine_tables import jobs, workers

Values = dict[str, Any]

#: A row of the table as it is stored.
WORKER_COLUMNS = raw_columns(workers)

_WORKER_STATES = {state.value: state for state in WorkerState}


def shape_values(shape: WorkerShape) -> Values:
    """What jobs and bookings have in common."""
    return {
        "slots_per_worker": shape.slots,
        "cpus_per_worker": shape.cpus,
        "memory_mib_per_worker": shape.memory_mib,
        "node_selector": pairs_to_text(shape.node_selector),
        "gpu_type": shape.gpu_type,
    }


def shape_from_columns(
    slots: int, cpus: float, memory_mib: int, node_selector: str, gpu_type: str | None, oversell: bool | None = None
) -> WorkerShape:
    selector = labels_from_text(node_selector)
    return WorkerShape(slots, bounds.CPUS.nearest(cpus), memory_mib, selector, gpu_type, bool(oversell))


def spec_values(spec: JobSpec) -> Values:
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
        **shape_values(spec.shape),
        "time_limit_seconds": spec.time_limit_seconds,
        "max_retries": spec.max_retries,
        "grace_seconds": spec.grace_seconds,
        "heartbeat_seconds": spec.heartbeat_seconds,
        "preemptible": spec.preemptible,
        "preferred_workers": spec.preferred_workers,
        "expected_seconds": spec.expected_seconds,
        "speedup": speedup_to_text(spec.speedup),
        "oversell": spec.shape.oversell or None,
        "booking": spec.booking,
        "data": None if spec.data is None else data_to_text(spec.data),
        "export": None if spec.export is None else export_to_text(spec.export),
    }


def job_values(job: Job, version: int, revision: int | None) -> Values:
    """What may change of a job, with the version that the row then has and the commit that writes it."""
    return {
        "priority": job.priority,
        "min_workers": job.min_workers,
        "max_workers": job.max_workers,
        "queued_at": job.queued_at,
        "state": job.state.value,
        "held_from": job.held_from and job.held_from.value,
        "active": job.state.active,
        "waited_seconds": job.waited_seconds,
        "attempt": job.attempt,
        "retries_used": job.retries_used,
        "last_failure_at": job.last_failure_at,
        "not_before": job.not_before,
        "next_ordinal": job.next_ordinal,
        "generation": job.generation,
        "published_size": job.published_size,
        "first_started_at": job.first_started_at,
        "started_at": job.started_at,
        "running_at": job.running_at,
        "finished_at": job.finished_at,
        "last_resize_at": job.last_resize_at,
        "served_slot_seconds": job.served_slot_seconds or None,
        "finishing": job.finishing,
        "master_port": job.master_port,
        "wait_reason": job.wait_reason and job.wait_reason.value,
        "wait_for": job.wait_for,
        "stop_reason": job.stop_reason and job.stop_reason.value,
        "stop_for": job.stop_for,
        "detail": job.detail,
        "exit_code": job.exit_code,
        "reservation": pairs_to_text(job.reservation) if job.reservation else EMPTY,
        "reservation_shared": job.reservation_shared or None,
        "fixed_reservation": pairs_to_text(job.fixed_reservation) if job.fixed_reservation else None,
        "fixed_hosts": words_to_text(job.fixed_hosts) if job.fixed_hosts else None,
        "progress": progress_to_text(job.progress),
        "version": version,
        "revision": revision,
    }


def worker_values(worker: Worker) -> Values:
    return {
        "job_id": worker.job_id,
        "ordinal": worker.ordinal,
        "node": worker.node,
        "host": worker.host,
        "slot_ids": numbers_to_text(worker.slot_ids),
        "shared": worker.shared or None,
        "fixed_index": worker.fixed_index,
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
        "peer": worker.peer,
        "started_at": worker.started_at,
        "ready_at": worker.ready_at,
        "leave_reason": worker.leave_reason and worker.leave_reason.value,
        "leave_for": worker.leave_for,
        "stop_deadline": worker.stop_deadline,
        "ended_at": worker.ended_at,
        "exit_code": worker.exit_code,
        "exit_reason": worker.exit_reason and worker.exit_reason.value,
        "detail": worker.detail or None,
    }


def worker_from_row(row: Row[Any]) -> Worker:
    """Raises `BrokenColumn` for what no worker is that the engine has stored, whatever its columns hold one by one."""
    state = _WORKER_STATES[row.state]
    if bool(row.live) != state.live:
        raise BrokenColumn(f"live: does not go with a worker that is {state}")
    if (row.ended_at is None) != state.live:
        raise BrokenColumn(f"ended_at: does not go with a worker that is {state}")
    if row.desired == Desired.STOP and row.leave_reason is None:
        raise BrokenColumn("leave_reason: must not be NULL for a worker that is to STOP")
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
        shared=bool(row.shared),
        fixed_index=row.fixed_index,
        not_before=row.not_before,
        desired=Desired(row.desired),
        state=state,
        rank=row.rank,
        reported_generation=row.reported_generation,
        endpoint=row.endpoint,
        peer=row.peer,
        started_at=row.started_at,
        ready_at=row.ready_at,
        leave_reason=None if row.leave_reason is None else LeaveReason(row.leave_reason),
        leave_for=row.leave_for,
        stop_deadline=row.stop_deadline,
        ended_at=row.ended_at,
        exit_code=row.exit_code,
        exit_reason=None if row.exit_reason is None else ExitReason(row.exit_reason),
        detail=row.detail or "",
    )


def workers_by_job(rows: Iterable[Row[Any]], aside: SetAside) -> dict[JobId, tuple[Worker, ...]]:
    """Live workers of each job, in the order of the rows. A job of which one cannot be read cannot be either."""
    found: dict[JobId, list[Worker]] = {}
    for worker in aside.read(workers, rows, worker_from_row):
        found.setdefault(worker.job_id, []).append(worker)
    for row in aside.rows:
        if row.table == workers.name and row.job_id is not None:
            aside.blame(row.job_id, f"worker {row.key}: {row.reason}")
    return {job_id: tuple(live) for job_id, live in found.items()}


def homeless(job_id: JobId, live: Sequence[Worker]) -> Unreadable:
    """The job of these live workers, which is none that could have any."""
    reason = f"worker {live[0].id} lives, and the job has ended or is gone"
    return Unreadable(jobs.name, str(job_id), reason, job_id)


def submitted_values(job_id: JobId, nonce: str, spec: JobSpec, now: float, template: Values) -> Values:
    """The row of a job that was submitted just now; `template` is `job_values` of any queued job."""
    return {
        **template,
        **spec_values(spec),
        "id": job_id,
        "nonce": nonce,
        "submitted_at": now,
        "queued_at": now,
        "priority": spec.priority,
        "min_workers": spec.min_workers,
        "max_workers": spec.max_workers,
    }


def template_of(specs: Sequence[JobSpec]) -> Values:
    """What the rows of newly submitted jobs have in common."""
    first = specs[0]
    return job_values(Job(JobId(0), first, first.priority, first.min_workers, first.max_workers, 0.0, 0.0), 0, None)
