"""The launches of workers: their command and their environment."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scheduler.engine.apply.addresses import HostOf, nodes_address
from scheduler.engine.ports import Role, StartWorker
from scheduler.model import horovod, torchrun
from scheduler.model.fixed import FixedGroup
from scheduler.model.job import Job, JobSpec, Runtime
from scheduler.model.worker import Worker

#: Defaults where neither the job's own variables nor its submitter's say anything else.
_DEFAULTS = {
    # An ordinary torchrun whose store several agents share fails whenever one joins.
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
}


@dataclass(frozen=True, slots=True)
class LaunchContext:
    """Facts of the daemon that a launch needs."""

    #: The URL at which workers reach the daemon.
    url: str
    #: The bearer token that opens the worker calls of one job.
    token_for: Callable[[Job], str]
    #: Directory below which each job has one of its own, which survives attempts.
    jobs_dir: Path
    host_of: HostOf = nodes_address
    #: Variables by which workers trust the daemon's certificate, as they are now.
    trust: Callable[[], Mapping[str, str]] = dict


def start_workers(job: Job, workers: Sequence[Worker], context: LaunchContext) -> list[StartWorker]:
    """The launches of some workers of a job."""
    groups = {fixed: _Group(job, context, fixed=fixed) for fixed in {worker.fixed for worker in workers}}
    return [groups[worker.fixed].start(worker) for worker in workers]


class _Group:
    """The fixed workers of a job, or its others: what all of them are told."""

    def __init__(self, job: Job, context: LaunchContext, *, fixed: bool) -> None:
        self._job = job
        self._gang = job.fixed_workers if fixed else job.wanted_workers
        self._ranks = {worker.id: rank for rank, worker in enumerate(self._gang)}
        group = job.spec.fixed if fixed else None
        self._command = _command(job.spec, group)
        self._role = Role.FIXED if fixed else Role.WORKER
        own = {**dict(job.spec.env), **(dict(group.env) if group is not None else {})}
        self._variables = {**_defaults(job.spec), **own, **_job_variables(job, context), "SCHED_ROLE": self._role}

    def start(self, worker: Worker) -> StartWorker:
        """The launch of one of them."""
        job = self._job
        return StartWorker(
            worker_id=worker.id,
            job_id=job.id,
            nonce=job.nonce,
            node=worker.node,
            slot_ids=worker.slot_ids,
            cpus=worker.cpus,
            memory_mib=worker.memory_mib,
            command=self._command,
            env=tuple({**self._variables, **self._own_variables(worker)}.items()),
            workdir=job.spec.workdir,
            grace_seconds=job.spec.grace_seconds,
            generation=job.generation,
            shared=worker.shared,
            pod_template=job.pod_template_of(worker),
            role=self._role,
            export=job.spec.export,
            user=job.spec.user,
        )

    def _own_variables(self, worker: Worker) -> dict[str, str]:
        """A fixed worker sees its own group where other workers see each other."""
        rank, size = self._ranks.get(worker.id, 0), len(self._gang)
        if worker.fixed_index is not None:
            rank, size = worker.fixed_index, len(self._job.fixed_hosts)
        return {
            "SCHED_WORKER_ID": worker.id,
            "RANK": str(rank),
            "WORLD_SIZE": str(size),
            "MASTER_ADDR": self._gang[0].host if self._gang else worker.host,
        }


def _command(spec: JobSpec, group: FixedGroup | None) -> tuple[str, ...]:
    if spec.runtime is Runtime.HOROVOD:
        if group is not None:
            return horovod.driver_command(group.command)
        return horovod.worker_command(spec.command, spec.shape.slots)
    if group is not None:
        return group.command
    launched = torchrun.launch_command(spec.command) if spec.runtime is Runtime.TORCHRUN else None
    return launched or spec.command


def _defaults(spec: JobSpec) -> dict[str, str]:
    defaults = {**_DEFAULTS, **horovod.worker_variables()} if spec.runtime is Runtime.HOROVOD else _DEFAULTS
    exported = dict(spec.export.env) if spec.export is not None else {}
    return {name: value for name, value in defaults.items() if name not in exported}


def _job_variables(job: Job, context: LaunchContext) -> dict[str, str]:
    """The scheduler's own variables, and torch's for scripts that know nothing of the scheduler."""
    return {
        "SCHED_URL": context.url,
        "SCHED_TOKEN": context.token_for(job),
        **context.trust(),
        "SCHED_JOB_ID": str(job.id),
        "SCHED_JOB_NONCE": job.nonce,
        "SCHED_JOB_NAME": job.spec.name,
        "SCHED_FIXED_HOSTS": ",".join(job.fixed_hosts),
        "SCHED_GENERATION": str(job.generation),
        "SCHED_ATTEMPT": str(job.attempt),
        "SCHED_CHECKPOINT_DIR": str(context.jobs_dir / job.key / "checkpoint"),
        "SCHED_GRACE_SECONDS": f"{job.spec.grace_seconds:g}",
        # A worker sees its own GPUs only: to a script it is alone on its machine.
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_PORT": str(job.master_port),
        **_torchrun_variables(job, context),
    }


def _torchrun_variables(job: Job, context: LaunchContext) -> dict[str, str]:
    if job.spec.runtime is not Runtime.TORCHRUN:
        return {}
    bounds = (job.min_workers, job.max_workers)
    return torchrun.launch_variables(context.url, job.id, bounds, job.spec.shape.slots, job.spec.grace_seconds)
