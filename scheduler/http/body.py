"""Reading request bodies: JSON only, and never more than the limit."""

from typing import Annotated, Any

from fastapi import Depends, Request

from scheduler.http.errors import ErrorCode, Refusal
from scheduler.http.services import services_of


async def read_json_body(request: Request) -> bytes:
    """The raw body. Raises `Refusal`: 415 for what is not said to be JSON, 413 for what is too large.

    Pages of other sites cannot send this content type without asking first, which is never allowed.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise Refusal(415, ErrorCode.INVALID, "content-type must be application/json", field="content-type")
    bytes_max = services_of(request).settings.http.request_bytes_max
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > bytes_max:
        raise _too_large(bytes_max)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > bytes_max:
            raise _too_large(bytes_max)
    return bytes(body)


def _too_large(bytes_max: int) -> Refusal:
    # What is left of the body would be read as the next request otherwise.
    headers = {"connection": "close"}
    return Refusal(413, ErrorCode.TOO_LARGE, f"the body exceeds {bytes_max} bytes", headers=headers)


Body = Annotated[bytes, Depends(read_json_body)]


def documented_body(model: str, *, required: bool = True) -> dict[str, Any]:
    """What OpenAPI says of a body that is read by `Body`."""
    schema = {"$ref": f"#/components/schemas/{model}"}
    return {"requestBody": {"required": required, "content": {"application/json": {"schema": schema}}}}
