"""JSON documents of the API. One excessively nested object does not make a whole list unreadable."""

import re
from typing import Any

import orjson

Document = dict[str, Any]

#: Deeper levels are left out; no useful object has that many.
LEVELS_MAX = 128
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]')


def parse_document(data: bytes) -> Document:
    """Parse a document, with null for parts that are nested too deeply. Raises `orjson.JSONDecodeError`."""
    try:
        document: Document = orjson.loads(data)
    except orjson.JSONDecodeError:
        document = orjson.loads(_pruned(data))
    return document


def _pruned(data: bytes) -> bytes:
    """The JSON text, with null in place of every mapping and list nested deeper than `LEVELS_MAX`."""
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
