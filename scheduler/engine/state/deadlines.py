"""Deadlines at which time alone changes something for a job."""

from scheduler.config import EngineSettings
from scheduler.engine.state.reports import Liveness
from scheduler.model.job import Job, Runtime
from scheduler.model.job_state import JobState
from scheduler.model.worker import Worker, WorkerState


def job_deadline(job: Job, liveness: Liveness, now: float, settings: EngineSettings) -> float | None:
    """The earliest moment after `now` for this job; None if there is none."""
    deadlines = [limit_deadline(job), join_deadline(job, settings)]
    for worker in job.all_workers:
        not_before = worker.not_before if worker.state is WorkerState.PENDING else None
        deadlines += (worker.stop_deadline, not_before, hang_deadline(job, worker, liveness, settings))
    return min((d for d in deadlines if d is not None and d > now), default=None)


def limit_deadline(job: Job) -> float | None:
    """When the attempt has used up its time; None without a limit or once it is done or being stopped."""
    limit = job.spec.time_limit_seconds
    if limit is None or job.started_at is None or job.state is JobState.STOPPING:
        return None
    if job.finishing and not job.workers:
        return None
    return job.started_at + limit


def join_deadline(job: Job, settings: EngineSettings) -> float | None:
    """When ready newcomers are published without their slower siblings; None if no worker waits."""
    waiting = [w.ready_at for w in job.workers if w.wanted and not w.member and w.ready_at is not None]
    return min(waiting) + settings.join_wait_seconds if waiting else None


def hang_deadline(job: Job, worker: Worker, liveness: Liveness, settings: EngineSettings) -> float | None:
    """When a worker counts as hung: it never got ready, or has been silent for too long; None if it is not watched.

    A fixed worker need not report; one that has is expected to go on.
    """
    if not worker.wanted or (worker.fixed and worker.reported_generation == 0):
        return None
    if worker.state is WorkerState.STARTING and job.spec.runtime.reports:
        return max(liveness.could_since(worker), worker.started_at or 0.0) + settings.ready_seconds
    limit = silence_seconds_max(job, worker, settings)
    if limit is None or worker.state is not WorkerState.READY:
        return None
    return max(liveness.last(worker), worker.ready_at or 0.0) + limit


def silence_seconds_max(job: Job, worker: Worker, settings: EngineSettings) -> float | None:
    """For how long a ready worker may report nothing; None: its silence is not watched.

    The settings apply to workers that are ready by their own report: they have reported, and go on to do so
    from a thread of their own, whatever their script does.
    """
    if job.spec.heartbeat_seconds is not None:
        return job.spec.heartbeat_seconds or None
    return settings.heartbeat_seconds or None if job.spec.runtime.reports and not worker.fixed else None


def silence(job: Job, worker: Worker, settings: EngineSettings) -> str:
    """What a hung worker has not done, in words."""
    if worker.state is WorkerState.STARTING:
        hint = "; an elastic script reports this in elastic.run()" if job.spec.runtime is Runtime.ELASTIC else ""
        return f"it did not report ready within {settings.ready_seconds:g} s{hint}"
    return f"it sent no report for {silence_seconds_max(job, worker, settings):g} s"


def absence(job: Job, seconds: float, waiting: Worker) -> str:
    """What a worker that hangs in a step has not done, in words."""
    hint = "; if a step may take longer, set group_timeout_seconds of elastic.run()"
    return (
        f"it hangs: worker {waiting.id} waited {seconds:.0f} s for it to rejoin the group of generation "
        f"{job.generation}{hint if job.spec.runtime is Runtime.ELASTIC else ''}"
    )
