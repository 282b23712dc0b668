"""Jobs out of rows of the jobs table: a hundred thousand of them are read when the engine starts."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from scheduler import bounds
from scheduler.bounds import Bound
from scheduler.model.export import Export
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job, JobSpec, Runtime
from scheduler.model.job_state import JobState, StopReason, WaitReason
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import Worker
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
_ACTIVE = jobs.columns.keys().index("active")
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

    def read(row: Sequence[Any]) -> Job:
        if (blamed := aside.jobs.get(row[0])) is not None:
            raise BrokenColumn(blamed)
        job = reader.job(row, workers.get(row[0], ()))
        if (broken := _broken_rule(job, bool(row[_ACTIVE]), nodes)) is not None:
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


class JobReader:
    """Jobs from rows of the whole jobs table. Equal parts of the jobs that one reader makes are one object.

    Rows are taken apart by position; booleans may be numbers, as SQLite has them.
    """

    def __init__(self) -> None:
        self._launches = _Parts[str, Launch](launch_from_text)
        #: By all columns of a spec but name, client key and launch: the last launch with the last spec.
        self._specs: dict[tuple[Any, ...], tuple[str, JobSpec]] = {}
        self._shapes = _Parts[tuple[Any, ...], WorkerShape](_shape)
        self._exports = _Parts[str, Export](export_from_text)

    def job(self, row: Sequence[Any], workers: tuple[Worker, ...] = ()) -> Job:
        (
            job_id,
            name,
            client_key,
            user,
            runtime,
            launch,
            labels,
            spec_priority,
            spec_min_workers,
            spec_max_workers,
            slots,
            cpus,
            memory_mib,
            node_selector,
            gpu_type,
            time_limit_seconds,
            max_retries,
            grace_seconds,
            heartbeat_seconds,
            preemptible,
            preferred_workers,
            expected_seconds,
            speedup,
            oversell,
            booking,
            data,
            export,
            nonce,
            submitted_at,
            priority,
            min_workers,
            max_workers,
            queued_at,
            state,
            held_from,
            _active,
            waited_seconds,
            attempt,
            retries_used,
            last_failure_at,
            not_before,
            next_ordinal,
            generation,
            published_size,
            first_started_at,
            started_at,
            running_at,
            finished_at,
            last_resize_at,
            served_slot_seconds,
            finishing,
            master_port,
            wait_reason,
            wait_for,
            stop_reason,
            stop_for,
            detail,
            exit_code,
            reservation,
            reservation_shared,
            fixed_reservation,
            fixed_hosts,
            progress,
            version,
            _revision,
        ) = row
        scaled, fixed_workers = _apart(workers)
        shape = (slots, cpus, memory_mib, node_selector, gpu_type, oversell)
        bounds = (spec_priority, spec_min_workers, spec_max_workers)
        limits = (time_limit_seconds, max_retries, grace_seconds, heartbeat_seconds, preemptible)
        wishes = (preferred_workers, expected_seconds, speedup, booking, data, export)
        return Job(
            id=job_id,
            spec=self._spec(name, client_key, launch, (user, runtime, labels, bounds, shape, limits, wishes)),
            priority=priority,
            min_workers=min_workers,
            max_workers=max_workers,
            submitted_at=submitted_at,
            queued_at=submitted_at if queued_at == submitted_at else queued_at,
            state=_STATES[state],
            held_from=None if held_from is None else _STATES[held_from],
            waited_seconds=waited_seconds or 0.0,
            attempt=attempt,
            retries_used=retries_used,
            last_failure_at=last_failure_at,
            not_before=not_before or 0.0,
            next_ordinal=next_ordinal,
            generation=generation,
            published_size=published_size,
            first_started_at=first_started_at,
            started_at=started_at,
            running_at=running_at,
            finished_at=finished_at,
            last_resize_at=last_resize_at,
            served_slot_seconds=served_slot_seconds or 0.0,
            finishing=bool(finishing),
            master_port=master_port,
            wait_reason=_WAIT_REASONS[wait_reason],
            wait_for=wait_for,
            stop_reason=_STOP_REASONS[stop_reason],
            stop_for=stop_for,
            detail=detail,
            exit_code=exit_code,
            reservation=placement_from_text(reservation),
            reservation_shared=bool(reservation_shared),
            fixed_reservation=placement_from_text(fixed_reservation) if fixed_reservation else (),
            fixed_hosts=words_from_text(fixed_hosts) if fixed_hosts else (),
            progress=progress_from_text(progress),
            workers=scaled,
            fixed_workers=fixed_workers,
            nonce=nonce or "",
            version=version,
        )

    def _spec(self, name: str, client_key: str | None, launch: str, rest: tuple[Any, ...]) -> JobSpec:
        """Jobs that differ in name, client key and launch only, as those of a sweep do, share all the rest."""
        known_launch, like = self._specs.get(rest) or (launch, self._first_spec(name, client_key, launch, rest))
        if known_launch == launch:
            if like.name == name and like.client_key == client_key:
                return like
            command, env, workdir, pod_template = like.command, like.env, like.workdir, like.pod_template
            fixed = like.fixed
        else:
            command, env, workdir, pod_template, fixed = self._launches[launch]
        spec = JobSpec(
            name,
            command,
            like.user,
            env,
            workdir,
            like.labels,
            like.runtime,
            like.priority,
            like.min_workers,
            like.max_workers,
            like.shape,
            like.time_limit_seconds,
            like.max_retries,
            like.grace_seconds,
            like.heartbeat_seconds,
            like.preemptible,
            like.preferred_workers,
            like.expected_seconds,
            like.speedup,
            like.booking,
            client_key,
            pod_template,
            like.data,
            fixed,
            like.export,
        )
        self._specs[rest] = (launch, spec)
        return spec

    def _first_spec(self, name: str, client_key: str | None, launch: str, rest: tuple[Any, ...]) -> JobSpec:
        user, runtime, labels, (priority, min_workers, max_workers), shape, limits, wishes = rest
        time_limit_seconds, max_retries, grace_seconds, heartbeat_seconds, preemptible = limits
        preferred_workers, expected_seconds, speedup, booking, data, export = wishes
        command, env, workdir, pod_template, fixed = self._launches[launch]
        spec = JobSpec(
            name=name,
            command=command,
            user=user,
            env=env,
            workdir=workdir,
            labels=labels_from_text(labels),
            runtime=Runtime(runtime),
            priority=priority,
            min_workers=min_workers,
            max_workers=max_workers,
            shape=self._shapes[shape],
            time_limit_seconds=_within(time_limit_seconds, bounds.DURATION),
            max_retries=max_retries,
            grace_seconds=bounds.GRACE.nearest(grace_seconds),
            heartbeat_seconds=_within(heartbeat_seconds, bounds.HEARTBEAT),
            preemptible=bool(preemptible),
            preferred_workers=preferred_workers,
            expected_seconds=_within(expected_seconds, bounds.DURATION),
            speedup=speedup_from_text(speedup),
            booking=booking,
            client_key=client_key,
            pod_template=pod_template,
            data=None if data is None else data_from_text(data),
            fixed=fixed,
            export=None if export is None else self._exports[export],
        )
        if len(self._specs) >= PARTS_KEPT:
            self._specs.clear()
        self._specs[rest] = (launch, spec)
        return spec


class _Parts(dict[K, V]):
    """Parts by what they are read from, each read once; all are forgotten where they become too many."""

    def __init__(self, read: Callable[[K], V]) -> None:
        self._read = read

    def __missing__(self, key: K) -> V:
        if len(self) >= PARTS_KEPT:
            self.clear()
        part = self[key] = self._read(key)
        return part


def _shape(key: tuple[Any, ...]) -> WorkerShape:
    slots, cpus, memory_mib, node_selector, gpu_type, oversell = key
    return WorkerShape(
        slots, bounds.CPUS.nearest(cpus), memory_mib, labels_from_text(node_selector), gpu_type, bool(oversell)
    )


def _within(value: float | None, bound: Bound) -> float | None:
    """Earlier versions took numbers that are too small or too large now."""
    return None if value is None else bound.nearest(value)


def _apart(workers: tuple[Worker, ...]) -> tuple[tuple[Worker, ...], tuple[Worker, ...]]:
    """Those that are scaled, and the fixed ones."""
    if not any(worker.fixed for worker in workers):
        return workers, ()
    return tuple(w for w in workers if not w.fixed), tuple(w for w in workers if w.fixed)
