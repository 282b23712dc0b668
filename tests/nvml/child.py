"""What a process on a machine with GPUs does for a test: one session with NVML, or one watch, kept in this module."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduler.clock import VirtualClock
from scheduler.clusters.local.gpu_users import GpuUsers
from scheduler.clusters.local.gpu_watch import GpuWatch
from scheduler.clusters.local.nvml import Nvml, Reading, Xid
from scheduler.config import LocalSettings
from scheduler.model.ids import NodeName, WorkerId
from scheduler.model.observation import SlotLoad, WorkerObservation
from scheduler.model.slot import ClosedSlot

_session = Nvml()


def read() -> Reading:
    """All GPUs now."""
    return _session.read()


def wait(seconds: float) -> tuple[Xid, ...]:
    """Errors of GPUs."""
    return _session.wait(seconds)


@dataclass(frozen=True)
class Seen:
    """What a watch knows after a look."""

    #: UUIDs by node, in the order of slots.
    nodes: Mapping[NodeName, tuple[str, ...]]
    closed: Mapping[NodeName, tuple[ClosedSlot, ...]]
    loads: Mapping[NodeName, tuple[SlotLoad, ...]]
    troubles: list[str]
    #: How often the watch has said that its view is another.
    changes: int


class _Watched:
    """A watch whose clock and workers are the test's."""

    def __init__(self, state_dir: Path, mask: str | None, boot: str, settings: Mapping[str, Any]) -> None:
        self.clock = VirtualClock()
        self.workers: Mapping[WorkerId, WorkerObservation] = {}
        self.changes = 0
        users = GpuUsers(state_dir, state_dir / "logs", lambda: self.workers)
        others = (mask, boot, users, self.clock, self._changed)
        self.watch = GpuWatch(state_dir, LocalSettings(**settings), *others)

    def _changed(self) -> None:
        self.changes += 1

    def seen(self) -> Seen:
        view = self.watch.view
        nodes = {name: tuple(gpu.uuid for gpu in gpus) for name, gpus in view.nodes.items()}
        closed = {name: slots for name, slots in view.closed.items() if slots}
        return Seen(nodes, closed, self.watch.loads, self.watch.troubles, self.changes)


_watched: _Watched | None = None


def watch(state_dir: Path, mask: str | None = None, boot: str = "first", **settings: Any) -> Seen | None:
    """Begin to watch, in the place of the watch before, as a daemon does that starts; None: no GPUs."""
    global _watched
    if _watched is not None:
        _watched.watch.close()
    _watched = _Watched(state_dir, mask, boot, settings)
    return _watched.seen() if _watched.watch.has_gpus else None


def look(
    seconds: float = 1.0, workers: Mapping[WorkerId, WorkerObservation] | None = None, events: bool = True
) -> Seen:
    """Look again after `seconds`. `events`: take in what the driver has reported, too."""
    assert _watched is not None
    _watched.clock.advance(seconds)
    if workers is not None:
        _watched.workers = workers
    _watched.watch.look(_watched.watch._nvml.wait(0.0) if events else ())
    return _watched.seen()
