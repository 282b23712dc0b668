"""Jobs out of rows of the jobs table: a hundred thousand of them are read when the engine starts."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeVar

from scheduler.model.export import Export
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job, JobSpec
from scheduler.model.job_state import JobState
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import Worker
from scheduler.store.codec.job_rows import JOB, SHAPE, SPEC, submitted_values, template_of
from scheduler.store.codec.json_text import Launch, export_from_text, launch_from_text
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
_at = jobs.columns.keys().index
_ACTIVE, _EXPORT = _at("active"), _at("export")
_AS_STORED = itemgetter(*map(_at, ("id", "nonce", "version")))
#: Columns of a spec in which the jobs of a sweep differ.
_OWN = itemgetter(*map(_at, ("name", "client_key", "launch")))


def jobs_from_rows(
    rows: Iterable[Sequence[Any]],
    workers: Mapping[JobId, tuple[Worker, ...]],
    aside: SetAside,
    nodes: AbstractSet[NodeName] | None = None,
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


def check_spec(spec: JobSpec) -> None:
    """Raise `BrokenColumn` for a spec of which no job can be made whose row can be read."""
    values = submitted_values(JobId(1), "", spec, 0.0, template_of([spec]))
    aside = SetAside()
    if not list(jobs_from_rows([[values.get(column.name) for column in jobs.columns]], {}, aside)):
        raise BrokenColumn(f"spec: {aside.rows[0].reason}")


def _broken_rule(job: Job, active: bool, nodes: AbstractSet[NodeName] | None) -> str | None:
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
    places = (*job.reservation, *job.fixed_reservation)
    if nodes is not None and any(name not in nodes for name, _ in places):
        return "reservation: names a node that is not known"
    return _broken_by_worker(job, nodes) if job.all_workers or job.published_size else None


def _broken_by_worker(job: Job, nodes: AbstractSet[NodeName] | None) -> str | None:
    if not job.state.active:
        return f"state: a job that is {job.state} has no live workers"
    ranks = [worker.rank for worker in job.members]
    if len(set(ranks)) < len(ranks):
        return f"worker {job.members[0].id}: has the rank of another"
    replicas = 0 if job.spec.fixed is None else job.spec.fixed.replicas
    if len(job.fixed_hosts) != replicas:
        return f"fixed_hosts: must name {replicas} hosts, one for each fixed worker, not {len(job.fixed_hosts)}"
    for worker in job.all_workers:
        if worker.ordinal >= job.next_ordinal:
            return f"next_ordinal: must be above {worker.ordinal}, which worker {worker.id} has"
        if worker.fixed_index is not None and worker.fixed_index >= replicas:
            return f"worker {worker.id}: fixed_index: must be below {replicas}, not {worker.fixed_index}"
        if nodes is not None and worker.node not in nodes:
            return f"worker {worker.id}: node: {worker.node[:100]!r} is not known"
    return None


class JobReader:
    """Jobs from rows of the whole jobs table. Equal parts of the jobs that one reader makes are one object."""

    def __init__(self) -> None:
        self._launches: dict[str, Launch] = {}
        self._exports: dict[str, Export] = {}
        self._shapes: dict[tuple[Any, ...], WorkerShape] = {}
        #: By all columns of a spec but name, client key and launch: its other fields, and the last spec with its own.
        self._specs: dict[tuple[Any, ...], _Known] = {}

    def job(self, row: Sequence[Any], workers: tuple[Worker, ...] = ()) -> Job:
        job_id, nonce, version = _AS_STORED(row)
        fields = JOB.read(row)
        if fields["queued_at"] == fields["submitted_at"]:
            fields["queued_at"] = fields["submitted_at"]  # one object
        scaled, fixed_workers = _apart(workers)
        return Job(
            id=job_id,
            spec=self._spec(row),
            workers=scaled,
            fixed_workers=fixed_workers,
            nonce=nonce or "",
            version=version,
            **fields,
        )

    def _spec(self, row: Sequence[Any]) -> JobSpec:
        """Jobs that differ in name, client key and launch only, as those of a sweep do, share all the rest."""
        own, rest = _OWN(row), (SPEC.key(row), SHAPE.key(row), row[_EXPORT])
        known = _kept(self._specs, rest, lambda _: _Known(self._shared_fields(row)))
        if known.spec is None or known.own != own:
            name, client_key, launch = own
            command, env, workdir, pod_template, fixed = _kept(self._launches, launch, launch_from_text)
            known.spec = JobSpec(
                name=name,
                client_key=client_key,
                command=command,
                env=env,
                workdir=workdir,
                pod_template=pod_template,
                fixed=fixed,
                **known.shared,
            )
            known.own = own
        return known.spec

    def _shared_fields(self, row: Sequence[Any]) -> dict[str, Any]:
        shape = _kept(self._shapes, SHAPE.key(row), lambda _: WorkerShape(**SHAPE.read(row)))
        export = row[_EXPORT]
        return {
            **SPEC.read(row),
            "shape": shape,
            "export": None if export is None else _kept(self._exports, export, export_from_text),
        }


@dataclass(slots=True)
class _Known:
    """The fields that specs share, and the last of these specs with its own columns."""

    shared: dict[str, Any]
    own: tuple[Any, ...] = ()
    spec: JobSpec | None = None


def _kept(parts: dict[K, V], key: K, read: Callable[[K], V]) -> V:
    """The part that is made of the key, made once; all are forgotten where they become too many."""
    part = parts.get(key)
    if part is None:
        if len(parts) >= PARTS_KEPT:
            parts.clear()
        part = parts[key] = read(key)
    return part


def _apart(workers: tuple[Worker, ...]) -> tuple[tuple[Worker, ...], tuple[Worker, ...]]:
    """Those that are scaled, and the fixed ones."""
    if not any(worker.fixed for worker in workers):
        return workers, ()
    return tuple(w for w in workers if not w.fixed), tuple(w for w in workers if w.fixed)
