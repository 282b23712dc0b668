"""Recorded scenarios as JSON: a seed means another scenario as soon as more is drawn, a recorded one stays what it is.

A value of a class is an object with one key, the name of its class. Fields that have their default are left out.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import BaseModel

from scheduler.clusters.simulated import cluster, process
from scheduler.config import settings
from scheduler.engine import tick
from scheduler.model import data, fixed, intent, job, observation, shape, slot
from scheduler.simulate import speed, work
from tests.faults import kinds, plan, poison

#: Scenarios that failed once.
FAILED = Path(__file__).parent / "cases"
#: Scenarios that notice a defect which is put in; see `mutations`.
NOTICING = FAILED / "noticing"
_MODULES: tuple[ModuleType, ...] = (
    plan, kinds, poison, cluster, process, settings, tick, data, fixed, intent, job, observation, shape, slot,
    speed, work,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """A scenario and what it found."""

    found: str
    scenario: plan.Scenario


def save(path: Path, case: Case) -> None:
    """Write the case: a line for each job, node and fault."""
    scenario = _to_data(case.scenario)["Scenario"]
    lines = (f"{json.dumps(key)}: {_lines(value)}" for key, value in {"found": case.found, **scenario}.items())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n " + ",\n ".join(lines) + "\n}\n")


def load(path: Path) -> Case:
    """Read a case back, equal to what was saved."""
    read = json.loads(path.read_text())
    found = read.pop("found")
    return Case(found, _from_data({"Scenario": read}, _classes()))


def recorded(directory: Path) -> list[Path]:
    """The cases in this directory, by name."""
    return sorted(directory.glob("*.json"))


def _lines(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return json.dumps(value)
    return "[\n  " + ",\n  ".join(json.dumps(each) for each in value) + "\n ]"


def _to_data(value: Any) -> Any:
    if isinstance(value, Enum):
        return {type(value).__name__: value.name}
    if isinstance(value, BaseModel):
        default = type(value)()
        changed = ((name, getattr(value, name)) for name in type(value).model_fields)
        return {type(value).__name__: {k: _to_data(v) for k, v in changed if v != getattr(default, k)}}
    if is_dataclass(value):
        changed = ((field.name, getattr(value, field.name)) for field in fields(value) if _differs(value, field))
        return {type(value).__name__: {name: _to_data(each) for name, each in changed}}
    if isinstance(value, frozenset):
        return {"frozenset": sorted(value)}
    return [_to_data(each) for each in value] if isinstance(value, tuple) else value


def _differs(value: Any, field: "Field[Any]") -> bool:
    default = field.default_factory() if field.default_factory is not MISSING else field.default
    return default is MISSING or bool(getattr(value, field.name) != default)


def _from_data(value: Any, classes: dict[str, type]) -> Any:
    if isinstance(value, list):
        return tuple(_from_data(each, classes) for each in value)
    if not isinstance(value, dict):
        return value
    ((name, content),) = value.items()
    if name == "frozenset":
        return frozenset(content)
    kind = classes[name]
    if issubclass(kind, Enum):
        return kind[content]
    return kind(**{key: _from_data(each, classes) for key, each in content.items()})


def _classes() -> dict[str, type]:
    """What may be part of a scenario, by name. Of two with one name, that of the first module is meant."""
    found: dict[str, type] = {}
    for module in reversed(_MODULES):
        found |= {each.__name__: each for each in _defined_in(vars(module).values(), module)}
    return found


def _defined_in(values: Iterable[Any], module: ModuleType) -> Iterator[type]:
    return (each for each in values if isinstance(each, type) and each.__module__ == module.__name__)
