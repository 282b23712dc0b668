"""What a worker is launched with: its command and its environment."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scheduler.engine.ports import StartWorker
from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.worker import Worker


@dataclass(frozen=True, slots=True)
class LaunchContext:
    """What launching needs of the daemon."""

    #: Where workers reach the daemon.
    url: str
    #: The bearer token that opens one job's worker calls.
    token_for: Callable[[JobId], str]
    #: Each job has a directory of its own below, which survives attempts.
    jobs_dir: Path


def start_worker(job: Job, worker: Worker, context: LaunchContext) -> StartWorker:
    """The launch of one worker of a job."""
    return StartWorker(
        worker_id=worker.id,
        job_id=job.id,
        node=worker.node,
        slot_ids=worker.slot_ids,
        cpus=worker.cpus,
        memory_mib=worker.memory_mib,
        command=job.spec.command,
        env=tuple({**dict(job.spec.env), **_environment(job, worker, context)}.items()),
        workdir=job.spec.workdir,
        grace_seconds=job.spec.grace_seconds,
        generation=job.generation,
        shared=worker.shared,
        pod_template=job.spec.pod_template,
    )


def _environment(job: Job, worker: Worker, context: LaunchContext) -> dict[str, str]:
    """The scheduler's own variables, and torch's for scripts that know nothing of the scheduler."""
    gang = job.wanted_workers
    rank = next((i for i, w in enumerate(gang) if w.id == worker.id), 0)
    neighbours = [w for w in gang if w.node == worker.node]
    local_rank = next((i for i, w in enumerate(neighbours) if w.id == worker.id), 0)
    return {
        "SCHED_URL": context.url,
        "SCHED_TOKEN": context.token_for(job.id),
        "SCHED_JOB_ID": str(job.id),
        "SCHED_JOB_NAME": job.spec.name,
        "SCHED_WORKER_ID": worker.id,
        "SCHED_GENERATION": str(job.generation),
        "SCHED_ATTEMPT": str(job.attempt),
        "SCHED_CHECKPOINT_DIR": str(context.jobs_dir / str(job.id) / "checkpoint"),
        "SCHED_GRACE_SECONDS": f"{job.spec.grace_seconds:g}",
        "RANK": str(rank),
        "WORLD_SIZE": str(len(gang)),
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(max(len(neighbours), 1)),
        "MASTER_ADDR": gang[0].host if gang else worker.host,
        "MASTER_PORT": str(job.master_port),
    }
