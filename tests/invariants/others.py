"""Processes of others: what they hold is not given out, and workers leave for those that wait."""

from scheduler.clusters.simulated.cluster import SimulatedCluster
from scheduler.clusters.simulated.foreign import ForeignProcesses
from scheduler.config import PolicySettings
from scheduler.engine.tick import TickReport
from scheduler.model.foreign import NO_FOREIGN, Demand, ForeignUse
from scheduler.model.ids import NodeName, WorkerId, job_of
from scheduler.model.job_state import StopReason
from scheduler.model.node import CPU_EPSILON, Node
from scheduler.model.node_usage import NodeUsage
from scheduler.model.observation import NodeObservation
from scheduler.model.worker import Worker
from scheduler.model.world import World as Snapshot
from tests.invariants.broken import hold
from tests.invariants.free import free_slots

#: Ticks, stops and kills take their time.
SLACK_SECONDS = 20.0


class OthersKeepTheirs:
    """Remembers who had slots before: the time of a machine that is set back comes twice."""

    def __init__(self) -> None:
        self._known: set[WorkerId] = set()

    def after_tick(self, snapshot: Snapshot, cluster: SimulatedCluster, report: TickReport, now: float) -> None:
        """I1: nobody gets in this tick what others hold, or what a node has no more."""
        held = cluster.foreign.use()
        workers = [worker for job in snapshot.active.values() for worker in job.workers]
        # nodes may have changed since a tick saw them that took a while, or whose machine slept meanwhile
        at_once = report.duration_seconds == 0 and cluster.observed_at == now
        decided = {event.job_id for event in report.events}  # by this tick, and not by one that its daemon died of
        for worker in workers if at_once else ():
            new = worker.created_at == report.at and worker.id not in self._known and job_of(worker.id) in decided
            if new and not worker.shared:
                use, node = held.get(worker.node, NO_FOREIGN), cluster.facts(worker.node)
                fits = _fits(worker, node, snapshot.used(worker.node), use)
                accepted = snapshot.nodes[worker.node].accepted_faults
                closed = [c for c in node.closed_slots if c.slot in worker.slot_ids and c not in accepted]
                hold(not closed, "I1", f"{worker.id} is given closed slots of {worker.node}: {closed}")
                hold(fits, "I1", f"{worker.id} is given what {worker.node} does not have, or others hold of it: {use}")
        self._known = {worker.id for worker in workers}


def _fits(worker: Worker, node: NodeObservation, used: NodeUsage, others: ForeignUse) -> bool:
    """Counting only what the worker needs."""
    return (
        used.slots + others.slots <= node.slots
        and (not worker.cpus or used.cpus + others.cpus <= node.cpus + CPU_EPSILON)
        and (not worker.memory_mib or used.memory_mib + others.memory_mib <= node.memory_mib)
    )


class OthersServed:
    """Remembers since when somebody else waits for whom preemptible jobs could make room."""

    def __init__(self) -> None:
        self._waiting_since: dict[str, float] = {}

    def clear(self) -> None:
        """What was before counts no more."""
        self._waiting_since.clear()

    def after_tick(self, snapshot: Snapshot, settings: PolicySettings, foreign: ForeignProcesses, now: float) -> None:
        """Raise `Broken` with the demand that waits for too long."""
        if settings.name != "elastic" or foreign.held_up:
            self.clear()
            return
        ignored = {each.demand.name for each in snapshot.demands if each.ignored_until is not None}
        ahead = sum(booking.slots for booking in snapshot.bookings.values())
        waiting = {}
        for demand in foreign.demands:
            if demand.name not in ignored and _could_be_served(snapshot, demand, ahead):
                waiting[demand.name] = self._waiting_since.get(demand.name, now)
            ahead += demand.shape.slots
        self._waiting_since = waiting
        graces = [job.spec.grace_seconds for job in snapshot.active.values()]
        limit = max(graces, default=0.0) + SLACK_SECONDS
        for name, since in waiting.items():
            hold(now - since <= limit, "DEMAND", f"{name} waits for {now - since:g} s while jobs could leave for it")


def _could_be_served(snapshot: Snapshot, demand: Demand, ahead: int) -> bool:
    """Whether one node would have room without preemptible jobs, and for `ahead` slots more; errs towards False."""
    shape = demand.shape
    if shape.cpus or shape.memory_mib:
        return False
    nodes = (node for node in snapshot.nodes.values() if node.schedulable and node.suits(shape))
    return any(demand.may_use(node.name) and _room(snapshot, node) >= shape.slots + ahead for node in nodes)


def _room(snapshot: Snapshot, node: Node) -> int:
    free = free_slots(snapshot, node)
    takeable = sum(
        len(worker.slot_ids) - len(node.closed_among(worker.slot_ids))
        for job in snapshot.active.values()
        if job.spec.preemptible and not job.finishing and job.stop_reason is not StopReason.CANCELLED
        if snapshot.booking_of(job) is None
        for worker in job.workers
        if worker.node == node.name
    )
    return free - _held(snapshot, node.name) + takeable


def _held(snapshot: Snapshot, name: NodeName) -> int:
    """Slots that are held for waiting jobs."""
    held = ((job.shape.slots * n, at) for job in snapshot.queued.values() for at, n in job.reservation)
    return sum(slots for slots, at in held if at == name)
