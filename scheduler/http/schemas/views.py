"""Views of jobs and workers. Each is a typed dictionary, so that mypy compares it with its documentation."""

from typing import Any, Literal

from typing_extensions import TypedDict

from scheduler.engine.state.reports import ReportBox, latest_moment
from scheduler.http.schemas.data_views import DataProgressView, DataView, data_view
from scheduler.model.event import Event
from scheduler.model.export import Export, masked
from scheduler.model.job import Job, Progress
from scheduler.model.pod_template import parse_template
from scheduler.model.worker import Worker


class ProgressView(TypedDict):
    #: Steps done.
    step: int | None
    #: Current epoch.
    epoch: int | None
    #: Samples per second at the present size.
    samples_per_second: float | None
    #: When the state was committed last.
    last_commit_at: float | None
    #: When a file in its checkpoint directory was last written, for runtimes torchrun and horovod; null: none was.
    last_checkpoint_at: float | None
    #: Pause of the last resize.
    resize_seconds: float | None
    #: Workers and samples per second at each size that the job had.
    throughput: list[tuple[int, float]]
    #: Share of the whole job that is done.
    fraction: float | None
    #: Progress per sample at the present batch size, against the best.
    efficiency: float | None
    #: Numbers that the script reports, by name.
    metrics: dict[str, float]
    #: When a worker reported last.
    reported_at: float | None


class WorkerView(TypedDict):
    #: Its id, such as 12-3.
    id: str
    #: Id of its job.
    job_id: int
    #: Name of its node.
    node: str
    #: Address at which others reach it.
    host: str
    #: Its slots on the node.
    slot_ids: list[int]
    #: Its place in the job's fixed group; null: one of the workers that are scaled.
    fixed_index: int | None
    #: Whether these are shared slots, on which other workers may run, too.
    shared: bool
    #: PENDING, STARTING, READY, EXITED or LOST.
    state: str
    #: RUN, or STOP once it was asked to leave.
    desired: str
    #: Rank in the published generation; null: none.
    rank: int | None
    #: Where its rendezvous store listens.
    endpoint: str | None
    #: The newest generation that it joined; 0: none.
    reported_generation: int
    #: When it was decided on.
    created_at: float
    #: When it was seen on its node.
    started_at: float | None
    #: When it became ready.
    ready_at: float | None
    #: Why it was asked to leave.
    leave_reason: str | None
    #: The job for which it leaves.
    leave_for: int | None
    #: When it is killed.
    stop_deadline: float | None
    #: When it was gone.
    ended_at: float | None
    #: 128 + its number for a signal; null: unknown.
    exit_code: int | None
    #: Classified reason of its end.
    exit_reason: str | None
    #: The cluster's message: why it does not run yet, or how it ended.
    detail: str


class FixedView(TypedDict):
    replicas: int
    #: Number of live workers.
    workers: int
    #: `host:port` of each, in order, known from its start on.
    hosts: list[str]
    command: list[str]
    slots_per_worker: int
    cpus_per_worker: float
    memory_mib_per_worker: int
    node_selector: dict[str, str]
    gpu_type: str | None
    pod_template: dict[str, Any] | None


class ExportView(TypedDict):
    #: Values of secrets are masked.
    env: dict[str, str]
    #: Null: the job has its own.
    workdir: str | None
    host: str | None


class JobView(TypedDict):
    #: Its id.
    id: int
    #: Its name.
    name: str
    user: str
    #: Its state.
    state: str
    priority: int
    #: Fewest workers.
    min_workers: int
    #: Most workers.
    max_workers: int
    #: Live workers that were not asked to leave.
    workers: int
    #: Workers of the published generation.
    members: int
    #: Number of published memberships.
    generation: int
    #: Starts so far.
    attempt: int
    #: Failures that count against `max_retries`.
    retries_used: int
    max_retries: int
    runtime: str
    #: Program and arguments.
    command: list[str]
    workdir: str | None
    labels: dict[str, str]
    slots_per_worker: int
    cpus_per_worker: float
    memory_mib_per_worker: int
    node_selector: dict[str, str]
    gpu_type: str | None
    time_limit_seconds: float | None
    grace_seconds: float
    heartbeat_seconds: float | None
    preemptible: bool | Literal["surplus"]
    preferred_workers: int | None
    expected_seconds: float | None
    speedup: list[tuple[int, float]]
    oversell: bool
    booking: str | None
    queue: str | None
    client_key: str | None
    #: Pod template of its workers, on Kubernetes.
    pod_template: dict[str, Any] | None
    #: What its workers take in shards.
    data: DataView | None
    #: Its workers beside these that are never scaled.
    fixed: FixedView | None
    #: When it was submitted.
    submitted_at: float
    #: When it went into the queue last, or was suspended.
    queued_at: float
    #: Start of its first attempt.
    first_started_at: float | None
    #: Start of this attempt; null while it waits or is suspended.
    started_at: float | None
    #: When all members of this attempt first ran.
    running_at: float | None
    #: When it ended.
    finished_at: float | None
    #: Why it waits, or why it was stopped.
    reason: str | None
    #: The job in whose favour it waits or was stopped.
    for_job: int | None
    #: How it ended, or why it was stopped, in one line.
    detail: str
    #: Exit code of the worker that failed last; 0: the job succeeded; null: none is known.
    exit_code: int | None
    #: What its workers report.
    progress: ProgressView
    #: Nodes and numbers of workers for which capacity is held.
    reservation: list[tuple[str, int]]
    #: Whether that is capacity beyond the physical slots.
    reservation_shared: bool
    #: Nodes and numbers of workers for which capacity is held for its fixed group.
    fixed_reservation: list[tuple[str, int]]


class JobDetail(JobView):
    #: Progress of its data set; null: it has none.
    data_progress: DataProgressView | None
    #: The submitter's environment that the job has.
    export: ExportView | None
    #: Variables that the job was submitted with, and those that its fixed group has besides; secrets are masked.
    env: dict[str, str]
    #: Variables that its fixed group has besides; secrets are masked.
    fixed_env: dict[str, str]
    #: Its live workers, fixed ones first.
    live_workers: list[WorkerView]


class EventView(TypedDict):
    #: Its id; later events have greater ones.
    id: int
    #: When; unix seconds.
    at: float
    #: What happened.
    kind: str
    #: Id of the job; null: of none.
    job_id: int | None
    #: Id of the worker; null: of none.
    worker_id: str | None
    #: Name of the node; null: of none.
    node: str | None
    #: The typed reason.
    cause: str
    #: The job in whose favour it happened.
    for_job: int | None
    #: What happened, for people.
    detail: str
    #: A number that belongs to some kinds: seconds, slots, slot-seconds, shards or workers.
    amount: float | None


def job_view(job: Job, reports: ReportBox) -> JobView:
    spec, shape = job.spec, job.shape
    waiting = job.wait_reason is not None and not job.state.active and not job.state.terminal
    return {
        "id": job.id,
        "name": spec.name,
        "user": spec.user,
        "state": job.state,
        "priority": job.priority,
        "min_workers": job.min_workers,
        "max_workers": job.max_workers,
        "workers": len(job.wanted_workers),
        "members": sum(w.member for w in job.workers),
        "generation": job.generation,
        "attempt": job.attempt,
        "retries_used": job.retries_used,
        "max_retries": spec.max_retries,
        "runtime": spec.runtime,
        "command": list(spec.command),
        "workdir": spec.workdir or (spec.export.workdir if spec.export is not None else None),
        "labels": dict(spec.labels),
        "slots_per_worker": shape.slots,
        "cpus_per_worker": shape.cpus,
        "memory_mib_per_worker": shape.memory_mib,
        "node_selector": dict(shape.node_selector),
        "gpu_type": shape.gpu_type,
        "time_limit_seconds": spec.time_limit_seconds,
        "grace_seconds": spec.grace_seconds,
        "heartbeat_seconds": spec.heartbeat_seconds,
        "preemptible": "surplus" if spec.surplus_preemptible else spec.preemptible,
        "preferred_workers": spec.preferred_workers,
        "expected_seconds": spec.expected_seconds,
        "speedup": [(workers, speed) for workers, speed in spec.speedup],
        "oversell": shape.oversell,
        "booking": spec.booking,
        "queue": spec.queue or None,
        "client_key": spec.client_key,
        "pod_template": None if spec.pod_template is None else parse_template(spec.pod_template),
        "data": None if spec.data is None else data_view(spec.data),
        "fixed": _fixed_view(job),
        "submitted_at": job.submitted_at,
        "queued_at": job.queued_at,
        "first_started_at": job.first_started_at,
        "started_at": job.started_at,
        "running_at": job.running_at,
        "finished_at": job.finished_at,
        "reason": job.wait_reason if waiting else job.stop_reason,
        "for_job": job.wait_for if waiting else job.stop_for,
        "detail": job.detail,
        "exit_code": job.exit_code,
        "progress": _progress_view(job, reports),
        "reservation": [(node, count) for node, count in job.reservation],
        "reservation_shared": job.reservation_shared,
        "fixed_reservation": [(node, count) for node, count in job.fixed_reservation],
    }


def _fixed_view(job: Job) -> FixedView | None:
    group = job.spec.fixed
    if group is None:
        return None
    return {
        "replicas": group.replicas,
        "workers": len(job.fixed_workers),
        "hosts": list(job.fixed_hosts),
        "command": list(group.command),
        "slots_per_worker": group.shape.slots,
        "cpus_per_worker": group.shape.cpus,
        "memory_mib_per_worker": group.shape.memory_mib,
        "node_selector": dict(group.shape.node_selector),
        "gpu_type": group.shape.gpu_type,
        "pod_template": None if group.pod_template is None else parse_template(group.pod_template),
    }


def job_detail(job: Job, reports: ReportBox, data_progress: DataProgressView | None) -> JobDetail:
    return {
        **job_view(job, reports),
        "data_progress": data_progress,
        "export": export_view(job.spec.export),
        "env": masked(job.spec.env),
        "fixed_env": masked(job.spec.fixed.env) if job.spec.fixed is not None else {},
        "live_workers": [worker_view(worker) for worker in job.all_workers],
    }


def export_view(export: Export | None) -> ExportView | None:
    if export is None:
        return None
    return {"env": masked(export.env), "workdir": export.workdir, "host": export.host}


def _progress_view(job: Job, reports: ReportBox) -> ProgressView:
    """The stored progress, updated by newer reports of the oldest member: progress is stored only now and then."""
    stored: Progress = job.progress
    metrics = dict(stored.metrics)
    view: ProgressView = {
        "step": stored.step,
        "epoch": stored.epoch,
        "samples_per_second": stored.samples_per_second,
        "last_commit_at": stored.last_commit_at,
        "last_checkpoint_at": stored.last_checkpoint_at,
        "resize_seconds": stored.resize_seconds,
        "throughput": [(workers, rate) for workers, rate in stored.throughput],
        "fraction": stored.fraction,
        "efficiency": stored.efficiency,
        "metrics": metrics,
        "reported_at": stored.reported_at,
    }
    oldest = next((w for w in job.workers if w.rank == 0), None)
    report = reports.latest(oldest.id) if oldest is not None else None
    if report is None or (stored.reported_at is not None and report.received_at <= stored.reported_at):
        return view
    metrics.update(report.metrics)
    view["reported_at"] = report.received_at
    view["step"] = stored.step if report.step is None else report.step
    view["epoch"] = stored.epoch if report.epoch is None else report.epoch
    view["last_commit_at"] = stored.last_commit_at if report.last_commit_at is None else report.last_commit_at
    view["last_checkpoint_at"] = latest_moment(stored.last_checkpoint_at, report.last_checkpoint_at)
    view["fraction"] = stored.fraction if report.fraction is None else report.fraction
    view["efficiency"] = stored.efficiency if report.efficiency is None else report.efficiency
    if report.samples_per_second is not None:
        view["samples_per_second"] = report.samples_per_second
    return view


def worker_view(worker: Worker) -> WorkerView:
    return {
        "id": worker.id,
        "job_id": worker.job_id,
        "node": worker.node,
        "host": worker.host,
        "slot_ids": list(worker.slot_ids),
        "fixed_index": worker.fixed_index,
        "shared": worker.shared,
        "state": worker.state,
        "desired": worker.desired,
        "rank": worker.rank,
        "endpoint": worker.endpoint,
        "reported_generation": worker.reported_generation,
        "created_at": worker.created_at,
        "started_at": worker.started_at,
        "ready_at": worker.ready_at,
        "leave_reason": worker.leave_reason,
        "leave_for": worker.leave_for,
        "stop_deadline": worker.stop_deadline,
        "ended_at": worker.ended_at,
        "exit_code": worker.exit_code,
        "exit_reason": worker.exit_reason,
        "detail": worker.detail,
    }


def event_view(event_id: int, event: Event) -> EventView:
    return {
        "id": event_id,
        "at": event.at,
        "kind": event.kind,
        "job_id": event.job_id,
        "worker_id": event.worker_id,
        "node": event.node,
        "cause": event.cause,
        "for_job": event.for_job,
        "detail": event.detail,
        "amount": event.amount,
    }
