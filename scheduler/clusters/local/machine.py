"""The nodes of this machine: one of CPU slots, or one for each type of its GPUs."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import psutil

from scheduler.clusters.local.cpu_loads import CpuLoads
from scheduler.clusters.local.gpu_users import GpuUsers
from scheduler.clusters.local.gpu_watch import GpuView, GpuWatch
from scheduler.clusters.local.gpus import visible_devices
from scheduler.clusters.local.loads import CPU_SECONDS, LoadReader
from scheduler.clusters.local.processes import boot_id
from scheduler.clusters.logs.files import log_dir
from scheduler.config import LocalSettings
from scheduler.engine.ports import Clock
from scheduler.model.ids import NodeName, WorkerId
from scheduler.model.observation import NodeObservation, SlotLoad, WorkerObservation

Workers = Callable[[], Mapping[WorkerId, WorkerObservation]]


class Machine(Protocol):
    """Nodes of this machine and the load of their slots, kept up to date by a thread between `start` and `close`."""

    @property
    def nodes(self) -> Mapping[NodeName, NodeObservation]: ...

    @property
    def loads(self) -> Mapping[NodeName, tuple[SlotLoad, ...]]:
        """Load of each slot, if known."""
        ...

    @property
    def troubles(self) -> list[str]:
        """Troubles that do not keep workers from being started, one line each."""
        ...

    def devices(self, node: NodeName, slot_ids: Sequence[int]) -> str | None:
        """CUDA_VISIBLE_DEVICES of a worker on these slots; None if slots are not GPUs."""
        ...

    def start(self) -> None: ...

    def close(self) -> None: ...


def machine_of(
    state_dir: Path, settings: LocalSettings, clock: Clock, workers: Workers, on_change: Callable[[], None]
) -> Machine:
    """This machine. `on_change` is called from a thread whenever its nodes change."""
    users = GpuUsers(state_dir, log_dir(state_dir), workers)
    mask = os.environ.get("CUDA_VISIBLE_DEVICES")
    watch = GpuWatch(state_dir, settings, mask, boot_id(), users, clock, on_change)
    if watch.has_gpus:
        return GpuMachine(settings, watch)
    return CpuMachine(state_dir, settings, clock, workers)


class CpuMachine:
    """One node whose slots are declared, or stand for one core each."""

    def __init__(self, state_dir: Path, settings: LocalSettings, clock: Clock, workers: Workers) -> None:
        cores = _cores()
        self._node = NodeObservation(
            name=NodeName(settings.node_name),
            host=settings.host,
            slots=settings.slots or cores,
            cpus=float(cores),
            memory_mib=_memory_mib(),
            oversell=settings.oversell,
        )
        self.nodes: Mapping[NodeName, NodeObservation] = {self._node.name: self._node}
        self._cpus = CpuLoads(state_dir, self._node.slots)
        self._clock = clock
        self._workers = workers
        self._reader: LoadReader | None = None

    @property
    def loads(self) -> Mapping[NodeName, tuple[SlotLoad, ...]]:
        return {self._node.name: self._reader.loads} if self._reader is not None else {}

    @property
    def troubles(self) -> list[str]:
        trouble = self._reader.trouble if self._reader is not None else None
        return [trouble] if trouble is not None else []

    def devices(self, node: NodeName, slot_ids: Sequence[int]) -> str | None:
        return None

    def start(self) -> None:
        self._reader = LoadReader(self.read_loads, CPU_SECONDS)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def read_loads(self) -> tuple[SlotLoad, ...]:
        """Load of the slots since the last call."""
        return self._cpus.read(tuple(self._workers().values()), self._clock.monotonic())


class GpuMachine:
    """A node for each type of GPU, with its share of the CPUs and of the memory by its number of GPUs.

    A job gets slots of one node type only, so that nothing is lost by this but that a worker cannot have more of the
    machine's CPUs and memory than its GPU's node has.
    """

    def __init__(self, settings: LocalSettings, watch: GpuWatch) -> None:
        self._settings = settings
        self._watch = watch
        self._drawn: tuple[GpuView, Mapping[NodeName, NodeObservation]] | None = None

    @property
    def nodes(self) -> Mapping[NodeName, NodeObservation]:
        """The nodes of this machine; the mapping is the same object until something changes."""
        view, drawn = self._watch.view, self._drawn
        if drawn is None or drawn[0] is not view:
            total = sum(map(len, view.nodes.values()))
            drawn = self._drawn = view, {name: self._node(view, name, total) for name in view.nodes}
        return drawn[1]

    @property
    def loads(self) -> Mapping[NodeName, tuple[SlotLoad, ...]]:
        return self._watch.loads

    @property
    def troubles(self) -> list[str]:
        return self._watch.troubles

    def devices(self, node: NodeName, slot_ids: Sequence[int]) -> str | None:
        return visible_devices(self._watch.view.nodes.get(node, ()), slot_ids)

    def start(self) -> None:
        self._watch.start()

    def close(self) -> None:
        self._watch.close()

    def _node(self, view: GpuView, name: NodeName, total: int) -> NodeObservation:
        gpus = view.nodes[name]
        return NodeObservation(
            name=name,
            host=self._settings.host,
            slots=len(gpus),
            cpus=_cores() * len(gpus) / total,
            memory_mib=_memory_mib() * len(gpus) // total,
            gpu_type=gpus[0].name,
            has_gpus=True,
            oversell=self._settings.oversell,
            closed_slots=view.closed[name],
        )


def _cores() -> int:
    """Number of cores that this process, and so its workers, may run on; `taskset` may have limited it."""
    return len(os.sched_getaffinity(0))


def _memory_mib() -> int:
    return int(psutil.virtual_memory().total) // (1024 * 1024)
