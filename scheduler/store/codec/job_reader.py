"""Jobs out of rows of the jobs table: a hundred thousand of them are read when the engine starts."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any, TypeVar

from scheduler.model.export import Export
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job, JobSpec
from scheduler.model.job_state import JobState
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import Worker
from scheduler.store.codec.job_rows import JOB, SHAPE, SPEC, submitted_values
from scheduler.store.codec.json_text import Launch, export_from_text, launch_from_text
from scheduler.store.codec.reading import SetAside, check_row
from scheduler.store.codec.row_check import BrokenColumn, RowCheck, raw_columns
from scheduler.store.codec.stencil import Stencil
from scheduler.store.sql.engine_tables import jobs

K = TypeVar("K")
V = TypeVar("V")

#: Distinct parts that a reader remembers, so that jobs that share nothing do not fill the memory.
PARTS_KEPT = 10_000
#: Rows of which the columns are checked together.
ROWS_TOGETHER = 1000

#: A row of the table as it is stored.
JOB_COLUMNS = raw_columns(jobs)
#: It is a part of names of directories and pods.
_NONCE = re.compile(r"[0-9a-z]{0,32}")
_at = jobs.columns.keys().index
_ACTIVE, _EXPORT = _at("active"), _at("export")
#: Columns in which the waiting jobs of a sweep differ. Of what all others hold, many jobs share each combination.
_OWN_NAMES = ("id", "nonce", "version", "submitted_at", "queued_at", "name", "client_key", "launch", "revision")
_OWN = itemgetter(*map(_at, _OWN_NAMES))
_NONCE_AT = _at("nonce")
_OTHERS = itemgetter(*(_at(each.name) for each in jobs.columns if each.name not in _OWN_NAMES))
_check_own = RowCheck(jobs.columns[name] for name in _OWN_NAMES)

_SPEC = Stencil(JobSpec, ("name", "client_key", "command", "env", "workdir", "pod_template", "fixed"))
_JOB = Stencil(Job, ("id", "nonce", "version", "submitted_at", "queued_at", "spec", "workers", "fixed_workers"))


def jobs_from_rows(
    rows: Iterable[Sequence[Any]],
    workers: Mapping[JobId, tuple[Worker, ...]],
    aside: SetAside,
    nodes: AbstractSet[NodeName] | None = None,
) -> Iterator[Job]:
    """The jobs of these rows, each with its workers; those that cannot be read are set aside.

    `nodes`: all that are known, so that no worker is on any other; None: that is not looked at.
    """
    reader = JobReader(nodes)
    left = iter(rows)
    while together := list(islice(left, ROWS_TOGETHER)):
        read = partial(_read, reader, workers, aside, sound=_own_columns_are_sound(together))
        yield from aside.read_unchecked(jobs, together, read)


def _read(
    reader: "JobReader",
    workers: Mapping[JobId, tuple[Worker, ...]],
    aside: SetAside,
    row: Sequence[Any],
    *,
    sound: bool,
) -> Job:
    """`sound`: nothing is wrong with what the row shares with no other."""
    blamed = aside.jobs.get(row[0])
    if blamed is not None or not sound:
        check_row(jobs, row)
        if not _has_nonce(row):
            raise BrokenColumn("nonce: must be empty, or digits and letters as it was made")
    if blamed is not None:  # its own columns are told of first
        raise BrokenColumn(blamed)
    return reader.job(row, workers.get(row[0], ()))


def _own_columns_are_sound(rows: Sequence[Sequence[Any]]) -> bool:
    """Whether the columns in which jobs differ hold what they may in all of these rows; quicker than one by one."""
    return _check_own.all_fit([*map(_OWN, rows)]) and all(map(_has_nonce, rows))


def _has_nonce(row: Sequence[Any]) -> bool:
    """Whether its nonce is one, or there is none."""
    return _NONCE.fullmatch(row[_NONCE_AT] or "") is not None


def check_spec(spec: JobSpec) -> None:
    """Raise `BrokenColumn` for a spec of which no job can be made whose row can be read."""
    values = submitted_values(JobId(1), "", spec, 0.0)
    aside = SetAside()
    if not list(jobs_from_rows([[values.get(column.name) for column in jobs.columns]], {}, aside)):
        raise BrokenColumn(f"spec: {aside.rows[0].reason}")


def _broken_rule(job: Job, active: bool, nodes: AbstractSet[NodeName] | None) -> str | None:
    """What no job is that the engine has stored, whatever its columns hold one by one, but for its workers."""
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
    places = (*job.reservation, *job.fixed_reservation)
    if nodes is not None and any(name not in nodes for name, _ in places):
        return "reservation: names a node that is not known"
    return None


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

    def __init__(self, nodes: AbstractSet[NodeName] | None = None) -> None:
        """`nodes`: all that are known, so that no worker is on any other; None: that is not looked at."""
        self._nodes = nodes
        self._launches: dict[str, Launch] = {}
        self._exports: dict[str, Export] = {}
        self._shapes: dict[tuple[Any, ...], WorkerShape] = {}
        #: By the columns of a spec in which jobs of a sweep are alike.
        self._specs: dict[tuple[Any, ...], JobSpec] = {}
        #: By all columns in which they are.
        self._alike: dict[tuple[Any, ...], _Alike] = {}

    def job(self, row: Sequence[Any], workers: tuple[Worker, ...] = ()) -> Job:
        """Raises `BrokenColumn` and other errors for a row of which no job can be made.

        The columns in which it differs from others are known to hold what they may.
        """
        others = _OTHERS(row)
        alike = self._alike.get(others)
        if alike is None:
            check_row(jobs, row)
            alike = _kept(self._alike, others, lambda _: self._read(row))
        job_id, nonce, version, submitted_at, queued_at, *names_and_launch, _ = _OWN(row)
        if queued_at == submitted_at:
            queued_at = submitted_at  # one object
        spec = alike.spec_of(names_and_launch, self._launch)
        differing = (job_id, nonce or "", version, submitted_at, queued_at, spec, *_apart(workers))
        job = _JOB.value(alike.job, differing)
        if (workers or job.published_size) and (broken := _broken_by_worker(job, self._nodes)) is not None:
            raise BrokenColumn(broken)
        return job

    def _read(self, row: Sequence[Any]) -> "_Alike":
        """What the job of this row has in common with others. Raises `BrokenColumn`."""
        spec = _kept(self._specs, (SPEC.key(row), SHAPE.key(row), row[_EXPORT]), lambda _: self._spec(row))
        job = Job(id=JobId(0), spec=spec, **JOB.read(row))
        if (broken := _broken_rule(job, bool(row[_ACTIVE]), self._nodes)) is not None:
            raise BrokenColumn(broken)
        return _Alike(_JOB.alike(job), _SPEC.alike(spec))

    def _spec(self, row: Sequence[Any]) -> JobSpec:
        """The spec of the row without name, client key and launch."""
        shape = _kept(self._shapes, SHAPE.key(row), lambda _: WorkerShape(**SHAPE.read(row)))
        stored = row[_EXPORT]
        export = None if stored is None else _kept(self._exports, stored, export_from_text)
        return JobSpec(name="", command=(), shape=shape, export=export, **SPEC.read(row))

    def _launch(self, text: str) -> Launch:
        return _kept(self._launches, text, launch_from_text)


class _Alike:
    """The fields that jobs have in common, and the last spec of one of them."""

    __slots__ = ("_names_and_launch", "_spec", "_spec_fields", "job")

    def __init__(self, job: Sequence[Any], spec: Sequence[Any]) -> None:
        self.job = job
        self._spec_fields = spec
        self._names_and_launch: list[Any] = []
        self._spec: JobSpec | None = None

    def spec_of(self, names_and_launch: list[Any], read: Callable[[str], Launch]) -> JobSpec:
        """The spec with this name, client key and launch."""
        if self._spec is None or names_and_launch != self._names_and_launch:
            name, client_key, launch = names_and_launch
            self._spec = _SPEC.value(self._spec_fields, (name, client_key, *read(launch)))
            self._names_and_launch = names_and_launch
        return self._spec


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
    if not workers or not any(worker.fixed for worker in workers):
        return workers, ()
    return tuple(w for w in workers if not w.fixed), tuple(w for w in workers if w.fixed)
