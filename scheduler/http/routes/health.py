"""Health, readiness and metrics, for probes and Prometheus."""

from typing import Literal

from fastapi import APIRouter, Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from typing_extensions import TypedDict

from scheduler.http.auth.authorize import require_metrics
from scheduler.http.errors import ErrorCode, Refusal, documented
from scheduler.http.json import JsonResponse
from scheduler.http.services import ServicesDep

router = APIRouter(tags=["operation"])

METRICS_TYPES = ("text/plain", "application/openmetrics-text")


class HealthView(TypedDict):
    #: Always `ok`.
    status: str


class ReadyView(TypedDict):
    #: Always `ok`; otherwise the answer is 503.
    status: str
    #: leader: makes decisions; standby: follows the leader, and takes over when that one is gone.
    role: Literal["leader", "standby"]


@router.get("/healthz", response_model=HealthView, responses=documented())
async def healthz() -> Response:
    """Report that the process is alive."""
    view: HealthView = {"status": "ok"}
    return JsonResponse(view)


@router.get("/readyz", response_model=ReadyView, responses=documented())
async def readyz(services: ServicesDep) -> Response:
    """Report whether the jobs are loaded, and this daemon makes decisions or follows the leader."""
    reason = services.not_ready()
    if reason is not None:
        raise Refusal(503, ErrorCode.UNAVAILABLE, reason, headers={"retry-after": "1"})
    view: ReadyView = {"status": "ok", "role": "standby" if services.term() is None else "leader"}
    return JsonResponse(view)


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {kind: {"schema": {"type": "string"}} for kind in METRICS_TYPES}}, **documented()},
    dependencies=[Depends(require_metrics)],
)
async def metrics(request: Request, services: ServicesDep) -> Response:
    """Get metrics in the text format of Prometheus, or as OpenMetrics if accepted."""
    body, content_type = await run_in_threadpool(services.metrics, request.headers.get("accept", ""))
    return Response(body, headers={"content-type": content_type})
