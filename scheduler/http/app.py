"""The application: routes, error handlers and middleware."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import copy
from functools import cache, partial
from typing import Any

from fastapi import FastAPI, Request, Security
from fastapi.openapi.utils import get_openapi
from fastapi.security import HTTPBearer
from pydantic import TypeAdapter
from pydantic.json_schema import models_json_schema
from starlette.datastructures import State

from scheduler import __version__
from scheduler.http import static
from scheduler.http.auth.authorize import require_role
from scheduler.http.errors import SCHEMA_OF, ErrorBody, install_error_handlers
from scheduler.http.explain import idle
from scheduler.http.explain import route as explain
from scheduler.http.live import history, live
from scheduler.http.routes import (
    audit,
    bookings,
    cluster,
    events,
    health,
    jobs,
    logs,
    nodes,
    page_login,
    queues,
    recurring,
    report,
    shards,
    submit,
    tokens,
    usage,
    webhooks,
    whatif,
    workers,
)
from scheduler.http.runtime.submissions import Submissions
from scheduler.http.runtime.wall_time import WallTime
from scheduler.http.schemas.queue_requests import QueueChangeRequest, QueueFields, QueueRequest
from scheduler.http.schemas.requests import BatchRequest, BookingRequest, ChangeRequest, JobRequest, RecurringRequest
from scheduler.http.schemas.token_requests import PageLoginRequest, TokenRequest
from scheduler.http.schemas.worker_requests import ReportRequest, ShardsRequest
from scheduler.http.server.entry import Entry
from scheduler.http.server.throttle import Throttle
from scheduler.http.services import Services

_BODIES = (
    JobRequest,
    BatchRequest,
    ChangeRequest,
    RecurringRequest,
    BookingRequest,
    QueueRequest,
    QueueFields,
    QueueChangeRequest,
    ReportRequest,
    ShardsRequest,
    TokenRequest,
    PageLoginRequest,
)
_USER_ROUTERS = (
    *(submit, whatif, jobs, explain, idle, logs, events, nodes, bookings, queues, recurring, cluster),
    *(report, usage, webhooks, live, history, tokens, page_login, audit),
)


class _Users(HTTPBearer):
    """Lets callers in who have the role that the route needs, and describes how they show who they are.

    It is called for each request, so it is one dependency: FastAPI takes long to find what depends on what.
    """

    def __init__(self) -> None:
        described = "http.token, or the token of a user, of our own or of the issuer of OpenID Connect"
        super().__init__(auto_error=False, scheme_name="users", description=described)

    async def __call__(self, request: Request) -> None:  # type: ignore[override]  # no route is a web socket
        require_role(request)


def create_app(services: Services) -> Entry:
    """The complete application. Its lifespan must run: it connects the board's news to the event loop."""
    api = copy(routes())
    api.state = State()
    api.state.services = services
    api.state.live = live.Live(services)
    api.state.history = history.History(services)
    api.state.submissions = Submissions(partial(submit.serve_submissions, services))
    told = WallTime(api, services.ahead_seconds, services.booked_ahead_seconds)
    throttle = Throttle(services.settings.http, services.live_workers)
    return Entry(told, services.answers, services.access, throttle, services.audit)


@cache
def routes() -> FastAPI:
    """Every route and its description, without services; built once per process, since that takes long."""
    api = FastAPI(
        title="Elastic GPU scheduler",
        version=__version__,
        lifespan=_lifespan,
        docs_url=None,
        redoc_url=None,
        separate_input_output_schemas=False,
    )
    install_error_handlers(api)
    api.router.routes[:0] = static.ROUTES
    users: list[Any] = [Security(_Users())]
    for module in _USER_ROUTERS:
        api.include_router(module.router, dependencies=users)
    api.include_router(workers.router)
    api.include_router(shards.router)
    api.include_router(health.router)
    api.include_router(page_login.login_router)
    api.openapi = lambda: _openapi(api)  # type: ignore[method-assign]
    _build_routes(api)
    return api


@asynccontextmanager
async def _lifespan(api: FastAPI) -> AsyncIterator[None]:
    services: Services = api.state.services
    loop = asyncio.get_running_loop()
    services.hosts_bell.open(loop)
    services.events_bell.open(loop)
    services.board.subscribe(services.hosts_bell.ring)
    yield
    services.wake_all()
    await services.relay.close()
    services.shards.close()
    api.state.submissions.close()


def _build_routes(api: FastAPI) -> None:
    """Let FastAPI build its routes now rather than during the first request, while all others wait."""
    for route in api.routes:
        route.matches({"type": "http", "method": "GET", "path": "/nowhere", "root_path": ""})


def _openapi(api: FastAPI) -> dict[str, Any]:
    """FastAPI's description, with the bodies that the routes read by themselves, and with errors."""
    if api.openapi_schema is None:
        document = get_openapi(title=api.title, version=api.version, routes=api.routes)
        _, bodies = models_json_schema([(model, "validation") for model in _BODIES], ref_template=SCHEMA_OF)
        error = TypeAdapter(ErrorBody)
        _, errors = TypeAdapter.json_schemas([("error", "serialization", error)], ref_template=SCHEMA_OF)
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        schemas.update({**bodies.get("$defs", {}), **errors.get("$defs", {})})
        api.openapi_schema = document
    return api.openapi_schema
