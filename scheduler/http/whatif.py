"""When a job would start if it were submitted now. Nothing is stored, and nothing changes."""

from fastapi import APIRouter
from starlette.responses import Response
from typing_extensions import TypedDict

from scheduler.engine.forecast import forecast_spec
from scheduler.http.body import Body, documented_body
from scheduler.http.bookings import check_bookings
from scheduler.http.errors import RETRY_AFTER_SECONDS, ErrorCode, Refusal, documented
from scheduler.http.explain import explain
from scheduler.http.forecast import ForecastView, forecast_view
from scheduler.http.json import JsonResponse
from scheduler.http.requests import JobRequest, parse_request
from scheduler.http.services import Use
from scheduler.model.job import JobState

router = APIRouter(tags=["jobs"])

#: How long a client waits for its turn, and how long the search for a start may take then.
TURN_SECONDS = 10.0
ANSWER_SECONDS = 5.0


class WhatIfView(TypedDict):
    name: str
    priority: int
    #: Why it would not start at once, for people and typed; null where it would.
    wait: str | None
    reason: str | None
    #: The job that it would wait for or behind.
    for_job: int | None
    forecast: ForecastView


@router.post(
    "/v1/whatif",
    response_model=WhatIfView,
    responses=documented(413, 415),
    openapi_extra=documented_body("JobRequest"),
)
def what_if(services: Use, body: Body) -> Response:
    """When, where and at what size the job would start, and who would lose workers for it. It is not submitted."""
    spec = parse_request(JobRequest, body).spec()
    check_bookings(services, [spec])
    with services.questions.turn(TURN_SECONDS):
        world, now = services.board.world, services.clock.now()
        if world is None:
            headers = {"retry-after": str(RETRY_AFTER_SECONDS)}
            message = services.not_ready() or "the jobs are not loaded yet"
            raise Refusal(503, ErrorCode.UNAVAILABLE, message, headers=headers)
        in_time = services.within(ANSWER_SECONDS)
        found = forecast_spec(world, spec, now, services.settings, in_time)
    job = found.job
    waits = job.state is JobState.QUEUED
    view: WhatIfView = {
        "name": spec.name,
        "priority": spec.priority,
        "wait": explain(job, world, services.settings.policy, now)["summary"] if waits else None,
        "reason": job.wait_reason if waits else None,
        "for_job": job.wait_for if waits else None,
        "forecast": forecast_view(found),
    }
    return JsonResponse(view)
