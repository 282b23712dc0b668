"""Addresses of new workers, where the cluster gives them one of their own."""

from collections.abc import Callable
from dataclasses import replace

from scheduler.engine.changeset import Changeset
from scheduler.model.job import Job
from scheduler.model.worker import Worker

#: The host at which other workers reach a worker, which was given its node's address.
HostOf = Callable[[Job, Worker], str]


def nodes_address(job: Job, worker: Worker) -> str:
    """The address in clusters whose workers share their node's network."""
    return worker.host


def give_addresses(changeset: Changeset, host_of: HostOf) -> None:
    """Give new workers their addresses, once, before these are published."""
    for worker in changeset.new_workers():
        job = changeset.the_job(worker.job_id)
        host = host_of(job, worker)
        if host == worker.host:
            continue
        changeset.put_worker(replace(worker, host=host))
        if worker.fixed_index is not None:
            _tell_fixed_host(changeset, job, worker.fixed_index, host)


def _tell_fixed_host(changeset: Changeset, job: Job, index: int, host: str) -> None:
    """Record the host of the fixed worker, which listens on the port that it was given."""
    hosts = list(job.fixed_hosts)
    hosts[index] = f"{host}:{hosts[index].rpartition(':')[2]}"
    changeset.put(replace(changeset.the_job(job.id), fixed_hosts=tuple(hosts)))
