"""Load of CPU slots, by the CPU time of their workers' processes, where a slot stands for one core."""

import os
from collections.abc import Iterable
from pathlib import Path

from scheduler.clusters.local.processes import all_processes, worker_of
from scheduler.model.observation import SlotLoad, WorkerObservation

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

#: Identity of a process, which stays unique when its pid is reused.
_Key = tuple[int, int]


class CpuLoads:
    """Compares each reading with the one before."""

    def __init__(self, state_dir: Path, slots: int) -> None:
        self._state_dir = str(state_dir)
        self._slots = slots
        #: Worker of each process; None: no worker's.
        self._owners: dict[_Key, str | None] = {}
        #: Processes seen once; they may not have got their own environment yet.
        self._strangers: set[_Key] = set()
        self._ticks: dict[_Key, int] = {}
        self._read_at: float | None = None

    def read(self, workers: Iterable[WorkerObservation], now: float) -> tuple[SlotLoad, ...]:
        """Load of each slot since the last reading; not known at the first. `now`: monotonic seconds.

        A worker's CPU time is spread evenly over its slots.
        """
        alive = [worker for worker in workers if worker.alive]
        if not alive:
            self._owners, self._ticks, self._read_at = {}, {}, now
            return (SlotLoad(utilization=0.0),) * self._slots
        seconds = None if self._read_at is None else now - self._read_at
        taken = self._taken()
        self._read_at = now
        if not seconds:
            return (SlotLoad(),) * self._slots
        loads = [0.0] * self._slots
        for worker in alive:
            share = taken.get(worker.id, 0.0) / seconds / max(len(worker.slot_ids), 1)
            for slot in worker.slot_ids:
                if slot < self._slots:  # there may have been more when it was started
                    loads[slot] += share
        return tuple(SlotLoad(utilization=min(load, 1.0)) for load in loads)

    def _taken(self) -> dict[str, float]:
        """CPU seconds that each worker's processes took since the last look."""
        before, owners = self._ticks, self._owners
        strangers = self._strangers
        self._ticks, self._owners, self._strangers = {}, {}, set()
        taken: dict[str, float] = {}
        for process in all_processes():
            key = (process.pid, process.start_ticks)
            owner = owners[key] if key in owners else worker_of(process.pid, self._state_dir)
            if owner is None and key not in strangers:
                self._strangers.add(key)
            else:
                self._owners[key] = owner
            if owner is not None:
                self._ticks[key] = process.cpu_ticks
                ticks = max(process.cpu_ticks - before.get(key, 0), 0)
                taken[owner] = taken.get(owner, 0.0) + ticks / _TICKS_PER_SECOND
        return taken
