"""Errors on the wire: one format for all of them, with one clear line for people."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from typing_extensions import TypedDict

from scheduler.errors import (
    Conflict,
    InvalidInput,
    LimitReached,
    NotFound,
    StoreError,
    UnreadableRow,
    UserError,
    broken_rule,
)
from scheduler.http.json import JsonResponse

log = structlog.get_logger(__name__)

#: Retry hint for a client that met a full or locked database.
RETRY_AFTER_SECONDS = 1
#: Retry hint for a limit on what is stored, which nobody knows when there is room below.
LIMIT_RETRY_AFTER_SECONDS = 60
#: Retry hint for an unreadable row, which somebody has to repair first.
UNREADABLE_RETRY_AFTER_SECONDS = 60


#: Where the description of the API has a model.
SCHEMA_OF = "#/components/schemas/{model}"


class ErrorCode(StrEnum):
    NOT_FOUND = "not_found"
    INVALID = "invalid"
    CONFLICT = "conflict"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    TOO_LARGE = "too_large"
    TOO_MANY = "too_many"
    TIMEOUT = "timeout"
    UNAVAILABLE = "unavailable"
    INTERNAL = "internal"


class ErrorDetail(TypedDict):
    #: Kind of error.
    code: ErrorCode
    #: One line for people.
    message: str
    #: The field that breaks a rule; null if none does.
    field: str | None


class ErrorBody(TypedDict):
    #: The error.
    error: ErrorDetail


class Refusal(UserError):
    """A refused request: it is answered with this status and has no other effect."""

    def __init__(
        self,
        status: int,
        code: ErrorCode,
        message: str,
        *,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.field = field
        self.headers = dict(headers or {})


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route with these errors, and those of invalid input and of an unreachable store."""
    texts = {
        400: "Malformed request",
        401: "Missing or invalid token",
        403: "Origin, role or owner not allowed",
        404: "Not found",
        409: "The current state does not allow the request",
        410: "The job has ended",
        413: "Body too large",
        415: "The content type is not JSON",
        422: "Invalid field; `field` names it",
        429: "Too many requests; try again after `Retry-After`",
        503: "Temporarily unavailable; try again",
    }
    wanted = sorted({400, 401, 403, 422, 429, 503, *statuses})
    # Named, not given as a model: FastAPI would build one for each status of each route, at every start.
    schema = {"$ref": SCHEMA_OF.format(model=ErrorBody.__name__)}
    content = {"application/json": {"schema": schema}}
    return {status: {"description": texts[status], "content": content} for status in wanted}


def error_response(
    status: int,
    code: ErrorCode,
    message: str,
    field: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    return JsonResponse(error_body(code, message, field), status_code=status, headers=dict(headers or {}))


def error_body(code: ErrorCode, message: str, field: str | None = None) -> ErrorBody:
    """The body of an error, with its message in one line."""
    return {"error": {"code": code, "message": " ".join(message.split()), "field": field}}


def invalid_input(error: ValidationError, prefix: Sequence[str | int] = ()) -> InvalidInput:
    """The first broken rule, with the field as the sender wrote it."""
    first = error.errors(include_url=False, include_context=False)[0]
    return InvalidInput(_field_name((*prefix, *first["loc"])), broken_rule(first))


def _field_name(location: Sequence[str | int]) -> str:
    # A mapping's key is arbitrary text from the sender; only readable characters are quoted.
    return ".".join(str(part)[:100] for part in location if part != "[key]") or "body"


def _unavailable(error: StoreError) -> Response:
    log.warning("store unavailable", error=str(error))
    headers = {"retry-after": str(RETRY_AFTER_SECONDS)}
    return error_response(503, ErrorCode.UNAVAILABLE, str(error), headers=headers)


def _unreadable(error: UnreadableRow) -> Response:
    headers = {"retry-after": str(UNREADABLE_RETRY_AFTER_SECONDS)}
    return error_response(503, ErrorCode.UNAVAILABLE, str(error), headers=headers)


def _too_many(error: LimitReached) -> Response:
    headers = {"retry-after": str(LIMIT_RETRY_AFTER_SECONDS)}
    return error_response(429, ErrorCode.TOO_MANY, str(error), headers=headers)


def _bad_parameter(error: RequestValidationError) -> Response:
    first = error.errors()[0]
    field = _field_name(first["loc"][1:] or first["loc"])
    return error_response(422, ErrorCode.INVALID, f"{field}: {broken_rule(first)}", field)


def _http_error(error: HTTPException) -> Response:
    code = ErrorCode.NOT_FOUND if error.status_code == 404 else ErrorCode.INVALID
    return error_response(error.status_code, code, str(error.detail), headers=error.headers)


def _defect(error: Exception) -> Response:
    # The server logs its trace; it is of no use to the client.
    message = f"internal error ({type(error).__name__}): see the log of the daemon"
    return error_response(500, ErrorCode.INTERNAL, message)


#: The answer to each error of the tree, of FastAPI and of Starlette; the nearest class counts.
_ANSWERS: dict[type[Exception], Callable[[Any], Response]] = {
    Refusal: lambda error: error_response(error.status, error.code, str(error), error.field, error.headers),
    InvalidInput: lambda error: error_response(422, ErrorCode.INVALID, str(error), error.field),
    NotFound: lambda error: error_response(404, ErrorCode.NOT_FOUND, str(error)),
    Conflict: lambda error: error_response(409, ErrorCode.CONFLICT, str(error)),
    # Nobody reads it.
    ClientDisconnect: lambda error: error_response(400, ErrorCode.INVALID, "the body ended early"),
    LimitReached: _too_many,
    UnreadableRow: _unreadable,
    StoreError: _unavailable,
    RequestValidationError: _bad_parameter,
    HTTPException: _http_error,
    Exception: _defect,
}


def install_error_handlers(app: FastAPI) -> None:
    """Answer every error with `ErrorBody`."""
    for kind, answer in _ANSWERS.items():
        app.add_exception_handler(kind, _handler(answer))


def _handler(answer: Callable[[Any], Response]) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def handle(_: Request, error: Exception) -> Response:
        return answer(error)

    return handle
