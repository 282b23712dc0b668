"""What is held of one node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from scheduler.model.ids import NodeName
from scheduler.model.stray import Stray
from scheduler.model.worker import Worker

Holder = TypeVar("Holder", bound=Worker | Stray)


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """What live workers hold on one node. Bit i of `slot_mask` stands for slot i, held as somebody's own."""

    slot_mask: int = 0
    cpus: float = 0.0
    memory_mib: int = 0
    workers: int = 0
    #: Slots that are given out beyond the physical ones.
    slots_shared: int = 0
    #: Slots that one more holds, each as often as there are more: rows that could not be read for a while may say so.
    held_again: tuple[int, ...] = ()

    @property
    def slots(self) -> int:
        return self.slot_mask.bit_count()

    def plus(self, holder: Worker | Stray) -> "NodeUsage":
        own, shared = ((), holder.slot_ids) if holder.shared else (holder.slot_ids, ())
        mask = mask_of(own)
        again = tuple(slot for slot in own if self.slot_mask >> slot & 1) if mask & self.slot_mask else ()
        return NodeUsage(
            self.slot_mask | mask,
            self.cpus + holder.cpus,
            self.memory_mib + holder.memory_mib,
            self.workers + 1,
            self.slots_shared + len(shared),
            tuple(sorted((*self.held_again, *again))) if again else self.held_again,
        )

    def minus(self, holder: Worker | Stray) -> "NodeUsage":
        if self.workers == 1:
            return NO_USAGE  # exact zero: repeated float sums would leave a remainder
        own, shared = ((), holder.slot_ids) if holder.shared else (holder.slot_ids, ())
        again, freed = list(self.held_again), list(own)
        for slot in own if again else ():
            if slot in again:
                again.remove(slot)
                freed.remove(slot)
        return NodeUsage(
            self.slot_mask & ~mask_of(tuple(freed)),
            self.cpus - holder.cpus,
            self.memory_mib - holder.memory_mib,
            self.workers - 1,
            self.slots_shared - len(shared),
            tuple(again),
        )


NO_USAGE = NodeUsage()


def moved_usage(
    usage: Mapping[NodeName, NodeUsage],
    held_again: Mapping[NodeName, int],
    gone: Sequence[Worker],
    come: Sequence[Worker],
) -> tuple[Mapping[NodeName, NodeUsage], Mapping[NodeName, int]]:
    """Usage by node once these workers are gone and those have come; and the slots, a mask per node, held again.

    What is gone is taken off first, for others may be on its slots now.
    """
    after = dict(usage)
    for worker in gone:
        left = after[worker.node].minus(worker)
        if left.workers:
            after[worker.node] = left
        else:
            del after[worker.node]
    for worker in come:
        after[worker.node] = after.get(worker.node, NO_USAGE).plus(worker)
    names = {worker.node for worker in (*gone, *come)}
    now = {name: mask_of(after.get(name, NO_USAGE).held_again) for name in names}
    return after, {name: mask for name, mask in {**held_again, **now}.items() if mask}


def mask_of(slot_ids: tuple[int, ...]) -> int:
    mask = 0
    for slot in slot_ids:
        mask |= 1 << slot
    return mask


def without_slots(holder: Holder, mask: int) -> Holder:
    """The holder without those of its own slots that are in the mask; shared slots are nobody's own."""
    if holder.shared or not mask & mask_of(holder.slot_ids):
        return holder
    return replace(holder, slot_ids=tuple(slot for slot in holder.slot_ids if not mask >> slot & 1))
