"""Foreign use of GPUs: processes besides those of the workers that hold them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from scheduler.clusters.local.nvml import GpuProcess
from scheduler.clusters.local.processes import log_worker_of, read_process, worker_of
from scheduler.model.ids import NodeName, WorkerId
from scheduler.model.observation import WorkerObservation

#: Identity of a process, which stays unique when its pid is reused.
_Key = tuple[int, int]


class GpuUsers:
    """Tells foreign processes from those of workers, by the environment that they were started with."""

    def __init__(
        self, state_dir: Path, log_dir: Path, workers: Callable[[], Mapping[WorkerId, WorkerObservation]]
    ) -> None:
        """`workers`: all known ones, including those that have ended and are not forgotten."""
        self._state_dir = str(state_dir)
        self._log_dir = f"{log_dir}/"
        self._workers = workers
        #: The worker that each process belongs to; None: none.
        self._owners: dict[_Key, WorkerId | None] = {}
        #: Processes seen once; they may not have got their own environment yet.
        self._strangers: set[_Key] = set()
        self._seen: set[_Key] = set()

    def of_others(self, processes: Iterable[GpuProcess], node: NodeName, slot: int) -> list[GpuProcess]:
        """Processes on the GPU of a slot that belong to no worker, or to one that holds other slots.

        A process is counted from the second time on. One that this machine does not list, since it runs in another
        container, cannot be told from a worker's, and is not counted.
        """
        workers = self._workers()
        return [each for each in processes if self._is_foreign(each.pid, node, slot, workers)]

    def end_pass(self) -> None:
        """End a pass over all GPUs: forget the processes that it did not see."""
        self._owners = {key: owner for key, owner in self._owners.items() if key in self._seen}
        self._strangers &= self._seen
        self._seen = set()

    def _is_foreign(self, pid: int, node: NodeName, slot: int, workers: Mapping[WorkerId, WorkerObservation]) -> bool:
        process = read_process(pid)
        if process is None or process.zombie:
            return False
        key = (pid, process.start_ticks)
        again = key in self._strangers and key not in self._seen
        self._seen.add(key)
        if key not in self._owners:
            owner = self._owner_of(pid, process.session)
            if owner is None and not again:
                self._strangers.add(key)
                return False
            self._owners[key] = owner
        owner = self._owners[key]
        if owner is None:
            return True
        holder = workers.get(owner)  # one that is not known any more is being cleaned up
        return holder is not None and (holder.node != node or slot not in holder.slot_ids)

    def _owner_of(self, pid: int, session: int) -> WorkerId | None:
        """Worker of a process, by its environment, by that of its session's first process, or by its output file."""
        named = worker_of(pid, self._state_dir) or worker_of(session, self._state_dir)
        named = named or log_worker_of(pid, self._log_dir)
        return WorkerId(named) if named else None


def named_process(pid: int) -> str:
    """The process for people: its number, and the name of its program where it can be read."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return f"process {pid}"
    return f"process {pid} ({name})" if name else f"process {pid}"


@dataclass(frozen=True, slots=True)
class _Use:
    """Foreign use of a GPU."""

    detail: str
    #: Since when they hold less than the limit; monotonic seconds. None: they hold as much.
    below_since: float | None = None


class ForeignJudge:
    """Judges foreign use of GPUs: it begins at a share of memory, and ends after a while below that."""

    def __init__(self, memory_min: float | None, clear_seconds: float) -> None:
        """`memory_min`: share of a GPU's memory at which use begins; None: foreign use is not judged."""
        self._memory_min = memory_min
        self._clear_seconds = clear_seconds
        self._uses: dict[str, _Use] = {}

    def last(self, uuid: str) -> str | None:
        """The last judgement."""
        known = self._uses.get(uuid)
        return known.detail if known is not None else None

    def judge(self, uuid: str, share: float, told: Callable[[], str], now: float) -> str | None:
        """One line about the foreign processes on the GPU, constant while they use it; None: there are none.

        `share`: part of the GPU's memory that they hold now.
        """
        if self._memory_min is None:
            return None
        known = self._uses.get(uuid)
        if share >= self._memory_min:
            known = _Use(known.detail if known is not None else told())
        elif known is not None:
            since = now if known.below_since is None else known.below_since
            known = _Use(known.detail, since) if now - since < self._clear_seconds else None
        if known is None:
            self._uses.pop(uuid, None)
            return None
        self._uses[uuid] = known
        return known.detail
