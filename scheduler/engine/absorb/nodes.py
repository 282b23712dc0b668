"""Absorb observations of nodes, and keep the quarantine of nodes on which workers keep failing."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from scheduler.config import EngineSettings
from scheduler.engine.absorb.closed_slots import closed_slots, tell_of_slots
from scheduler.engine.absorb.exits import FAILURES
from scheduler.engine.changeset import Changeset
from scheduler.model.event import Cause, EventKind
from scheduler.model.ids import NodeName
from scheduler.model.job import Job
from scheduler.model.node import CPU_EPSILON, Node, NodeFailure, NodeHealth, NodeIntent
from scheduler.model.observation import NodeObservation
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import ExitReason, LeaveReason, Worker
from scheduler.model.world import World, sharers

#: Failures remembered per node.
FAILURES_KEPT = 32

#: Capacity that is no longer reported, but still held by workers.
Gone = dict[NodeName, WorkerShape]


def absorb_nodes(
    changeset: Changeset, seen: Mapping[NodeName, NodeObservation], different: Collection[NodeName]
) -> Gone:
    """New nodes, changed capacity, nodes that went away or came back; quarantines that are over.

    `different`: those of the observed nodes that may have to be stored otherwise.
    """
    gone = absorb_listed(changeset, seen, different)
    nodes = changeset.base.nodes
    for node in [nodes[name] for name in nodes if name not in seen]:
        # An unreadable node stays as it is stored until the cluster reports it.
        if node.unlisted_since is None and (node.version or node.health is NodeHealth.UP):
            _miss(changeset, node)
    for node in changeset.base.nodes_apart():
        end_quarantine(changeset, node.name)
    return gone


def is_as_seen(node: Node, seen: NodeObservation) -> bool:
    """Whether the node is stored as it was observed; nearly always so."""
    return (
        node.slots == seen.slots
        and (node.health is NodeHealth.UP) == seen.up
        and node.labels == seen.labels
        and node.host == seen.host
        and node.cpus == seen.cpus
        and node.memory_mib == seen.memory_mib
        and node.gpu_type == seen.gpu_type
        and node.has_gpus == seen.has_gpus
        and node.oversell == seen.oversell
        and node.closed == seen.closed
        and (
            node.closed_slots == node.accepted_faults == seen.closed_slots  # all empty
            or (node.closed_slots, node.accepted_faults) == closed_slots(node, seen)
        )
        and node.unlisted_since is None
    )


def _miss(changeset: Changeset, node: Node) -> None:
    """Mark a node that the cluster no longer lists."""
    changeset.put_node(replace(node, health=NodeHealth.DOWN, unlisted_since=changeset.now))
    if node.health is NodeHealth.UP:
        _tell(changeset, EventKind.NODE_DOWN, node.name, f"{node.slots} slots; not listed by the cluster", node.slots)


def absorb_listed(changeset: Changeset, seen: Mapping[NodeName, NodeObservation], among: Iterable[NodeName]) -> Gone:
    """Absorb those of these nodes that the cluster lists; again where strays of theirs were found since."""
    taken = {name: _take_and_keep(changeset, name, seen[name]) for name in among if name in seen}
    return {name: lost for name, lost in taken.items() if lost is not None}


def _take_and_keep(changeset: Changeset, name: NodeName, seen: NodeObservation) -> WorkerShape | None:
    """Returns what the node has lost of what is still held; None: nothing."""
    used = changeset.base.used(name)
    # held capacity exists until it is given back
    slots = max(seen.slots, _slots_held(changeset.base, name))
    cpus = seen.cpus if used.cpus <= seen.cpus + CPU_EPSILON else used.cpus
    memory_mib = max(seen.memory_mib, used.memory_mib)
    _take_facts(changeset, changeset.node(name), replace(seen, slots=slots, cpus=cpus, memory_mib=memory_mib))
    if (slots, cpus, memory_mib) == (seen.slots, seen.cpus, seen.memory_mib):
        return None
    return WorkerShape(slots - seen.slots, cpus - seen.cpus, memory_mib - seen.memory_mib)


def _take_facts(changeset: Changeset, before: Node | None, seen: NodeObservation) -> None:
    health = NodeHealth.UP if seen.up else NodeHealth.DOWN
    closed, accepted = closed_slots(before, seen)
    facts = {
        "host": seen.host,
        "slots": seen.slots,
        "cpus": seen.cpus,
        "memory_mib": seen.memory_mib,
        "labels": tuple(sorted(seen.labels)),
        "gpu_type": seen.gpu_type,
        "has_gpus": seen.has_gpus,
        "oversell": seen.oversell,
        "closed": seen.closed,
        "health": health,
        "closed_slots": closed,
        "accepted_faults": accepted,
        "unlisted_since": None,
    }
    if before is None:
        changeset.put_node(Node(name=seen.name, **facts))  # type: ignore[arg-type]
        _tell(changeset, EventKind.NODE_UP, seen.name, f"{seen.slots} slots", seen.slots)
        tell_of_slots(changeset, seen.name, (), closed)
        return
    after = replace(before, **facts)  # type: ignore[arg-type]
    if after == before:
        return
    changeset.put_node(after)
    if after.health is not before.health:
        up = after.health is NodeHealth.UP
        slots = after.slots if up else before.slots  # it is these that come or go
        _tell(changeset, EventKind.NODE_UP if up else EventKind.NODE_DOWN, seen.name, f"{slots} slots", slots)
    elif after.slots != before.slots and after.health is NodeHealth.UP:
        detail = f"{before.slots} -> {after.slots} slots"
        _tell(changeset, EventKind.NODE_RESIZED, seen.name, detail, after.slots - before.slots)
    tell_of_slots(changeset, seen.name, before.closed_slots, closed)


def _tell(changeset: Changeset, kind: EventKind, name: NodeName, detail: str, slots: int) -> None:
    changeset.event(kind, node=name, cause=Cause.OBSERVED, detail=detail, amount=float(slots))


def _slots_held(world: World, name: NodeName) -> int:
    """The highest slot that a worker or a stray has on the node, counted from 1."""
    usage = world.used(name)
    held = [usage.slot_mask.bit_length()]
    if usage.slots_shared:
        held += [max(who.slot_ids) + 1 for who in sharers(world) if who.node == name]
    return max(held)


def end_quarantine(changeset: Changeset, name: NodeName) -> None:
    """Let the node take workers again if its quarantine has ended."""
    node = changeset.node(name)
    if node is None or node.intent is not NodeIntent.QUARANTINED:
        return
    if node.quarantined_until is not None and changeset.now >= node.quarantined_until:
        changeset.put_node(replace(node, intent=NodeIntent.ACTIVE, failures=()))
        changeset.event(EventKind.NODE_UNCORDONED, node=name, cause=Cause.TIME, detail="quarantine ended")


def count_failures(changeset: Changeset, job: Job, ended: Sequence[Worker], settings: EngineSettings) -> None:
    """Remember failures of a job by node, and quarantine a node where several jobs keep failing.

    One job that always fails says nothing about its node, so failures of at least two jobs are needed. Those of one
    user close one node at a time to the others. The last node that takes work is left alone.
    """
    for worker in ended:
        node = changeset.node(worker.node)
        if not _tells_of_node(worker) or node is None:
            continue
        since = changeset.now - settings.quarantine_window_seconds
        recent = [f for f in node.failures if f.at >= since]
        recent.append(NodeFailure(job.id, changeset.now, job.spec.user))
        node = changeset.put_node(replace(node, failures=tuple(recent[-FAILURES_KEPT:])))
        if len(recent) < settings.quarantine_failures or not node.schedulable:
            continue
        if _tell_of_node(changeset, recent) and _others_take_work(changeset, node.name):
            _quarantine(changeset, node, settings)


def _tell_of_node(changeset: Changeset, failures: Sequence[NodeFailure]) -> bool:
    """Whether it is the node that these have in common, and not the job or the user."""
    users = {failure.user for failure in failures}
    if len({failure.job_id for failure in failures}) < 2:
        return False
    if len(users) > 1 or not any(_is_closed_by(changeset.node(name), users) for name in changeset.base.nodes):
        return True
    jobs = chain(changeset.base.active.values(), changeset.base.queued.values())
    return all(job.spec.user in users for job in jobs)


def _is_closed_by(node: Node | None, users: set[str]) -> bool:
    """Whether the node is in quarantine for failures of these users' jobs alone."""
    if node is None or node.intent is not NodeIntent.QUARANTINED:
        return False
    return {failure.user for failure in node.failures} == users


def _tells_of_node(worker: Worker) -> bool:
    """Whether the end may be the node's fault: a failure, or a worker that the node failed to start.

    A worker that no node can start is the job's fault.
    """
    if worker.exit_reason is ExitReason.CANNOT_START:
        return False
    return worker.exit_reason in FAILURES or worker.leave_reason is LeaveReason.NOT_ADMITTED


def _others_take_work(changeset: Changeset, name: NodeName) -> bool:
    return any(
        other != name and (node := changeset.node(other)) is not None and node.schedulable
        for other in changeset.base.nodes
    )


def _quarantine(changeset: Changeset, node: Node, settings: EngineSettings) -> None:
    since = changeset.now - node.quarantined_until if node.quarantined_until is not None else 0.0
    times = min(node.quarantines + 1, 30) if since < settings.quarantine_max_seconds else 1
    seconds = min(settings.quarantine_seconds * 2.0 ** (times - 1), settings.quarantine_max_seconds)
    changeset.put_node(
        replace(node, intent=NodeIntent.QUARANTINED, quarantines=times, quarantined_until=changeset.now + seconds)
    )
    changeset.event(
        EventKind.NODE_QUARANTINED,
        node=node.name,
        cause=Cause.FAILURES,
        detail=f"{len(node.failures)} workers failed recently; no new workers for {seconds:g} s",
        amount=seconds,
    )
