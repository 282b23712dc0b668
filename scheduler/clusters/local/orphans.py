"""Processes that workers leave behind: they left their group, or outlive the first process. Standard library only.

The supervisor is a subreaper, so any process that loses its parent becomes its child: while its only children are first
processes, nothing of an ended worker is left, and one read of a small file shows that.
"""

import signal
from collections.abc import Iterator, Mapping
from enum import Enum, auto

from scheduler.clusters.local.processes import (
    Process,
    all_processes,
    kill_process,
    log_worker_of,
    may_be_of,
    own_children,
    read_process,
    signal_group,
    worker_of,
)
from scheduler.clusters.local.worker import LocalWorker


class Left(Enum):
    NOTHING = auto()
    #: Only processes outside the group, which no SIGTERM has reached.
    ESCAPED = auto()
    #: Members of the group, and maybe others.
    GROUP = auto()


class Orphans:
    """Adopted children of this process and the workers they came from."""

    def __init__(self, state_dir: str, log_dir: str, workers: Mapping[str, LocalWorker]) -> None:
        """`workers`: all that are on record, by name."""
        self._state_dir = state_dir
        self._log_dir = log_dir
        self._workers = workers
        #: Worker of each orphan; None: unknown, since its environment, output and session do not tell.
        self._owners: dict[int, str | None] = {}

    def note(self, first_processes: Mapping[int, LocalWorker]) -> None:
        """Look again. `first_processes` are this process's other children, by pid."""
        owners: dict[int, str | None] = {}
        for pid in own_children():
            if pid not in first_processes:
                # Asked again while unknown: a process that was just replacing its program had no environment to read.
                owners[pid] = self._owners.get(pid) or self._owner_of(pid, first_processes)
        self._owners = owners

    @property
    def any(self) -> bool:
        return bool(self._owners)

    def kill_strays(self, live_workers: Mapping[str, LocalWorker]) -> None:
        """Kill orphans whose worker has ended; those of unknown origin as soon as no worker of their user is left."""
        for pid, owner in self._owners.items():
            kin = (may_be_of(pid, worker.spec.uid) for worker in live_workers.values())
            if owner not in live_workers if owner is not None else not any(kin):
                process = read_process(pid)
                if process is not None:
                    kill_process(process)

    def _owner_of(self, pid: int, first_processes: Mapping[int, LocalWorker]) -> str | None:
        named = worker_of(pid, self._state_dir) or log_worker_of(pid, self._log_dir)
        worker = self._workers.get(named or "")
        owner = named if worker is None or may_be_of(pid, worker.spec.uid) else None
        if owner is None and (process := read_process(pid)) is not None:
            first = first_processes.get(process.session) or first_processes.get(process.group)
            owner = first.spec.id if first else None
        return owner

    def left_of(self, worker: LocalWorker) -> Left:
        """The remaining processes of a worker whose first process has ended."""
        if worker.adopted:  # its orphans went to init, so all processes have to be looked at
            groups = {process.group for process in self._processes_of(worker)}
            in_group, elsewhere = bool(worker.pid) and worker.pid in groups, bool(groups)
        else:
            in_group, elsewhere = signal_group(worker.pid, 0), worker.spec.id in self._owners.values()
        return Left.GROUP if in_group else Left.ESCAPED if elsewhere else Left.NOTHING

    def kill(self, worker: LocalWorker) -> None:
        """SIGKILL every process of the worker, whatever group it moved to."""
        if worker.first_alive or not worker.adopted:
            signal_group(worker.pid, signal.SIGKILL)
        for process in self._processes_of(worker):
            kill_process(process)

    def _processes_of(self, worker: LocalWorker) -> Iterator[Process]:
        name = worker.spec.id
        for process in all_processes():
            if (
                (worker.pid > 0 and worker.pid in (process.group, process.session))
                or self._owners.get(process.pid) == name
                or (worker_of(process.pid, self._state_dir) == name and may_be_of(process.pid, worker.spec.uid))
            ):
                yield process
