"""JSON in a file, and on which line each of its keys stands."""

import json
import re
from collections.abc import Iterator
from typing import Any

from scheduler.errors import UserError

#: What can stand in valid JSON beside numbers, words and blanks.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]')


def read_json(text: str, name: str, expected: str) -> tuple[dict[str, Any], dict[str, int]]:
    """The object, and the line of each key by dotted name, such as env.PORT. Raises `UserError` that says where.

    `expected`: what an object is to have, for messages.
    """
    if not text.strip():
        raise UserError(f"{name}: the file is empty")
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{name}:{error.lineno}: not valid JSON: {error.msg} (column {error.colno})") from None
    except (RecursionError, ValueError) as error:
        raise UserError(f"{name}: not valid JSON: {error}") from None
    if not isinstance(document, dict):
        raise UserError(f"{name}:1: must be an object with {expected}")
    lines: dict[tuple[str, ...], int] = {}
    for place, line in _keys(text):
        if place in lines:
            raise UserError(f"{name}:{line}: {place[-1]}: duplicate field, first given on line {lines[place]}")
        lines[place] = line
    return document, {".".join(place): line for place, line in lines.items()}


def _keys(text: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Place and line of each key of valid JSON; items of lists are numbered."""
    place: list[str | int] = []
    line, seen, string, string_line = 1, 0, "", 1
    for token in _TOKEN.finditer(text):
        line += text.count("\n", seen, token.start())
        seen, mark = token.start(), token[0]
        if mark in "{[":
            place.append(0 if mark == "[" else "")
        elif mark in "}]":
            place.pop()
        elif mark == ",":
            here = place[-1]
            place[-1] = here + 1 if isinstance(here, int) else here
        elif mark == ":":
            place[-1] = json.loads(string)
            yield tuple(map(str, place)), string_line
        else:
            string, string_line = mark, line
