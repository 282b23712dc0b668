"""The simulated cluster's machines: `16x4`, or a CSV or YAML file with a row per node."""

import os
import re
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field

from scheduler.bounds import SLOTS_PER_WORKER
from scheduler.config.numbers import MemoryMib, Slots
from scheduler.errors import InvalidInput, UserError
from scheduler.model.ids import NodeName
from scheduler.model.observation import NodeObservation
from scheduler.simulate.job_rows import Name, refuse_repeated
from scheduler.simulate.pairs import parse_pairs
from scheduler.simulate.table import Row, parse_csv, read_text, validated
from scheduler.simulate.yaml_items import read_items

NODES_MAX = 100_000
_SHAPE = re.compile(r"(\d{1,6})x(\d{1,6})(?::([A-Za-z0-9._/-]{1,128}))?")


class NodeRow(Row):
    """One node; CPUs and memory matter only to jobs that ask for them."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    slots: Slots
    cpus: float = Field(default=0.0, ge=0, le=1e6)
    memory_mib: MemoryMib = 0
    gpu_type: Name | None = None
    #: Slots that may be given out in relation to those that there are, to jobs that accept overselling.
    oversell: float = Field(default=1.0, ge=1, le=100)
    labels: Annotated[dict[str, str], BeforeValidator(parse_pairs)] = Field(default_factory=dict)

    def observed(self) -> NodeObservation:
        return NodeObservation(
            NodeName(self.name),
            self.name,
            self.slots,
            self.cpus,
            self.memory_mib,
            tuple(sorted(self.labels.items())),
            self.gpu_type,
            oversell=self.oversell,
        )


def read_nodes(text: str, option: str) -> tuple[NodeObservation, ...]:
    """Nodes of `16x4` (16 of 4 slots), `5x120:cohort` (also labelled cohort=1 to cohort=5), or a file.

    Raises `UserError`.
    """
    shape = _SHAPE.fullmatch(text)
    if shape is not None:
        return _equal_nodes(text, int(shape[1]), int(shape[2]), shape[3], option)
    path = Path(text)
    if not os.path.exists(path):
        raise InvalidInput(option, f"{text!r} is neither a file nor a size such as 16x4 (16 nodes of 4 slots)")
    content = read_text(path)
    if path.suffix.lower() in (".yaml", ".yml", ".json"):
        items = read_items(path, content, "nodes")
        rows = [(item.line, validated(NodeRow, item.values, item.place, strict=True)) for item in items]
    else:
        rows = parse_csv(path, content, NodeRow)
    refuse_repeated(path, [(line, row.name) for line, row in rows], "name")
    if not any(row.slots for _, row in rows):
        raise UserError(f"{path}: none of the nodes has a slot")
    if len(rows) > NODES_MAX:
        raise InvalidInput(option, f"{path} contains {len(rows)} nodes: at most {NODES_MAX} can be simulated")
    return tuple(row.observed() for _, row in rows)


def _equal_nodes(text: str, count: int, slots: int, label: str | None, option: str) -> tuple[NodeObservation, ...]:
    if not (1 <= count <= NODES_MAX and SLOTS_PER_WORKER.admits(slots)):
        raise InvalidInput(option, f"{text!r}: must be 1 to {NODES_MAX} nodes of 1 to {SLOTS_PER_WORKER.high} slots")
    width = len(str(count))
    names = [f"node-{number:0{width}}" for number in range(1, count + 1)]
    return tuple(
        NodeObservation(NodeName(name), name, slots, labels=((label, str(number)),) if label else ())
        for number, name in enumerate(names, 1)
    )
