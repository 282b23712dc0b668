"""Files of YAML, JSON or TOML that hold one mapping, and where in the file each of its keys stands."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduler.cli.input.json_file import read_json
from scheduler.errors import UserError

if TYPE_CHECKING:
    import yaml

_BYTES_MAX = 1024 * 1024
VALUES_MAX = 20_000
DEPTH_MAX = 20


@dataclass(frozen=True, slots=True)
class Kind:
    """What a file is to be, for messages: what it is called, and what it holds, as YAML and JSON write that."""

    noun: str
    in_yaml: str
    in_json: str


def read_mapping(path: Path, kind: Kind) -> tuple[dict[str, Any], dict[str, int]]:
    """The file's mapping, and the line of each key by dotted name. Raises `UserError` with path and line.

    What is not named as TOML or JSON is YAML. Lines are not known in TOML.
    """
    name, text, suffix = str(path), _read_text(path, kind), path.suffix.lower()
    if suffix == ".toml":
        return _toml(text, name), {}
    return read_json(text, name, kind.in_json) if suffix == ".json" else _yaml(text, name, kind)


def _read_text(path: Path, kind: Kind) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_BYTES_MAX + 1)
    except IsADirectoryError:
        raise UserError(f"{path}: is a directory, not a {kind.noun}") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    if len(data) > _BYTES_MAX:
        raise UserError(f"{path}: longer than {_BYTES_MAX // 1024} KiB: not a {kind.noun}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8 text: not a {kind.noun}") from None
    if "\x00" in text:
        raise UserError(f"{path}: binary data: not a {kind.noun}")
    return text


def _toml(text: str, name: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except (RecursionError, ValueError) as error:
        raise UserError(f"{name}: not valid TOML: {error}") from None


def _yaml(text: str, name: str, kind: Kind) -> tuple[dict[str, Any], dict[str, int]]:
    import yaml

    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if root is None:
            raise UserError(f"{name}: the file is empty")
        if not isinstance(root, yaml.MappingNode):
            raise UserError(f"{name}:{root.start_mark.line + 1}: must be a mapping of {kind.in_yaml}")
        _check_size(root, name, kind)
        lines = dict(_lines(root, (), name, kind))
        return loader.construct_document(root), lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise UserError(f"{name}{line}: not valid YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise UserError(f"{name}: not valid YAML: {' '.join(str(error).split())}") from None
    except (RecursionError, ValueError) as error:
        raise UserError(f"{name}: not valid YAML: {error}") from None


def _check_size(root: "yaml.Node", name: str, kind: Kind) -> None:
    """Raise `UserError` for what would grow beyond all bounds, as aliases let a small file do.

    What they stand for is counted, and not written out.
    """
    import yaml

    sizes: dict[int, float] = {}

    def size(node: yaml.Node, depth: int) -> float:
        if depth > DEPTH_MAX:
            raise UserError(f"{name}: nested too deeply: not a {kind.noun}")
        if id(node) not in sizes:
            sizes[id(node)] = math.inf  # what holds itself has no end
            children: list[yaml.Node] = []
            if isinstance(node, yaml.MappingNode):
                children = [each for pair in node.value for each in pair]
            elif isinstance(node, yaml.SequenceNode):
                children = node.value
            sizes[id(node)] = 1 + sum(size(child, depth + 1) for child in children)
        return sizes[id(node)]

    if size(root, 0) > VALUES_MAX:
        raise UserError(f"{name}: too many values: not a {kind.noun}")


def _lines(node: "yaml.MappingNode", place: tuple[str, ...], name: str, kind: Kind) -> Iterator[tuple[str, int]]:
    """Dotted name and line of every key. Raises `UserError` for one that is given twice or is no text."""
    import yaml

    if len(place) > DEPTH_MAX:
        raise UserError(f"{name}: nested too deeply: not a {kind.noun}")
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
            yield from _lines(value, (*place, key.value), name, kind)
