"""Reading request bodies: JSON only, and never more than the route's limit."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, Request

from scheduler.config import HttpSettings
from scheduler.http.errors import SCHEMA_OF, ErrorCode, Refusal
from scheduler.http.schemas.headers import RequestHeader
from scheduler.http.services import services_of

#: Limit for reports of workers and for changes that users request.
SMALL_BYTES_MAX = 64 * 1024
#: Limit for calls for shards: ten thousand separate spans that are done, and ten thousand that failed.
SHARDS_BYTES_MAX = 1024 * 1024


def _reader(bytes_max_of: Callable[[HttpSettings], int]) -> Callable[[Request], AsyncIterator[bytes]]:
    async def read(request: Request) -> AsyncIterator[bytes]:
        """The raw body. Raises `Refusal`: 415 for a content type other than JSON, 413 for a body that is too large.

        Pages of other sites cannot send this content type without a preflight request, which is never granted.
        """
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type != "application/json":
            raise Refusal(415, ErrorCode.INVALID, "content-type must be application/json", field="content-type")
        services = services_of(request)
        bytes_max = bytes_max_of(services.settings.http)
        length = request.headers.get("content-length", "")
        if length.isdecimal() and (len(length) > len(str(bytes_max)) or int(length) > bytes_max):
            raise _too_large(bytes_max, request)
        body = bytearray()
        with services.bodies.holding() as held:
            async for chunk in request.stream():
                held.add(len(chunk))
                body += chunk
                if len(body) > bytes_max:
                    raise _too_large(bytes_max, request)
            async with held.turn():
                yield bytes(body)

    return read


def _too_large(bytes_max: int, request: Request) -> Refusal:
    # A client that waits for `100 Continue` and does not get it would send another request in place of the body.
    headers = {"connection": "close"} if "expect" in request.headers else {}
    return Refusal(413, ErrorCode.TOO_LARGE, f"the body exceeds {bytes_max} bytes", headers=headers)


_read_job = _reader(lambda settings: settings.job_bytes_max)
#: The body of a request with one job, for a route that reads it by itself.
job_body = asynccontextmanager(_read_job)
#: Bodies of routes with small ones, of those that take one job, of batches, and of calls for shards.
Body = Annotated[bytes, Depends(_reader(lambda _: SMALL_BYTES_MAX))]
JobBody = Annotated[bytes, Depends(_read_job)]
BatchBody = Annotated[bytes, Depends(_reader(lambda settings: settings.request_bytes_max))]
ShardsBody = Annotated[bytes, Depends(_reader(lambda _: SHARDS_BYTES_MAX))]


def documented_body(model: str, *headers: RequestHeader, required: bool = True) -> dict[str, Any]:
    """The OpenAPI description of a body that is read by `Body`, and of headers that are read beside it."""
    schema = {"$ref": SCHEMA_OF.format(model=model)}
    body = {"requestBody": {"required": required, "content": {"application/json": {"schema": schema}}}}
    return {**body, "parameters": [header.documented for header in headers]} if headers else body
