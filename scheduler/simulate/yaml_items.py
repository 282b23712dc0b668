"""YAML files that hold a list of mappings, and in which line each of their keys stands."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from scheduler.errors import UserError

#: Reading YAML is slow; longer lists belong into a CSV file.
CHARACTERS_MAX = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Item:
    """One mapping of the list."""

    path: Path
    line: int
    values: dict[str, Any]
    lines: dict[str, int]

    def place(self, key: str) -> str:
        """Where a key stands, or the item if it has none."""
        return f"{self.path}:{self.lines.get(key, self.line)}"


def read_items(path: Path, text: str, key: str) -> list[Item]:
    """The items of a file that is a list, or a mapping with the list under `key`. Raises `UserError`."""
    if len(text) > CHARACTERS_MAX:
        raise UserError(f"{path}: more than {CHARACTERS_MAX // 1024**2} MiB of YAML: use CSV")
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        items = list(_items(path, loader, _list_node(path, root, key)))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise UserError(f"{path}{line}: not valid YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    except (RecursionError, ValueError) as error:
        raise UserError(f"{path}: not valid YAML: {error}") from None
    if not items:
        raise UserError(f"{path}: the list of {key} is empty")
    return items


def _list_node(path: Path, root: yaml.Node | None, key: str) -> yaml.SequenceNode:
    if root is None:
        raise UserError(f"{path}: the file is empty")
    node = root
    if isinstance(root, yaml.MappingNode):
        for name, value in root.value:
            if name.value != key:
                raise UserError(f"{path}:{name.start_mark.line + 1}: {name.value}: unknown field: give a list of {key}")
            node = value
    if not isinstance(node, yaml.SequenceNode):
        raise UserError(f"{path}:{node.start_mark.line + 1}: must be a list of {key}")
    return node


def _items(path: Path, loader: yaml.SafeLoader, node: yaml.SequenceNode) -> Iterator[Item]:
    for each in node.value:
        line = each.start_mark.line + 1
        if not isinstance(each, yaml.MappingNode):
            raise UserError(f"{path}:{line}: must be a mapping such as `name: a`")
        lines: dict[str, int] = {}
        for name, _ in each.value:
            here = name.start_mark.line + 1
            if not isinstance(name, yaml.ScalarNode) or name.tag != "tag:yaml.org,2002:str":
                raise UserError(f"{path}:{here}: the key must be a string")
            if name.value in lines:
                raise UserError(
                    f"{path}:{here}: {name.value}: duplicate field, first given on line {lines[name.value]}"
                )
            lines[name.value] = here
        yield Item(path, line, loader.construct_document(each), lines)
