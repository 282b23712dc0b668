"""docs/http-api.md: every route of the API, from the OpenAPI document that the daemon serves."""

from collections.abc import Iterator, Mapping
from typing import Any

from docs.generate.markdown import heading, sentence, table
from docs.generate.schemas import Schemas
from scheduler.http.app import routes
from scheduler.http.auth.rules import (
    ADMINISTER,
    ANYONE,
    CHANGE,
    OPERATE,
    READ,
    READ_HOSTS,
    READ_METRICS,
    RULES,
    SUBMIT,
    TRY,
    WORK,
)
from scheduler.http.errors import ErrorCode

_HEAD = """
The daemon listens at `http://127.0.0.1:8470` unless `http.host` and `http.port` say otherwise. It describes the same
API at `/openapi.json`.

Bodies and answers are JSON (`content-type: application/json`) in UTF-8, except where a route says otherwise. Times are
Unix seconds, durations are seconds. A body with a field that the API does not know is refused, so a misspelled name is
noticed. Later versions may add fields to answers.

## Who may call

| caller | sends |
|---|---|
| anyone | nothing |
| users | a bearer token: their own with a [role](users.md#roles), or `http.token`, an administrator's |
| Prometheus | the setting `http.metrics_token` as a bearer token, which opens only `/metrics` |
| the job's workers | their variable `SCHED_TOKEN` as a bearer token, which opens only calls of their own job |

A bearer token is sent as `Authorization: Bearer TOKEN`.

Each route names the least role that may call it. Viewers read; users submit jobs, and change their own; operators
change all jobs, nodes and bookings; administrators also create tokens and set queues. A daemon without tokens, as on
loopback, takes everybody for an administrator. A token that is missing, unknown, expired or revoked is answered with
401, a role that does not suffice, or what belongs to somebody else, with 403.

Requests from a web page of another origin are refused.

## Errors

Every error has the same body, `{"error": {"code": "conflict", "message": "…", "field": null}}`. `message` is one line
for people, `field` names the field that breaks a rule, as the client wrote it, and `code` is one of CODES.

STATUSES

A submission that got no answer, or 503, may be sent again with the same `client_key`: it is stored once.
"""
#: Errors that any route may answer; the page lists them once.
_COMMON = ("400", "401", "403", "422", "429", "503")
_CALLERS = {
    ANYONE: "anyone",
    READ: "viewers",
    SUBMIT: "users",
    TRY: "users",
    CHANGE: "users, and operators for what belongs to somebody else",
    OPERATE: "operators",
    ADMINISTER: "administrators",
    WORK: "operators, known by a token or their login, and the job's workers",
    READ_HOSTS: "viewers and the job's workers",
    READ_METRICS: "viewers and Prometheus",
}


def page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    document = routes().openapi()
    operations = [
        (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    yield heading("HTTP API") + _HEAD.replace("STATUSES", "\n".join(_statuses(operations))).replace(
        "CODES", ", ".join(f"`{code}`" for code in ErrorCode)
    )
    schemas = Schemas(document["components"]["schemas"])
    for tag in dict.fromkeys(operation["tags"][0] for _, _, operation in operations):
        yield f"## {sentence(tag)[:-1]}\n"
        for method, path, operation in operations:
            if operation["tags"][0] == tag:
                yield from _operation(method.upper(), path, operation, schemas)
    yield from schemas.lines()


def _statuses(operations: list[tuple[str, str, Mapping[str, Any]]]) -> Iterator[str]:
    """Every error status with what it means."""
    found = {
        status: answer["description"]
        for _, _, operation in operations
        for status, answer in operation["responses"].items()
        if status >= "400"
    }
    found["500"] = "Internal error; see the log of the daemon"
    rows = (
        (status, found[status], "any route" if status in (*_COMMON, "500") else "routes that list it")
        for status in sorted(found)
    )
    yield from table(("status", "meaning", "from"), rows)


def _operation(method: str, path: str, operation: Mapping[str, Any], schemas: Schemas) -> Iterator[str]:
    yield f"### `{method} {path}`\n"
    yield "\n\n".join(sentence(part) for part in operation["description"].split("\n\n")) + "\n"
    yield f"Callers: {callers(method, path)}.\n"
    if parameters := operation.get("parameters"):
        yield from table(("parameter", "in", "type", "meaning"), (_parameter(each, schemas) for each in parameters))
        yield ""
    if body := operation.get("requestBody"):
        need = "" if body.get("required") else " (may be left out)"
        yield f"Body: {schemas.text(body['content']['application/json']['schema'])}{need}.\n"
    yield from table(("status", "meaning", "answer"), _answers(operation, schemas))
    yield ""


def callers(method: str, path: str) -> str:
    """Who may call a route, by its rule."""
    return _CALLERS[RULES[method, path]]


def _parameter(each: Mapping[str, Any], schemas: Schemas) -> tuple[str, ...]:
    need = " (required)" if each.get("required") and each["in"] != "path" else ""
    return (
        f"`{each['name']}`",
        each["in"] + need,
        schemas.text(each["schema"]),
        sentence(each["description"]),
    )


def _answers(operation: Mapping[str, Any], schemas: Schemas) -> Iterator[tuple[str, ...]]:
    """All answers but the errors that any route may give."""
    for status, answer in sorted(operation["responses"].items()):
        if status in _COMMON:
            continue
        content = answer.get("content", {})
        bodies = [
            schemas.text(each["schema"]) if kind == "application/json" and each.get("schema") else f"`{kind}`"
            for kind, each in content.items()
        ]
        done = answer["description"] == "Successful Response"
        yield status, "Done" if done else answer["description"], ", ".join(bodies)
