"""The GPU of each slot, kept in the state directory, so that a slot stays the same GPU until the machine restarts.

A GPU that is gone keeps its slot, which no worker gets; a new one takes the next number.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import structlog

from scheduler import bounds
from scheduler.clusters.local.gpus import Gpu, select_gpus
from scheduler.clusters.local.nvml import Reading
from scheduler.model.ids import NodeName

log = structlog.get_logger(__name__)

_NAME_MAX = 256
_XID_MAX = 100_000
_XIDS_MAX = 64


@dataclass(frozen=True, slots=True)
class KnownGpu:
    """A GPU that has a slot."""

    uuid: str
    name: str
    #: Its errors since its driver was loaded, or since it last came back.
    xids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Roster:
    """All GPUs that have a slot, in the order of their slots."""

    #: Id of the machine's boot: after another one slots may be assigned anew, since nothing runs on them.
    boot: str
    #: CUDA_VISIBLE_DEVICES of the daemon; None: it was not set.
    mask: str | None
    #: GPU type of the node with the plain name.
    primary: str
    gpus: tuple[KnownGpu, ...]

    def with_more(self, gpus: Iterable[Gpu]) -> "Roster":
        """The roster in which the GPUs without a slot get the next ones."""
        known = {gpu.uuid for gpu in self.gpus}
        more = tuple(KnownGpu(gpu.uuid, gpu.name) for gpu in gpus if gpu.uuid not in known)
        return replace(self, gpus=(*self.gpus, *more)[: int(bounds.SLOTS.high)]) if more else self

    def without_xids(self, uuids: Iterable[str]) -> "Roster":
        """The roster without the errors of these GPUs."""
        over = set(uuids)
        return replace(self, gpus=tuple(replace(g, xids=()) if g.uuid in over else g for g in self.gpus))

    def with_xid(self, uuid: str, number: int) -> "Roster":
        """The roster with one more error of a GPU."""
        return replace(self, gpus=tuple(_with_xid(g, number) if g.uuid == uuid else g for g in self.gpus))

    def nodes(self, plain: str) -> Mapping[NodeName, tuple[KnownGpu, ...]]:
        """The machine as nodes, one per GPU type: the primary type has the plain name, others add their type."""
        types = dict.fromkeys((self.primary, *(gpu.name for gpu in self.gpus)))
        names: dict[NodeName, tuple[KnownGpu, ...]] = {}
        for each in types:
            gpus = tuple(gpu for gpu in self.gpus if gpu.name == each)
            if gpus:
                names[_free_name(plain if each == self.primary else f"{plain}-{_slug(each)}", names)] = gpus
        return names


def first_roster(before: Roster | None, reading: Reading, mask: str | None, boot: str) -> Roster | None:
    """The roster when a daemon starts; None: the machine has no GPU that it may use.

    `before`: the roster that the last daemon saved.
    """
    found = select_gpus([Gpu(uuid, gpu.name) for uuid, gpu in reading.gpus.items()], mask)
    if before is not None and before.mask == mask:
        if before.boot == boot:
            return before.with_more(found)
        if reading.trouble and reading.installed:  # its GPUs are still there, as far as is known
            return replace(before.without_xids(gpu.uuid for gpu in before.gpus), boot=boot)
    if not found:
        return None
    types = [gpu.name for gpu in found]
    primary = before.primary if before is not None and before.primary in types else types[0]
    return Roster(boot, mask, primary, tuple(KnownGpu(gpu.uuid, gpu.name) for gpu in found))


def load_roster(state_dir: Path) -> Roster | None:
    """The saved roster; None if there is none, or it cannot be read."""
    try:
        return _parsed(json.loads(_path(state_dir).read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        log.warning("cannot read which GPU is which slot; slots follow PCI addresses", error=str(error))
        return None


def save_roster(state_dir: Path, roster: Roster) -> None:
    """Replace the saved roster atomically. Raises `OSError` if the disk refuses."""
    path = _path(state_dir)
    written = path.with_suffix(".new")
    descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(asdict(roster), file)
    written.rename(path)


def _path(state_dir: Path) -> Path:
    return state_dir / "gpus.json"


def _parsed(data: Any) -> Roster:
    gpus = tuple(KnownGpu(_text(g["uuid"]), _text(g["name"]), _xids(g["xids"])) for g in data["gpus"])
    if not 0 < len(gpus) <= bounds.SLOTS.high or len({gpu.uuid for gpu in gpus}) < len(gpus):
        raise ValueError("gpus must be 1 to 4096 different ones")
    mask = data["mask"]
    return Roster(_text(data["boot"]), None if mask is None else str(mask), _text(data["primary"]), gpus)


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > _NAME_MAX:
        raise ValueError(f"must be a text of up to {_NAME_MAX} characters")
    return value


def _xids(value: Sequence[object]) -> tuple[int, ...]:
    numbers = tuple(each for each in value if isinstance(each, int) and 0 <= each <= _XID_MAX)
    if len(numbers) < len(value) or len(numbers) > _XIDS_MAX:
        raise ValueError(f"xids must be up to {_XIDS_MAX} numbers")
    return numbers


def _with_xid(gpu: KnownGpu, number: int) -> KnownGpu:
    if number in gpu.xids or not 0 <= number <= _XID_MAX or len(gpu.xids) >= _XIDS_MAX:
        return gpu
    return replace(gpu, xids=(*gpu.xids, number))


def _slug(name: str) -> str:
    """The type as part of a node's name, as Kubernetes writes it in labels."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-") or "gpu"


def _free_name(name: str, taken: Mapping[NodeName, object]) -> NodeName:
    number = 2
    free = name
    while NodeName(free) in taken:
        free, number = f"{name}-{number}", number + 1
    return NodeName(free)
