"""JSON in and out: parsed and written by orjson, bodies read with a limit."""

import json
from typing import Any

import orjson
from starlette.responses import Response

from scheduler.bounds import NESTING_MAX, nested_too_deeply
from scheduler.errors import InvalidInput


class JsonResponse(Response):
    """A body of dictionaries, lists and plain values."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS)


def with_all_digits(body: bytes) -> Any:
    """The value of a body that `parse_json` takes, which makes floats of whole numbers beyond 64 bits.

    Raises `ValueError` for a number of thousands of digits.
    """
    return json.loads(body)


def parse_json(body: bytes) -> Any:
    """The value of the body. Raises `InvalidInput` for a body that is not JSON, or nested too deeply."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidInput("body", f"not valid JSON: {error}") from None
    if nested_too_deeply(value):
        raise InvalidInput("body", f"must not be nested more than {NESTING_MAX} levels deep")
    return value
