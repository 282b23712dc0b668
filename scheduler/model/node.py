"""A machine with slots: what it has, what was seen of it, and what is intended with it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from scheduler.model.ids import JobId, NodeName
from scheduler.model.shape import WorkerShape
from scheduler.model.slot import ClosedSlot, SlotClosure


class NodeHealth(StrEnum):
    """What was seen of a node."""

    #: Reachable.
    UP = "UP"
    #: Out of reach or gone: its slots cannot be used; its workers are lost unless the cluster still lists them.
    DOWN = "DOWN"


class NodeIntent(StrEnum):
    """What is intended with a node."""

    #: Takes workers.
    ACTIVE = "ACTIVE"
    #: Takes no new workers.
    CORDONED = "CORDONED"
    #: Takes no new workers, and its workers are moved off.
    DRAINING = "DRAINING"
    #: Cordoned by the scheduler after failures, until a set time.
    QUARANTINED = "QUARANTINED"
    #: Takes no new workers until a user uncordons it: ticks failed while they dealt with it. Its workers go on.
    HELD = "HELD"


NODE_TRANSITIONS: dict[NodeIntent, frozenset[NodeIntent]] = {
    NodeIntent.ACTIVE: frozenset({NodeIntent.CORDONED, NodeIntent.DRAINING, NodeIntent.QUARANTINED, NodeIntent.HELD}),
    NodeIntent.CORDONED: frozenset({NodeIntent.ACTIVE, NodeIntent.DRAINING, NodeIntent.HELD}),
    NodeIntent.DRAINING: frozenset({NodeIntent.ACTIVE, NodeIntent.CORDONED, NodeIntent.HELD}),
    NodeIntent.QUARANTINED: frozenset({NodeIntent.ACTIVE, NodeIntent.CORDONED, NodeIntent.DRAINING, NodeIntent.HELD}),
    NodeIntent.HELD: frozenset({NodeIntent.ACTIVE}),
}


@dataclass(frozen=True, slots=True)
class NodeFailure:
    """One failed worker on a node, kept for the quarantine rule."""

    job_id: JobId
    at: float
    #: Of the job.
    user: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """A machine as the engine knows it. Capacity comes from the cluster, intent from users and the engine."""

    name: NodeName
    #: Address that other workers reach it by; used in discovery only.
    host: str
    slots: int
    cpus: float = 0.0
    memory_mib: int = 0
    labels: tuple[tuple[str, str], ...] = ()
    gpu_type: str | None = None
    #: Whether slots are GPUs, so that workers get CUDA_VISIBLE_DEVICES.
    has_gpus: bool = False
    #: Slots that may be given out in relation to those that it has; what is more than 1 is for workers that share.
    oversell: float = 1.0
    #: Why the cluster lets no new workers in; empty: it does.
    closed: str = ""
    health: NodeHealth = NodeHealth.UP
    intent: NodeIntent = NodeIntent.ACTIVE
    #: Recent failures, oldest first, bounded.
    failures: tuple[NodeFailure, ...] = ()
    #: How often it was quarantined in a row; the next one is the first again after `quarantine_max_seconds` without.
    quarantines: int = 0
    #: When its quarantine ends, or the last one ended; None: there was none since users put it into use.
    quarantined_until: float | None = None
    #: Slots that take no new workers, by number.
    closed_slots: tuple[ClosedSlot, ...] = ()
    #: What the cluster reports of slots, too, and a user lets pass: these take workers.
    accepted_faults: tuple[ClosedSlot, ...] = ()
    #: Since when the cluster has not listed it; unix seconds. None: it does.
    unlisted_since: float | None = None
    version: int = 0

    @property
    def extra_slots(self) -> int:
        """How many slots may be given out beyond the physical ones."""
        return int(self.slots * self.oversell + OVERSELL_EPSILON) - self.slots

    @property
    def schedulable(self) -> bool:
        """Whether new workers may be placed here."""
        return self.health is NodeHealth.UP and self.intent is NodeIntent.ACTIVE and not self.closed

    @property
    def apart(self) -> bool:
        """Whether it is held, not listed, or in quarantine or out of one, so that each tick looks at it."""
        dated = self.quarantined_until is not None or self.unlisted_since is not None
        return dated or self.intent in (NodeIntent.QUARANTINED, NodeIntent.HELD)

    @property
    def closed_mask(self) -> int:
        """Slots that take no new workers; bit i stands for slot i."""
        return _mask(self.closed_slots) & ((1 << self.slots) - 1) if self.closed_slots else 0

    @property
    def unhealthy_mask(self) -> int:
        """Those of them whose workers are moved off."""
        return _mask(each for each in self.closed_slots if each.closure is SlotClosure.UNHEALTHY)

    def closed_among(self, slot_ids: Iterable[int]) -> tuple[ClosedSlot, ...]:
        """Those of these slots that take no new workers."""
        if not self.closed_slots:
            return ()
        slots = set(slot_ids)
        return tuple(each for each in self.closed_slots if each.slot in slots)

    def moves_off(self, slot_ids: Iterable[int]) -> bool:
        """Whether a worker on these slots has to leave them: the node is drained, or one of them is unhealthy."""
        if self.intent is NodeIntent.DRAINING:
            return True
        return any(each.closure is SlotClosure.UNHEALTHY for each in self.closed_among(slot_ids))

    def reduced(self) -> "Node":
        """The node as if it had only the slots that are not closed."""
        if not self.closed_slots:
            return self
        return replace(self, slots=self.slots - self.closed_mask.bit_count(), closed_slots=())

    def suits(self, shape: WorkerShape) -> bool:
        """Whether selector and GPU type of the shape match, whatever is free and whatever the node's health."""
        if shape.gpu_type is not None and shape.gpu_type != self.gpu_type:
            return False
        return not shape.node_selector or set(shape.node_selector) <= set(self.labels)

    def fits_empty(self, shape: WorkerShape) -> int:
        """How many workers of this shape the node would hold if nothing else ran on it."""
        if not self.suits(shape):
            return 0
        return workers_that_fit(shape, self.slots, self.cpus, self.memory_mib)

    def fits_shared(self, shape: WorkerShape) -> int:
        """How many of them its extra slots would hold; each shares as many different slots as it needs."""
        if not shape.oversell or shape.slots > self.slots or not self.suits(shape):
            return 0
        return workers_that_fit(shape, self.extra_slots, self.cpus, self.memory_mib)


def workers_that_fit(shape: WorkerShape, slots: int, cpus: float, memory_mib: int) -> int:
    """Number of workers of the shape that fit into these free slots, CPUs and MiB."""
    fit = slots // shape.slots if shape.slots else FIT_MAX
    if shape.cpus > 0:
        fit = min(fit, int((cpus + CPU_EPSILON) // shape.cpus))
    if shape.memory_mib > 0:
        fit = min(fit, memory_mib // shape.memory_mib)
    return max(fit, 0)


def _mask(slots: Iterable[ClosedSlot]) -> int:
    mask = 0
    for each in slots:
        mask |= 1 << each.slot
    return mask


#: Number that fits of workers without needs, above any number that can be requested.
FIT_MAX = 1_000_000
#: Oversell factors are decimal fractions: 10 slots times 1.1 are 11, whatever a double makes of it.
OVERSELL_EPSILON = 1e-6
#: CPUs are fractions; sums of them are compared with this tolerance.
CPU_EPSILON = 1e-6
