"""Invariants judged by what the simulated cluster itself knows: processes that exist, and how they ended."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from scheduler.clusters.simulated.cluster import SimulatedCluster
from scheduler.engine.absorb.exits import FAILURES
from scheduler.model.event import Event, EventKind
from scheduler.model.ids import NodeName, WorkerId
from scheduler.model.node import CPU_EPSILON, Node, NodeHealth
from scheduler.model.node_usage import NodeUsage, mask_of
from scheduler.model.observation import Phase
from scheduler.model.worker import Worker, WorkerState
from scheduler.model.world import World as Snapshot
from tests.invariants.broken import hold

_FAILURES = frozenset(reason.value for reason in FAILURES)


def processes_fit(cluster: SimulatedCluster, snapshot: Snapshot) -> None:
    """I1, I3: processes that exist, seen or not, share no slot of their own and hold no more than their node has.

    Who shares and is leaving may be on slots that are no longer oversold, and strays of a node that was out of reach
    may hold what it has no more.
    """
    held: dict[tuple[NodeName, int], WorkerId] = {}
    cpus: defaultdict[NodeName, float] = defaultdict(float)
    memory_mib: defaultdict[NodeName, int] = defaultdict(int)
    shared: Counter[NodeName] = Counter()
    staying = {w.id for job in snapshot.active.values() if not job.finishing for w in job.wanted_workers}
    known = {w.id for job in snapshot.active.values() for w in job.all_workers}
    for name, start in cluster.alive():
        shared[name] += len(start.slot_ids) if start.shared and start.worker_id in staying else 0
        for slot in () if start.shared else start.slot_ids:
            other = held.setdefault((name, slot), start.worker_id)
            hold(other == start.worker_id, "I3", f"slot {slot} of {name} is held by {other} and {start.worker_id}")
        cpus[name] += start.cpus if start.worker_id in known else 0.0
        memory_mib[name] += start.memory_mib if start.worker_id in known else 0
    for name in cpus:
        node = snapshot.nodes.get(name)
        if node is not None:
            _within(node, cpus[name], memory_mib[name])
            extra = node.extra_slots
            hold(shared[name] <= extra, "I1", f"{shared[name]} slots of {name} run shared, of {extra} extra ones")


def _within(node: Node, cpus: float, memory_mib: int) -> None:
    hold(cpus <= node.cpus + CPU_EPSILON or cpus == 0, "I1", f"{cpus:g} of {node.cpus:g} CPUs run on {node.name}")
    hold(memory_mib <= node.memory_mib, "I1", f"{memory_mib} of {node.memory_mib} MiB run on {node.name}")


def slots_of_processes_are_used(cluster: SimulatedCluster, snapshot: Snapshot) -> None:
    """I3: no slot counts as free while its process exists, unless its node takes no work for being out of reach."""
    used: dict[NodeName, NodeUsage] = {}
    shared: Counter[NodeName] = Counter()
    for name, start in cluster.alive():
        node = snapshot.nodes.get(name)
        if node is None or node.health is NodeHealth.DOWN:
            continue
        if name not in used:
            used[name] = snapshot.used(name)
        if start.shared:
            shared[name] += len(start.slot_ids)
            free = shared[name] > used[name].slots_shared
        else:
            free = mask_of(start.slot_ids) & ~used[name].slot_mask != 0
        hold(not free, "I3", f"{start.worker_id} runs on {name}, yet its slots {start.slot_ids} count as free")


def started_once(cluster: SimulatedCluster) -> None:
    """I4: no worker was started twice."""
    hold(len(set(cluster.started)) == len(cluster.started), "I4", "a worker was started twice")


def no_process_of_ended_jobs(cluster: SimulatedCluster, snapshot: Snapshot) -> None:
    """I4: a process belongs to a live worker, or to nobody and is being stopped, or its node is out of reach."""
    live = {worker.id for job in snapshot.active.values() for worker in job.all_workers}
    for name, start in cluster.alive():
        node = snapshot.nodes.get(name)
        unreachable = node is None or node.health is NodeHealth.DOWN
        known = start.worker_id in live or start.worker_id in snapshot.strays
        hold(known or unreachable, "I4", f"{start.worker_id} runs for nobody")


def fixed_groups_are_there(cluster: SimulatedCluster, snapshot: Snapshot) -> None:
    """I12: where a worker of a job runs, its fixed group came to run before it, and nobody has asked that to leave.

    Who was seen there and is gone, with its node, will be missed by the next observation.
    """
    alive = {start.worker_id for _, start in cluster.alive()}
    for job in snapshot.active.values():
        if not job.fixed_workers or not any(worker.id in alive for worker in job.workers):
            continue
        for worker in job.fixed_workers:
            process = cluster.process(worker.id)
            came = worker.state is not WorkerState.PENDING if process is None else process.phase is not Phase.LAUNCHING
            hold(came or not _reachable(worker, snapshot), "I12", f"job {job.id} runs without {worker.id}")
            asked = process is not None and process.asked_at is not None and not worker.condemned
            hold(not asked, "I12", f"{worker.id} was asked to leave before the others of job {job.id} are gone")


def _reachable(worker: Worker, snapshot: Snapshot) -> bool:
    node = snapshot.nodes.get(worker.node)
    return node is not None and node.health is NodeHealth.UP


def failures_are_real(cluster: SimulatedCluster, events: Iterable[Event]) -> None:
    """I8: whoever is said to have failed did so by itself: it was neither asked to leave nor lost with its node."""
    for event in events:
        if event.kind is EventKind.WORKER_ENDED and event.cause in _FAILURES:
            detail = f"{event.worker_id} counts as {event.cause}, though it did not fail by itself"
            hold(event.worker_id in cluster.failed, "I8", detail)
