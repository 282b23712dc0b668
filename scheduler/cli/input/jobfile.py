"""Job files: YAML, JSON or TOML, one job each, and where in the file each field stands.

Only the form is checked here. What a field may hold is the daemon's to say, so that a file means the same
whichever version reads it.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduler.cli.input.json_file import read_json
from scheduler.cli.input.source import Source
from scheduler.errors import UserError

if TYPE_CHECKING:
    import yaml

_BYTES_MAX = 1024 * 1024
_VALUES_MAX = 20_000
_DEPTH_MAX = 20
_SUFFIXES = (".yaml", ".yml", ".json", ".toml")


def is_job_file(name: str) -> bool:
    """Whether it is named like one."""
    return Path(name).suffix.lower() in _SUFFIXES


def read_job_file(path: Path) -> tuple[dict[str, Any], Source]:
    """The file's mapping and where its fields stand. Raises `UserError` with path and line."""
    name = str(path)
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise UserError(f"{name}: the name of a job file must end in .yaml, .yml, .json or .toml")
    text = _read_text(path)
    read = {".toml": _toml, ".json": read_json}.get(suffix, _yaml)
    document, lines = read(text, name)
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


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_BYTES_MAX + 1)
    except IsADirectoryError:
        raise UserError(f"{path}: is a directory, not a job file") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    if len(data) > _BYTES_MAX:
        raise UserError(f"{path}: longer than {_BYTES_MAX // 1024} KiB: not a job file")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8 text: not a job file") from None
    if "\x00" in text:
        raise UserError(f"{path}: binary data: not a job file")
    return text


def _toml(text: str, name: str) -> tuple[dict[str, Any], dict[str, int]]:
    import tomllib

    try:
        return tomllib.loads(text), {}
    except (RecursionError, ValueError) as error:
        raise UserError(f"{name}: not valid TOML: {error}") from None


def _yaml(text: str, name: str) -> tuple[dict[str, Any], dict[str, int]]:
    import yaml

    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if root is None:
            raise UserError(f"{name}: the file is empty")
        if not isinstance(root, yaml.MappingNode):
            raise UserError(f"{name}:{root.start_mark.line + 1}: must be a mapping of fields such as `command: [...]`")
        _check_size(root, name)
        lines = dict(_lines(root, (), name))
        return loader.construct_document(root), lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise UserError(f"{name}{line}: not valid YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise UserError(f"{name}: not valid YAML: {' '.join(str(error).split())}") from None
    except (RecursionError, ValueError) as error:
        raise UserError(f"{name}: not valid YAML: {error}") from None


def _check_size(root: "yaml.Node", name: str) -> None:
    """Raise `UserError` for what would grow beyond all bounds, as aliases let a small file do.

    What they stand for is counted, and not written out.
    """
    import yaml

    sizes: dict[int, float] = {}

    def size(node: yaml.Node, depth: int) -> float:
        if depth > _DEPTH_MAX:
            raise UserError(f"{name}: nested too deeply: not a job file")
        if id(node) not in sizes:
            sizes[id(node)] = math.inf  # what holds itself has no end
            children: list[yaml.Node] = []
            if isinstance(node, yaml.MappingNode):
                children = [each for pair in node.value for each in pair]
            elif isinstance(node, yaml.SequenceNode):
                children = node.value
            sizes[id(node)] = 1 + sum(size(child, depth + 1) for child in children)
        return sizes[id(node)]

    if size(root, 0) > _VALUES_MAX:
        raise UserError(f"{name}: too many values: not a job file")


def _lines(node: "yaml.MappingNode", place: tuple[str, ...], name: str) -> Iterator[tuple[str, int]]:
    """Dotted name and line of every key. Raises `UserError` for one that is given twice or is no text."""
    import yaml

    if len(place) > _DEPTH_MAX:
        raise UserError(f"{name}: nested too deeply: not a job file")
    seen: dict[str, int] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if key.tag == "tag:yaml.org,2002:merge":
            continue
        if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
            shown = f"{key.value!r} " if isinstance(key, yaml.ScalarNode) else ""
            raise UserError(f"{name}:{line}: the key {shown}must be a string: put it in quotes")
        if key.value in seen:
            raise UserError(f"{name}:{line}: {key.value}: duplicate field, first given on line {seen[key.value]}")
        seen[key.value] = line
        yield ".".join((*place, key.value)), line
        if isinstance(value, yaml.MappingNode):
            yield from _lines(value, (*place, key.value), name)


def _walk(value: Any, place: tuple[str, ...], name: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value that is neither a mapping nor a list. Raises `UserError` for a file that grows by aliases."""
    left = _VALUES_MAX
    waiting: list[tuple[tuple[str, ...], Any]] = [(place, value)]
    while waiting:
        where, each = waiting.pop()
        left -= 1
        if left < 0 or len(where) > _DEPTH_MAX:
            raise UserError(f"{name}: too many values: not a job file")
        if isinstance(each, dict):
            waiting += [((*where, str(key)), inner) for key, inner in each.items()]
        elif isinstance(each, list):
            waiting += [((*where, str(index)), inner) for index, inner in enumerate(each)]
        else:
            yield where, each
