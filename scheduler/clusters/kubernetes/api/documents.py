"""Documents of the API, as JSON: one that is nested beyond reason does not keep a list of all from being read."""

import re
from typing import Any

import orjson

Document = dict[str, Any]

#: What lies deeper is left out: far below what makes any object of use.
LEVELS_MAX = 128
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]')


def parse_document(data: bytes) -> Document:
    """The document, with null for what is nested too deeply. Raises `orjson.JSONDecodeError` for what is not JSON."""
    try:
        document: Document = orjson.loads(data)
    except orjson.JSONDecodeError:
        document = orjson.loads(_pruned(data))
    return document


def _pruned(data: bytes) -> bytes:
    """The same text, with null in the place of every mapping and list below `LEVELS_MAX` others."""
    kept: list[bytes] = []
    depth = copied = 0
    for token in _TOKEN.finditer(data):
        match token[0]:
            case b"[" | b"{":
                depth += 1
                if depth == LEVELS_MAX + 1:
                    kept += (data[copied : token.start()], b"null")
            case b"]" | b"}":
                if depth == LEVELS_MAX + 1:
                    copied = token.end()
                depth -= 1
            case _:
                pass
    return b"".join((*kept, data[copied:]))
