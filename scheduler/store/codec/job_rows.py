"""The fields of jobs and workers as columns, once for both directions; `job_reader` makes jobs of rows."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from operator import attrgetter, itemgetter
from typing import Any

from sqlalchemy import Table

from scheduler import bounds
from scheduler.bounds import Bound
from scheduler.model.ids import JobId, worker_id
from scheduler.model.job import Job, JobSpec, Runtime
from scheduler.model.job_state import JobState, StopReason, WaitReason
from scheduler.model.shape import WorkerShape
from scheduler.model.unreadable import Unreadable
from scheduler.model.worker import Desired, ExitReason, LeaveReason, Worker, WorkerState
from scheduler.store.codec.json_text import (
    data_from_text,
    data_to_text,
    export_to_text,
    hosts_from_text,
    hosts_to_text,
    labels_from_text,
    launch_to_text,
    numbers_from_text,
    numbers_to_text,
    pairs_to_text,
    placement_from_text,
    speedup_from_text,
    speedup_to_text,
)
from scheduler.store.codec.progress_text import progress_from_text, progress_to_text
from scheduler.store.codec.reading import SetAside
from scheduler.store.codec.row_check import BrokenColumn, raw_columns
from scheduler.store.sql.engine_tables import jobs, workers

Values = dict[str, Any]
#: How a field is written to its column, and read from it.
Code = tuple[Callable[[Any], Any], Callable[[Any], Any]]

#: A row of the table as it is stored.
WORKER_COLUMNS = raw_columns(workers)
_WORKER_KEY = itemgetter(*map(workers.columns.keys().index, ("job_id", "ordinal")))
_LIVE = workers.columns.keys().index("live")


class StoredFields:
    """The fields of a class that have a column of their own; those without a code are stored as they are."""

    def __init__(
        self,
        table: Table,
        of: type,
        codes: Mapping[str, Code],
        columns: Mapping[str, str] | None = None,
        apart: Collection[str] = (),
    ) -> None:
        """`columns`: the columns of fields that have another name than theirs. `apart`: fields to leave out."""
        named = {each.name: (columns or {}).get(each.name, each.name) for each in fields(of) if each.name not in apart}
        plain = {name: column for name, column in named.items() if name not in codes}
        coded = {name: named[name] for name in codes}
        at = table.columns.keys().index
        self._plain, self._plain_columns = [*plain], [*plain.values()]
        self._plain_of, self._plain_at = attrgetter(*plain), itemgetter(*map(at, plain.values()))
        self._coded_of, self._coded_at = attrgetter(*coded), itemgetter(*map(at, coded.values()))
        self._writes = [(column, codes[name][0]) for name, column in coded.items()]
        self._reads = [(name, codes[name][1]) for name in coded]
        #: All their columns in a row.
        self.key = itemgetter(*map(at, named.values()))

    def values(self, value: object) -> Values:
        """The columns of this value."""
        found = dict(zip(self._plain_columns, self._plain_of(value), strict=True))
        for (column, write), each in zip(self._writes, self._coded_of(value), strict=True):
            found[column] = write(each)
        return found

    def read(self, row: Sequence[Any]) -> Values:
        """The fields in a row of the whole table, in which booleans may be numbers, as SQLite has them."""
        found = dict(zip(self._plain, self._plain_at(row), strict=True))
        for (name, read), each in zip(self._reads, self._coded_at(row), strict=True):
            found[name] = read(each)
        return found


def _same(value: Any) -> Any:
    return value


def _or_null(write: Callable[[Any], Any], read: Callable[[Any], Any], nothing: Any = None) -> Code:
    """NULL stands for nothing."""
    return lambda value: write(value) if value else None, lambda stored: read(stored) if stored else nothing


def _name_of(members: type[Enum]) -> Code:
    by_value: dict[str | None, Enum | None] = {None: None, **{member.value: member for member in members}}
    return lambda member: member and member.value, by_value.__getitem__


def _maybe(write: Callable[[Any], Any], read: Callable[[Any], Any]) -> Code:
    """NULL is None."""
    return (
        lambda value: None if value is None else write(value),
        lambda stored: None if stored is None else read(stored),
    )


def _within(bound: Bound) -> Code:
    """Earlier versions took numbers that are too small or too large now."""
    return _maybe(_same, bound.nearest)


_LABELS = (pairs_to_text, labels_from_text)
_TRUTH = (_same, bool)
#: False is NULL, as in all columns that are younger than their table.
_YOUNG_TRUTH = (lambda value: value or None, bool)
#: All zeros are one object.
_SECONDS = (_same, lambda stored: stored or 0.0)

SHAPE = StoredFields(
    jobs,
    WorkerShape,
    {"cpus": (_same, bounds.CPUS.nearest), "node_selector": _LABELS, "oversell": _YOUNG_TRUTH},
    {"slots": "slots_per_worker", "cpus": "cpus_per_worker", "memory_mib": "memory_mib_per_worker"},
)
SPEC = StoredFields(
    jobs,
    JobSpec,
    {
        "runtime": _name_of(Runtime),
        "labels": _LABELS,
        "time_limit_seconds": _within(bounds.DURATION),
        "grace_seconds": _within(bounds.GRACE),
        "heartbeat_seconds": _within(bounds.HEARTBEAT),
        "preemptible": _TRUTH,
        "surplus_preemptible": _YOUNG_TRUTH,
        "expected_seconds": _within(bounds.DURATION),
        "speedup": (speedup_to_text, speedup_from_text),
        "data": _maybe(data_to_text, data_from_text),
    },
    {
        "user": "user_name",
        "priority": "spec_priority",
        "min_workers": "spec_min_workers",
        "max_workers": "spec_max_workers",
    },
    apart={"name", "client_key", "shape", "command", "env", "workdir", "pod_template", "fixed", "export"},
)
#: What may change of a job.
JOB = StoredFields(
    jobs,
    Job,
    {
        "state": _name_of(JobState),
        "held_from": _name_of(JobState),
        "waited_seconds": _SECONDS,
        "not_before": _SECONDS,
        "served_slot_seconds": _or_null(_same, _same, 0.0),
        "finishing": _TRUTH,
        "wait_reason": _name_of(WaitReason),
        "stop_reason": _name_of(StopReason),
        "reservation": (pairs_to_text, placement_from_text),
        "reservation_shared": _YOUNG_TRUTH,
        "fixed_reservation": _or_null(pairs_to_text, placement_from_text, ()),
        "fixed_hosts": _or_null(hosts_to_text, hosts_from_text, ()),
        "progress": (progress_to_text, progress_from_text),
    },
    apart={"id", "nonce", "spec", "version", "workers", "fixed_workers"},
)
WORKER = StoredFields(
    workers,
    Worker,
    {
        "slot_ids": (numbers_to_text, numbers_from_text),
        "shared": _YOUNG_TRUTH,
        "desired": _name_of(Desired),
        "state": _name_of(WorkerState),
        "leave_reason": _name_of(LeaveReason),
        "exit_reason": _name_of(ExitReason),
        "detail": _or_null(_same, _same, ""),
    },
    apart={"id"},
)


def spec_values(spec: JobSpec) -> Values:
    return {
        **SPEC.values(spec),
        **SHAPE.values(spec.shape),
        "name": spec.name,
        "client_key": spec.client_key,
        "launch": launch_to_text(spec),
        "export": None if spec.export is None else export_to_text(spec.export),
    }


def job_values(job: Job, version: int, revision: int | None) -> Values:
    """What may change of a job, with the version that the row then has and the commit that writes it."""
    return {**JOB.values(job), "active": job.state.active, "version": version, "revision": revision}


def progress_values(job: Job, version: int, revision: int) -> Values:
    """As `job_values`, of a job of which nothing but the progress has changed."""
    return {"progress": progress_to_text(job.progress), "version": version, "revision": revision}


def worker_values(worker: Worker) -> Values:
    return {**WORKER.values(worker), "live": True if worker.state.live else None}


def worker_from_row(row: Sequence[Any]) -> Worker:
    """Raises `BrokenColumn` for what no worker is that the engine has stored, whatever its columns hold one by one."""
    worker = Worker(id=worker_id(*_WORKER_KEY(row)), **WORKER.read(row))
    if bool(row[_LIVE]) != worker.state.live:
        raise BrokenColumn(f"live: does not go with a worker that is {worker.state}")
    if (worker.ended_at is None) != worker.state.live:
        raise BrokenColumn(f"ended_at: does not go with a worker that is {worker.state}")
    if worker.desired is Desired.STOP and worker.leave_reason is None:
        raise BrokenColumn("leave_reason: must not be NULL for a worker that is to STOP")
    return worker


def workers_by_job(rows: Iterable[Sequence[Any]], aside: SetAside) -> dict[JobId, tuple[Worker, ...]]:
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


#: What becomes of a job, as it is when it is submitted.
NEW_JOB = job_values(Job(JobId(0), JobSpec(name="", command=("",)), 0, 1, 1, 0.0, 0.0), 0, None)


def submitted_values(job_id: JobId, nonce: str, spec: JobSpec, now: float) -> Values:
    """The row of a job that was submitted just now."""
    return {
        **NEW_JOB,
        **spec_values(spec),
        "id": job_id,
        "nonce": nonce,
        "submitted_at": now,
        "queued_at": now,
        "priority": spec.priority,
        "min_workers": spec.min_workers,
        "max_workers": spec.max_workers,
    }
