"""Oracles that judge plans: what room a world has, and which jobs may take from which.

They count capacity from the world's workers directly and share no code with the planner but its order of jobs.
"""

from collections import Counter
from collections.abc import Iterable

from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.policy.snapshot.order import Order
from tests.policy.worlds import Cluster


def room(c: Cluster, *, gone: Iterable[str] = (), with_leaving: bool = True) -> Counter[str]:
    """Slots per schedulable node that nobody holds, once these workers (and those leaving) are gone."""
    left: Counter[str] = Counter({node.name: node.slots for node in c.nodes.values() if node.schedulable})
    away = set(gone)
    for job in c.jobs.values():
        for worker in job.workers:
            leaves = with_leaving and (job.state is JobState.STOPPING or not worker.wanted)
            if worker.node in left and worker.id not in away and not leaves:
                left[worker.node] -= len(worker.slot_ids)
    return left


def workers_in(c: Cluster, job: Job, left: Counter[str]) -> int:
    """The most workers of the job that this room holds on one GPU type."""
    totals: Counter[str | None] = Counter()
    for name, slots in left.items():
        totals[c.nodes[name].gpu_type] += max(slots, 0) // job.shape.slots  # type: ignore[index]
    return max(totals.values(), default=0)


def without_reservations(c: Cluster, left: Counter[str], *, but: Iterable[int] = ()) -> Counter[str]:
    left = Counter(left)
    for job in c.jobs.values():
        for name, count in job.reservation:
            if job.id not in but:
                left[name] -= count * job.shape.slots
    return left


def takeable(c: Cluster, job: Job) -> list[Job]:
    order = Order(c.now, c.settings)
    return [
        victim
        for victim in c.jobs.values()
        if victim.state is JobState.RUNNING and victim.spec.preemptible and order.more_important(job, victim)
    ]


def queue(c: Cluster) -> list[Job]:
    waiting = [job for job in c.jobs.values() if job.state is JobState.QUEUED]
    return Order(c.now, c.settings).queue(waiting)


def possible(c: Cluster, job: Job) -> bool:
    return workers_in(c, job, Counter({n.name: n.slots for n in c.nodes.values() if n.schedulable})) >= job.min_workers
