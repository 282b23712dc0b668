"""Which GPU each slot of a node stands for, and how busy slots are: pure functions.

Slots are numbers of the scheduler, while the node's device plugin chooses the GPUs of a pod that has slots of its own.
So the GPUs of a worker's pod are those of its slots, in their order, and free GPUs are those of free slots.
"""

from collections.abc import Sequence, Set

from scheduler.clusters.kubernetes.known_worker import KnownWorker
from scheduler.clusters.kubernetes.oversell.gpu_figures import Gpu
from scheduler.clusters.kubernetes.pods import PodKey
from scheduler.model.observation import NodeObservation, SlotLoad

#: Load of a slot that a foreign pod holds: no worker shares it.
FULL = SlotLoad(memory=1.0)


def gpus_by_slot(
    node: NodeObservation, workers: Sequence[KnownWorker], others: Set[PodKey], gpus: Sequence[Gpu]
) -> dict[int, Gpu]:
    """GPU of each slot for which it is known and that no foreign pod holds.

    `workers`: all that may run on the node. `others`: foreign pods that hold slots of it.
    """
    owners = {PodKey(each.who.namespace, each.name): each.who.slot_ids for each in workers if not each.who.shared}
    found: dict[int, Gpu] = {}
    for pod, slot_ids in owners.items():
        theirs = [gpu for gpu in gpus if gpu.pod == pod]
        if len(theirs) == len(slot_ids):
            found.update(zip(slot_ids, theirs, strict=True))
    if others <= {gpu.pod for gpu in gpus}:  # else one of them may have a GPU that still counts as free
        free = [gpu for gpu in gpus if gpu.pod is None]
        found.update(zip(_open_slots(node, workers), free, strict=False))
    return found


def slot_loads(
    node: NodeObservation, workers: Sequence[KnownWorker], others: Set[PodKey], gpus: Sequence[Gpu]
) -> tuple[SlotLoad, ...]:
    """Load of each slot: the larger one of its own GPU and of the GPUs that its sharers have.

    A slot's owner may have been given another GPU than the sharers of the slot.
    """
    loads = loads_of_others(node, workers)
    for slot, gpu in gpus_by_slot(node, workers, others, gpus).items():
        if slot < node.slots:
            loads[slot] = gpu.load
    by_uuid = {gpu.uuid: gpu for gpu in gpus}
    for slot, uuid in _shared(workers):
        shared = by_uuid.get(uuid)
        if shared is not None and slot < node.slots:
            loads[slot] = _busier(loads[slot], FULL if shared.pod in others else shared.load)
    return tuple(loads)


def loads_of_others(node: NodeObservation, workers: Sequence[KnownWorker]) -> list[SlotLoad]:
    """Load of each slot of the node that foreign pods cause."""
    taken = {*range(node.slots)} - _held(workers) - {*_open_slots(node, workers)}
    return [FULL if slot in taken else SlotLoad() for slot in range(node.slots)]


def _open_slots(node: NodeObservation, workers: Sequence[KnownWorker]) -> list[int]:
    """Slots without an owner. Foreign pods count as holding the last ones, those without sharers first."""
    held, shared = _held(workers), {slot for each in workers if each.who.shared for slot in each.who.slot_ids}
    without = sorted({*range(node.slots)} - held, key=lambda slot: (slot not in shared, slot))
    return without[: max(len(without) - node.foreign.slots, 0)]


def _held(workers: Sequence[KnownWorker]) -> set[int]:
    return {slot for each in workers if not each.who.shared for slot in each.who.slot_ids}


def _shared(workers: Sequence[KnownWorker]) -> list[tuple[int, str]]:
    """Slots of sharers, and the GPUs that they were given for them."""
    return [pair for each in workers for pair in zip(each.who.slot_ids, each.who.gpus, strict=False)]


def _busier(one: SlotLoad, other: SlotLoad) -> SlotLoad:
    return SlotLoad(_larger(one.memory, other.memory), _larger(one.utilization, other.utilization))


def _larger(one: float | None, other: float | None) -> float | None:
    return max((each for each in (one, other) if each is not None), default=None)
