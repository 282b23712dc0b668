"""What a user submits, and what has become of it."""

from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from operator import attrgetter
from typing import Self

from scheduler import bounds
from scheduler.errors import IllegalTransition
from scheduler.model.data import DataSet
from scheduler.model.export import Export
from scheduler.model.fixed import FixedGroup
from scheduler.model.ids import JobId, JobKey, NodeName, WorkerId, job_key
from scheduler.model.job_state import JOB_TRANSITIONS, JobState, StopReason, WaitReason
from scheduler.model.queue import ROOT
from scheduler.model.shape import WorkerShape
from scheduler.model.speed import Scatter, SizeSpeed, speed_at, with_declared
from scheduler.model.worker import Worker, WorkerState


class Runtime(StrEnum):
    """How a worker is started and when it counts as ready."""

    #: Any command; ready as soon as its process runs.
    COMMAND = "command"
    #: A script that uses `scheduler.elastic`; reports ready itself and is resized in the process.
    ELASTIC = "elastic"
    #: Any script under torchrun, an agent per worker; at a resize its processes are started anew.
    TORCHRUN = "torchrun"
    #: Any script of Horovod Elastic: a driver that runs horovodrun is its fixed group, workers hold the slots.
    HOROVOD = "horovod"

    @property
    def driven(self) -> bool:
        """Whether the fixed group leads the others: once it is done, so is the job."""
        return self is Runtime.HOROVOD

    @property
    def reports(self) -> bool:
        """Whether workers say themselves when they are ready, and of which generation they are members."""
        return self is not Runtime.COMMAND

    @property
    def watches_checkpoints(self) -> bool:
        """Whether workers tell when a checkpoint was written, by looking at its directory; they tell of no commits."""
        return self in (Runtime.TORCHRUN, Runtime.HOROVOD)

    @property
    def restarts_processes(self) -> bool:
        """Whether a resize starts the processes of all workers anew, so that they repeat work since a checkpoint."""
        return self is Runtime.TORCHRUN


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job as submitted; never changes. Priority and bounds are where it starts: `Job` has the current ones."""

    name: str
    command: tuple[str, ...]
    user: str = ""
    env: tuple[tuple[str, str], ...] = ()
    workdir: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    runtime: Runtime = Runtime.COMMAND
    priority: int = 0
    min_workers: int = 1
    max_workers: int = 1
    shape: WorkerShape = WorkerShape()
    #: Wall time of one attempt, from its start.
    time_limit_seconds: float | None = None
    max_retries: int = 3
    #: Between being asked to leave and being killed.
    grace_seconds: float = 30.0
    #: A worker that reports nothing for this time is hung; 0: not watched, None: as the settings say.
    heartbeat_seconds: float | None = None
    #: Whether more important jobs may take its slots; and where not, whether they may take those beyond its minimum.
    preemptible: bool = True
    surplus_preemptible: bool = False
    #: The size at which policies that never resize run it; None: `max_workers`.
    preferred_workers: int | None = None
    #: How long it runs at its preferred size, as far as its user knows.
    expected_seconds: float | None = None
    #: Declared speed by size, ascending: (workers, speed in any one unit). What workers report counts more.
    speedup: tuple[tuple[int, float], ...] = ()
    #: The booked capacity that it belongs to.
    booking: str | None = None
    #: The queue that it belongs to; empty: the root.
    queue: str = ROOT
    #: Submitting the same key again gives the first job.
    client_key: str | None = None
    #: A Kubernetes pod template that its workers' pods are built upon: canonical JSON, see `model.pod_template`.
    pod_template: str | None = None
    #: What its workers take in shards.
    data: DataSet | None = None
    #: Workers that are never scaled, beside all others.
    fixed: FixedGroup | None = None
    #: What it takes of its submitter's environment; its own variables and directory win.
    export: Export | None = None

    def __post_init__(self) -> None:
        bounds.DURATION.check("time_limit_seconds", self.time_limit_seconds)
        bounds.DURATION.check("expected_seconds", self.expected_seconds)
        bounds.GRACE.check("grace_seconds", self.grace_seconds)
        bounds.HEARTBEAT.check("heartbeat_seconds", self.heartbeat_seconds)
        for _, speed in self.speedup:
            bounds.SPEED.check("speedup", speed)

    @property
    def shrinkable(self) -> bool:
        """Whether more important jobs may take what it holds beyond its minimum."""
        return self.preemptible or self.surplus_preemptible

    @property
    def stop_seconds(self) -> float:
        """From being asked to stop until the last worker is killed: a fixed group is asked when the others are gone."""
        return self.grace_seconds if self.fixed is None else 2 * self.grace_seconds


#: Where workers go: (node, number of workers), each node once.
Placement = tuple[tuple[NodeName, int], ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """What the workers last reported. Stored at intervals, so it may lag by some seconds."""

    step: int | None = None
    epoch: int | None = None
    samples_per_second: float | None = None
    last_commit_at: float | None = None
    #: When a file of its directory for checkpoints was written last; see `Runtime.watches_checkpoints`.
    last_checkpoint_at: float | None = None
    #: Last step at the old size to first step at the new one, as measured by the workers.
    resize_seconds: float | None = None
    #: Its speed at each size that it had, ascending.
    speeds: tuple[SizeSpeed, ...] = ()
    #: How much the reports of its speed scatter.
    scatter: Scatter = Scatter()
    #: Share of the whole job that is done, 0 to 1.
    fraction: float | None = None
    #: Slot-seconds that all of the job takes, as far as the shares done so far tell; late ones count more.
    whole_slot_seconds: float | None = None
    #: The share that this estimate rests on: recently done work, and with falling weight the work before it.
    recent_share: float = 0.0
    #: Slot-seconds that it had had when the share done changed last.
    slot_seconds: float = 0.0
    #: Progress per sample at the present batch size, against the best batch size: 0 to 1.
    efficiency: float | None = None
    metrics: tuple[tuple[str, float], ...] = ()
    reported_at: float | None = None
    #: Generation and number of the newest of its workers' own agreements that was adopted.
    adopted: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        bounds.RATE.check("samples_per_second", self.samples_per_second)
        bounds.SECONDS.check("resize_seconds", self.resize_seconds)
        bounds.FRACTION.check("fraction", self.fraction)
        bounds.EFFICIENCY.check("efficiency", self.efficiency)
        bounds.SLOT_SECONDS.check("whole_slot_seconds", self.whole_slot_seconds)
        bounds.SLOT_SECONDS.check("slot_seconds", self.slot_seconds)
        bounds.SHARE.check("recent_share", self.recent_share)

    @property
    def throughput(self) -> tuple[tuple[int, float], ...]:
        """(workers, useful samples per second) at each size that it had, ascending."""
        return tuple((speed.workers, speed.per_second) for speed in self.speeds)


@dataclass(frozen=True, slots=True)
class Job:
    """A job and its live workers: the unit of change."""

    id: JobId
    spec: JobSpec
    priority: int
    min_workers: int
    max_workers: int
    submitted_at: float
    #: When it went into the queue last, or was suspended; unix seconds.
    queued_at: float
    state: JobState = JobState.QUEUED
    #: The state that a held job was in and goes back to; None: it is not held.
    held_from: JobState | None = None
    #: Seconds it waited in all before its starts so far, which aging remembers; resuming a job begins anew.
    waited_seconds: float = 0.0
    #: Starts so far.
    attempt: int = 0
    retries_used: int = 0
    last_failure_at: float | None = None
    #: Not to be started before; unix seconds.
    not_before: float = 0.0
    next_ordinal: int = 1
    #: Counter of published memberships over all attempts; 0: none yet.
    generation: int = 0
    #: Workers in the published host list; 0 while none is published.
    published_size: int = 0
    #: Start of its first attempt.
    first_started_at: float | None = None
    #: Start of this attempt.
    started_at: float | None = None
    #: When all members of the attempt's first generation ran.
    running_at: float | None = None
    finished_at: float | None = None
    last_resize_at: float | None = None
    #: Slot-seconds that workers which have ended held; see `attained`.
    served_slot_seconds: float = 0.0
    #: A member ended with success: the others are about to, nothing is resized or replaced any more.
    finishing: bool = False
    #: Port on which rank 0 of an ordinary torch.distributed script listens; 0: none chosen.
    master_port: int = 0
    wait_reason: WaitReason | None = WaitReason.SUBMITTED
    #: The job in whose favour it waits.
    wait_for: JobId | None = None
    stop_reason: StopReason | None = None
    stop_for: JobId | None = None
    #: One line for people: how it ended, or why it was stopped last.
    detail: str = ""
    exit_code: int | None = None
    #: Capacity held for it, free or being freed.
    reservation: Placement = ()
    #: Whether that is capacity beyond the physical slots.
    reservation_shared: bool = False
    #: Capacity held for its fixed group, free or being freed.
    fixed_reservation: Placement = ()
    progress: Progress = field(default_factory=Progress)
    #: Live workers but for fixed ones, oldest first.
    workers: tuple[Worker, ...] = ()
    #: Live workers of its fixed group, in its order.
    fixed_workers: tuple[Worker, ...] = ()
    #: `host:port` of each worker of this attempt's fixed group, in its order.
    fixed_hosts: tuple[str, ...] = ()
    #: Random, made at its submission: tells it from a job of the same id in another life of the database. Empty: it was
    #: submitted before jobs had one.
    nonce: str = ""
    version: int = 0

    def only_progressed(self, before: "Job") -> bool:
        """Whether it is that job with nothing but another progress."""
        return _but_progress(self) == _but_progress(before)

    @property
    def key(self) -> JobKey:
        """Names its directories."""
        return job_key(self.id, self.nonce)

    def unreserved(self) -> Self:
        """The job with nothing held for it."""
        return replace(self, reservation=(), reservation_shared=False, fixed_reservation=())

    @property
    def elastic(self) -> bool:
        return self.min_workers < self.max_workers

    @property
    def all_workers(self) -> tuple[Worker, ...]:
        """Every live worker, fixed ones first."""
        return self.fixed_workers + self.workers if self.fixed_workers else self.workers

    def pod_template_of(self, worker: Worker) -> str | None:
        """What the worker's pod is built upon."""
        group = self.spec.fixed if worker.fixed else None
        return self.spec.pod_template if group is None else group.pod_template

    @property
    def fixed_ready(self) -> bool:
        """Whether its fixed group runs, as far as it is not done: the other workers may start."""
        return all(w.state is WorkerState.READY for w in self.fixed_workers)

    @property
    def wanted_workers(self) -> tuple[Worker, ...]:
        """Live workers that were not asked to leave: the job's size."""
        return tuple(w for w in self.workers if w.wanted)

    def worker(self, worker_id: WorkerId) -> Worker | None:
        """The live worker with this id, fixed or not."""
        return next((w for w in self.all_workers if w.id == worker_id), None)

    @property
    def members(self) -> tuple[Worker, ...]:
        """Workers of the published generation in rank order."""
        return tuple(sorted((w for w in self.workers if w.rank is not None), key=lambda w: w.rank or 0))

    @property
    def leaving(self) -> tuple[Worker, ...]:
        return tuple(w for w in self.workers if not w.wanted)

    @property
    def all_leaving(self) -> tuple[Worker, ...]:
        """Leaving workers, those of its fixed group included."""
        return tuple(w for w in self.all_workers if not w.wanted)

    @property
    def cancelled(self) -> bool:
        """Whether a user asked for its end."""
        return self.stop_reason is StopReason.CANCELLED

    @property
    def unsaved_since(self) -> float | None:
        """When this attempt saved its work last: by a commit, a checkpoint, or its start; None: it has not started."""
        if self.started_at is None:
            return None
        progress = self.progress
        return max(self.started_at, progress.last_commit_at or 0.0, progress.last_checkpoint_at or 0.0)

    def attained(self, now: float) -> float:
        """Slot-seconds that the job has had so far, over all attempts; its fixed group's do not count."""
        live = 0.0
        for worker in self.workers:
            if worker.started_at is not None and now > worker.started_at:
                live += (now - worker.started_at) * len(worker.slot_ids)
        return self.served_slot_seconds + live

    def speed(self, size: int) -> float:
        """Its speed at this size, in the unit of its speeds: by the means of its reports, beyond them as declared."""
        measured = tuple((each.workers, each.per_second) for each in self.progress.speeds if each.per_second > 0)
        return speed_at(with_declared(measured, self.spec.speedup), size)

    @property
    def preferred_workers(self) -> int:
        """The size that it has where sizes are fixed, inside its present bounds."""
        wanted = self.spec.preferred_workers
        return self.max_workers if wanted is None else min(max(wanted, self.min_workers), self.max_workers)

    @property
    def shape(self) -> WorkerShape:
        return self.spec.shape


#: All fields of a job that `Job.only_progressed` compares.
_but_progress = attrgetter(*(each.name for each in fields(Job) if each.name not in ("progress", "version")))


def check_job_transition(job: Job, target: JobState) -> None:
    """Raise `IllegalTransition` unless the job's table has this edge."""
    if target not in JOB_TRANSITIONS[job.state]:
        raise IllegalTransition(f"job {job.id}: {job.state} -> {target}")
