"""Watches the GPUs of this machine: presence, foreign use and health. One thread, which raises nothing."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from scheduler.clusters.local.gpu_users import ForeignJudge, GpuUsers, named_process
from scheduler.clusters.local.gpus import Gpu
from scheduler.clusters.local.nvml import GpuReading, Nvml, Reading, Xid
from scheduler.clusters.local.roster import KnownGpu, Roster, first_roster, load_roster, save_roster
from scheduler.clusters.local.xids import meaning
from scheduler.config import LocalSettings
from scheduler.engine.ports import Clock
from scheduler.engine.timing.repeating import Repeating
from scheduler.model.ids import NodeName
from scheduler.model.observation import SlotLoad
from scheduler.model.slot import ClosedSlot, SlotClosure

log = structlog.get_logger(__name__)

#: Between two readings; an error that the driver reports is read at once.
READ_SECONDS = 1.0
#: How long one wait for such errors takes at most: closing waits for that.
WAIT_SECONDS = 0.2
_PAUSE_SECONDS = 0.05
#: Readings in a row that must agree before a GPU counts as gone, or the library as failed.
READINGS = 2


@dataclass(frozen=True, slots=True)
class GpuView:
    """The known GPUs at one moment, by node."""

    nodes: Mapping[NodeName, tuple[KnownGpu, ...]] = field(default_factory=dict)
    closed: Mapping[NodeName, tuple[ClosedSlot, ...]] = field(default_factory=dict)


class GpuWatch:
    """The state of the GPUs by the last readings. The first is made on construction, further ones after `start`."""

    def __init__(
        self,
        state_dir: Path,
        settings: LocalSettings,
        mask: str | None,
        boot: str,
        users: GpuUsers,
        clock: Clock,
        on_change: Callable[[], None],
    ) -> None:
        """`mask`: CUDA_VISIBLE_DEVICES of the daemon, which bounds what it may hand out; None: all.

        `on_change` is called on the watching thread whenever the view is another.
        """
        self._state_dir = state_dir
        self._plain_name = settings.node_name
        self._unhealthy_xids = frozenset(settings.unhealthy_xids)
        self._mask = mask
        self._users = users
        self._clock = clock
        self._on_change = on_change
        self._judge = ForeignJudge(settings.foreign_memory_min, settings.foreign_clear_seconds)
        self._nvml = Nvml()
        self._saved = load_roster(state_dir)
        first = self._nvml.read()
        self._roster = first_roster(self._saved, first, mask, boot)
        #: The last reading of each GPU ever seen.
        self._known: dict[str, GpuReading] = {}
        #: How many readings in a row have missed it.
        self._missed: dict[str, int] = {}
        self._failures = 0
        self._last = Reading()
        #: The library's last error, once it has failed often enough.
        self._trouble = ""
        self._unloaded = False
        self._unsaved: str | None = None
        self._read_at = 0.0
        self.view = GpuView()
        self.loads: Mapping[NodeName, tuple[SlotLoad, ...]] = {}
        if self._roster is None and first.trouble and first.installed:
            log.warning("cannot read GPUs; using CPU slots", error=first.trouble)
        for _ in range(READINGS):
            self.look(())
        self._repeating = Repeating("GPUs", self._step, _PAUSE_SECONDS)
        if self._roster is None:
            self._nvml.close()

    @property
    def has_gpus(self) -> bool:
        """Whether this machine has GPUs, so that these are its slots."""
        return self._roster is not None

    @property
    def troubles(self) -> list[str]:
        """Troubles that do not stop the watch, one line each."""
        lines = [f"GPUs cannot be read: NVML: {self._trouble}"] if self._trouble else []
        lines += [f"a GPU cannot be used: {each}" for each in self._last.unopened]
        return lines + [each for each in (self._unsaved, self._repeating.trouble) if each is not None]

    def start(self) -> None:
        """Go on looking until `close`."""
        self._repeating.start()

    def close(self) -> None:
        """Stop, and release the driver."""
        self._repeating.close()
        self._nvml.close()

    def look(self, xids: tuple[Xid, ...]) -> None:
        """Read all GPUs, and take in the errors that the driver reported."""
        if self._roster is None:
            return
        reading, before = self._nvml.read(), self.view
        self._read_at = self._clock.monotonic()
        roster = self._with_xids(self._follow(reading, self._roster), xids)
        self._last = reading
        if roster != self._saved:
            self._save(roster)
        self._roster = roster
        nodes = roster.nodes(self._plain_name)
        self.loads = {name: tuple(self._load(gpu) for gpu in gpus) for name, gpus in nodes.items()}
        self.view = GpuView(nodes, {name: self._closed(name, gpus) for name, gpus in nodes.items()})
        self._users.end_pass()
        if self.view != before:
            self._on_change()

    def _step(self) -> None:
        xids = self._nvml.wait(WAIT_SECONDS)
        if xids or self._clock.monotonic() >= self._read_at + READ_SECONDS:
            self.look(xids)

    def _follow(self, reading: Reading, roster: Roster) -> Roster:
        """The roster, with GPUs that came or went since the last reading."""
        if reading.trouble:
            self._failures += 1
            if self._failures >= READINGS:
                if reading.trouble != self._trouble:
                    log.warning("cannot read GPUs", error=reading.trouble)
                self._trouble = reading.trouble
                self._unloaded = self._unloaded or reading.unloaded
            return roster
        if self._trouble:
            log.info("GPUs can be read again", driver_was_loaded=self._unloaded)
        # Earlier errors do not concern a GPU whose driver was loaded since, or that has come back.
        over = {gpu.uuid for gpu in roster.gpus if self._unloaded or self._is_gone(gpu.uuid)} & reading.gpus.keys()
        self._failures, self._trouble, self._unloaded = 0, "", False
        if self._mask is None:
            roster = roster.with_more(Gpu(uuid, gpu.name) for uuid, gpu in reading.gpus.items())
        for gpu in roster.gpus:
            self._missed[gpu.uuid] = 0 if gpu.uuid in reading.gpus else self._missed.get(gpu.uuid, 0) + 1
        self._known.update(reading.gpus)
        return roster.without_xids(over) if over else roster

    def _with_xids(self, roster: Roster, xids: tuple[Xid, ...]) -> Roster:
        for xid in xids:
            unhealthy = xid.number in self._unhealthy_xids
            log.warning("error of a GPU", gpu=xid.uuid, error=meaning(xid.number), unhealthy=unhealthy)
            if unhealthy:
                roster = roster.with_xid(xid.uuid, xid.number)
        return roster

    def _is_gone(self, uuid: str) -> bool:
        return self._missed.get(uuid, 0) >= READINGS

    def _closed(self, node: NodeName, gpus: tuple[KnownGpu, ...]) -> tuple[ClosedSlot, ...]:
        closed = (self._closure(node, slot, gpu) for slot, gpu in enumerate(gpus))
        return tuple(each for each in closed if each is not None)

    def _closure(self, node: NodeName, slot: int, gpu: KnownGpu) -> ClosedSlot | None:
        """Why its slot takes no workers, the gravest reason first."""
        foreign = self._foreign(node, slot, gpu)
        fault = self._fault(gpu)
        if fault:
            return ClosedSlot(slot, SlotClosure.UNHEALTHY, fault)
        if self._trouble:
            return ClosedSlot(slot, SlotClosure.UNREADABLE, f"NVML: {self._trouble}")
        return ClosedSlot(slot, SlotClosure.FOREIGN, foreign) if foreign is not None else None

    def _fault(self, gpu: KnownGpu) -> str:
        faults = [meaning(number) for number in gpu.xids]
        if self._is_gone(gpu.uuid):
            besides = f" ({'; '.join(self._last.unopened)})" if self._last.unopened else ""
            faults.append(f"NVML lists {gpu.uuid} no more{besides}")
        elif gpu.uuid in self._known and self._known[gpu.uuid].fault:
            faults.append(self._known[gpu.uuid].fault)
        return "; ".join(faults)

    def _foreign(self, node: NodeName, slot: int, gpu: KnownGpu) -> str | None:
        """Text about the foreign processes that use it; None: none do. Unchanged while it cannot be read."""
        reading = self._last.gpus.get(gpu.uuid)
        if reading is None or not reading.memory_bytes:
            return self._judge.last(gpu.uuid)
        others = self._users.of_others(reading.processes, node, slot)
        held = sum(each.bytes_held for each in others)

        def told() -> str:
            largest = max(others, key=lambda each: each.bytes_held)
            more = f" and {len(others) - 1} more" if len(others) > 1 else ""
            return f"used by {named_process(largest.pid)}{more}"

        return self._judge.judge(gpu.uuid, held / reading.memory_bytes, told, self._read_at)

    def _load(self, gpu: KnownGpu) -> SlotLoad:
        reading = self._last.gpus.get(gpu.uuid)
        return reading.load if reading is not None else SlotLoad()

    def _save(self, roster: Roster) -> None:
        """Save the roster for the next daemon; tried again at the next reading if the disk refuses."""
        self._unsaved = "which GPU is which slot cannot be kept"
        with suppress(OSError):
            save_roster(self._state_dir, roster)
            self._saved, self._unsaved = roster, None
