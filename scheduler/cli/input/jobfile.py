"""Job files: YAML, JSON or TOML, one job each, and where in the file each field stands.

Only the form is checked here. What a field may hold is the daemon's to say, so that a file means the same
whichever version reads it.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scheduler.cli.input.mapping_file import DEPTH_MAX, VALUES_MAX, Kind, read_mapping
from scheduler.cli.input.source import Source
from scheduler.errors import UserError

_SUFFIXES = (".yaml", ".yml", ".json", ".toml")
_JOB_FILE = Kind("job file", "fields such as `command: [...]`", 'fields such as "command": [...]')


def is_job_file(name: str) -> bool:
    """Whether it is named like one."""
    return Path(name).suffix.lower() in _SUFFIXES


def read_job_file(path: Path) -> tuple[dict[str, Any], Source]:
    """The file's mapping and where its fields stand. Raises `UserError` with path and line."""
    name = str(path)
    if not is_job_file(name):
        raise UserError(f"{name}: the name of a job file must end in .yaml, .yml, .json or .toml")
    document, lines = read_mapping(path, _JOB_FILE)
    for place, value in _walk(document, (), name):
        if not isinstance(value, str | int | float | bool | None) or (
            isinstance(value, float) and not math.isfinite(value)
        ):
            source = Source(name, lines=lines, fields=frozenset(document))
            kind = "date" if type(value).__name__ in ("date", "datetime", "time") else type(value).__name__
            raise UserError(
                source.complaint(".".join(place), f"must be a string or a number, not a {kind}: put it in quotes")
            )
    return document, Source(name, lines=lines, fields=frozenset(document))


def _walk(value: Any, place: tuple[str, ...], name: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value that is neither a mapping nor a list. Raises `UserError` for a file that grows by aliases."""
    left = VALUES_MAX
    waiting: list[tuple[tuple[str, ...], Any]] = [(place, value)]
    while waiting:
        where, each = waiting.pop()
        left -= 1
        if left < 0 or len(where) > DEPTH_MAX:
            raise UserError(f"{name}: too many values: not a job file")
        if isinstance(each, dict):
            waiting += [((*where, str(key)), inner) for key, inner in each.items()]
        elif isinstance(each, list):
            waiting += [((*where, str(index)), inner) for index, inner in enumerate(each)]
        else:
            yield where, each
