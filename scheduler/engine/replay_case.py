"""Saves the world that made the planner break an invariant, so that it becomes a test case."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from scheduler.config import PolicySettings
from scheduler.model.world import World


@dataclass(frozen=True, slots=True)
class Case:
    """The planner's input, and what was wrong with its plan."""

    world: World
    now: float
    settings: PolicySettings
    violations: tuple[str, ...]


_CODEC = TypeAdapter(Case)

#: Parts of a world that hold jobs.
_OF_JOBS = ("queued", "suspended", "active", "held", "reserved", "leaving", "unexplained")
#: Fields that the planner does not look at, and that may be secret.
_LEFT_OUT: Any = {"world": {"holdings": True} | {jobs: {"__all__": {"spec": {"export"}}} for jobs in _OF_JOBS}}
#: Cases kept in one directory; a defect that repeats must not fill the disk.
CASES_MAX = 50


def save_case(directory: Path, case: Case) -> Path | None:
    """Write the case as JSON, named by its content; None if the directory holds enough of them."""
    directory.mkdir(parents=True, exist_ok=True)
    plain: Any = {jobs: dict(getattr(case.world, jobs)) for jobs in _OF_JOBS}
    data = _CODEC.dump_json(replace(case, world=replace(case.world, **plain)), indent=1, exclude=_LEFT_OUT)
    path = directory / f"case-{hashlib.sha256(data).hexdigest()[:12]}.json"
    if path.exists() or len(list(directory.glob("case-*.json"))) >= CASES_MAX:
        return None
    path.write_bytes(data)
    return path


def load_case(path: Path) -> Case:
    """Read a saved case back, equal to what was saved."""
    return _CODEC.validate_json(path.read_bytes())
