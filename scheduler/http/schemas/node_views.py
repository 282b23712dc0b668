"""Views of nodes."""

from collections import Counter
from collections.abc import Iterable
from itertools import chain

from typing_extensions import TypedDict

from scheduler.model.foreign import NO_FOREIGN
from scheduler.model.ids import NodeName
from scheduler.model.node import Node, NodeIntent
from scheduler.model.slot import SlotClosure
from scheduler.model.stray import Stray
from scheduler.model.worker import Worker
from scheduler.model.world import World


class ClosedSlotView(TypedDict):
    #: Its number.
    slot: int
    #: Why it accepts no new workers: FOREIGN (others use it), UNHEALTHY (broken or gone; its workers are moved off), or
    #: UNREADABLE (its state cannot be read).
    closure: str
    #: One line for people.
    detail: str


class NodeView(TypedDict):
    #: Its name.
    name: str
    #: Address at which others reach its workers.
    host: str
    #: UP or DOWN.
    health: str
    #: ACTIVE, CORDONED, DRAINING or QUARANTINED.
    intent: str
    #: Physical slots.
    slots: int
    #: Physical slots that workers hold.
    slots_used: int
    #: Slots that others than workers hold.
    slots_foreign: int
    #: Slots that accept no new workers although the node does, held or not.
    closed_slots: list[ClosedSlotView]
    #: Ratio of slots that may be given out to physical slots; the part beyond 1 is shared.
    oversell: float
    #: Slots beyond the physical ones, for jobs that share.
    extra_slots: int
    #: Extra slots that workers hold.
    extra_slots_used: int
    #: Slots whose load is or was above a limit, so that no new worker may share them.
    crowded_slots: list[int]
    #: CPUs.
    cpus: float
    #: Memory in MiB.
    memory_mib: int
    #: Why the cluster accepts no new workers on it; empty if it does.
    closed: str
    #: Labels, which node selectors name.
    labels: dict[str, str]
    #: Type of its GPUs; null: unknown, or none.
    gpu_type: str | None
    #: When its quarantine ends or has ended; null: there was none.
    quarantined_until: float | None
    #: Ids of the workers on it.
    workers: list[str]
    #: Ids of the workers that share slots.
    sharers: list[str]
    #: Jobs and the number of slots that their workers hold alone.
    held: list[tuple[int, int]]
    #: Jobs and the number of slots that their workers share.
    shared: list[tuple[int, int]]


def node_views(nodes: Iterable[Node], world: World | None) -> list[NodeView]:
    """All nodes by name, with what runs on them as far as the world is loaded, also of jobs that are held."""
    world = world if world is not None else World()
    workers: dict[NodeName, list[Worker | Stray]] = {}
    of_jobs: Iterable[Worker | Stray] = (worker for job in world.active.values() for worker in job.all_workers)
    for worker in chain(of_jobs, world.strays.values()):
        workers.setdefault(worker.node, []).append(worker)
    return [_node_view(node, workers.get(node.name, []), world) for node in sorted(nodes, key=lambda node: node.name)]


def _node_view(node: Node, workers: list[Worker | Stray], world: World) -> NodeView:
    sharers = [w for w in workers if w.shared]
    held, shared = _slots_by_job(w for w in workers if not w.shared), _slots_by_job(sharers)
    foreign = world.foreign.get(node.name, NO_FOREIGN).slots + world.closed_unheld(node)[SlotClosure.FOREIGN]
    return {
        "name": node.name,
        "host": node.host,
        "health": node.health,
        "intent": node.intent,
        "slots": node.slots,
        "slots_used": sum(slots for _, slots in held),
        "slots_foreign": foreign,
        "closed_slots": [{"slot": c.slot, "closure": c.closure, "detail": c.detail} for c in node.closed_slots],
        "oversell": node.oversell,
        "extra_slots": node.extra_slots,
        "extra_slots_used": sum(slots for _, slots in shared),
        "crowded_slots": sorted(world.crowded.get(node.name, ())),
        "cpus": node.cpus,
        "memory_mib": node.memory_mib,
        "closed": node.closed,
        "labels": dict(node.labels),
        "gpu_type": node.gpu_type,
        "quarantined_until": node.quarantined_until if node.intent is NodeIntent.QUARANTINED else None,
        "workers": [w.id for w in workers],
        "sharers": [w.id for w in sharers],
        "held": held,
        "shared": shared,
    }


def _slots_by_job(workers: Iterable[Worker | Stray]) -> list[tuple[int, int]]:
    slots = Counter[int]()
    for worker in workers:
        slots[worker.job_id] += len(worker.slot_ids)
    return sorted((job_id, count) for job_id, count in slots.items() if count)
