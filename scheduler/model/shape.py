"""What one worker needs of a node."""

from dataclasses import dataclass
from typing import Protocol

from scheduler import bounds


@dataclass(frozen=True, slots=True)
class WorkerShape:
    """Needs of each worker of a job; equal shapes are interchangeable for placement."""

    slots: int = 1
    cpus: float = 0.0
    memory_mib: int = 0
    #: Labels that the node must carry, sorted by key.
    node_selector: tuple[tuple[str, str], ...] = ()
    #: GPU type that the node must have; None takes any, but one type per job.
    gpu_type: str | None = None
    #: Whether they may share slots with other workers, beyond the node's physical count.
    oversell: bool = False

    def __post_init__(self) -> None:
        bounds.SLOTS.check("slots", self.slots)
        bounds.CPUS_HELD.check("cpus", self.cpus)
        bounds.MEMORY_HELD_MIB.check("memory_mib", self.memory_mib)


class AskedPerWorker(Protocol):
    """A request for workers, in whichever form it came."""

    slots_per_worker: int
    cpus_per_worker: float
    memory_mib_per_worker: int
    node_selector: dict[str, str]
    gpu_type: str | None


def shape_of(asked: AskedPerWorker, *, oversell: bool = False) -> WorkerShape:
    """What each of the requested workers needs."""
    return WorkerShape(
        slots=asked.slots_per_worker,
        cpus=asked.cpus_per_worker,
        memory_mib=asked.memory_mib_per_worker,
        node_selector=tuple(sorted(asked.node_selector.items())),
        gpu_type=asked.gpu_type,
        oversell=oversell,
    )
