"""Predictions for a job that would be submitted now, or have another priority. Nothing is stored or changed."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response
from typing_extensions import TypedDict

from scheduler.config.numbers import Priority
from scheduler.engine.whatif.forecast import Forecast, forecast_spec
from scheduler.engine.whatif.priority_change import Size, Sizes, StartForecasts, reprice
from scheduler.errors import Conflict
from scheduler.http.admission.owner import LOGIN, SubmitterDep
from scheduler.http.admission.pods import check_pods
from scheduler.http.admission.queues import into_queues
from scheduler.http.body import JobBody, documented_body
from scheduler.http.errors import RETRY_AFTER_SECONDS, ErrorCode, Refusal, documented
from scheduler.http.explain.explanation import explain
from scheduler.http.json import JsonResponse
from scheduler.http.routes.bookings import check_bookings
from scheduler.http.routes.jobs import unfinished
from scheduler.http.schemas.forecast import JOBS_MAX, ForecastView, forecast_view
from scheduler.http.schemas.parameters import JobNumber
from scheduler.http.schemas.requests import JobRequest, parse_request
from scheduler.http.services import Services, ServicesDep
from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.model.world import World

router = APIRouter(tags=["jobs"])

#: How long a client waits for its turn, and how long the search for a start may take then.
TURN_SECONDS = 10.0
ANSWER_SECONDS = 5.0


class WaitView(TypedDict):
    #: Why it would not start at once, for people; null if it would.
    wait: str | None
    #: The typed reason; null if it would start at once.
    reason: str | None
    #: The job that it would wait for or behind.
    for_job: int | None


class WhatIfView(WaitView):
    #: Name of the job.
    name: str
    #: Its priority.
    priority: int
    #: When, where and at whose cost it would start.
    forecast: ForecastView


class SizeView(TypedDict):
    #: Id of the job.
    id: int
    #: Its name.
    name: str
    #: Workers once nothing but the end of a job would change that; 0: it waits.
    as_it_is: int
    #: Workers with the other priority, once nothing but the end of a job would change that; 0: it waits.
    changed: int


class SizesView(TypedDict):
    #: Workers now.
    workers: int
    #: Workers at which it settles with its priority.
    as_it_is: int
    #: Workers at which it settles with the other priority; 0: it waits.
    changed: int
    #: Other jobs whose size would change.
    others: list[SizeView]
    #: Number of such jobs.
    others_count: int
    #: Whether the sizes settled within the time of the search.
    settled: bool


class StartsView(WaitView):
    #: When it starts with its priority.
    as_it_is: ForecastView
    #: When it would start with the other priority.
    changed: ForecastView


class PriorityView(TypedDict):
    #: Id of the job.
    id: int
    #: Its name.
    name: str
    #: Its state.
    state: str
    #: Its priority now.
    priority: int
    #: The other priority.
    changed_priority: int
    #: Effect on the start of a waiting job; null for a job with workers.
    start: StartsView | None
    #: Effect on the size of a job with workers; null for a waiting job.
    size: SizesView | None


@router.post(
    "/v1/whatif",
    response_model=WhatIfView,
    responses=documented(413, 415),
    openapi_extra=documented_body("JobRequest", LOGIN),
)
def what_if(services: ServicesDep, submitter: SubmitterDep, body: JobBody) -> Response:
    """Predict when, where and with how many workers a job would start, and which jobs would lose workers."""
    claimed = submitter.claim(parse_request(JobRequest, body).spec())
    [spec] = into_queues(services, submitter, {"": claimed}).values()
    check_bookings(services, {"": spec})
    check_pods(services.settings, {"": spec})
    with services.compute_slot.turn(TURN_SECONDS):
        world, now = _world(services), services.clock.now()
        found = forecast_spec(world, spec, now, services.settings, services.within(ANSWER_SECONDS))
    view: WhatIfView = {
        **_wait_view(found, world, services),
        "name": spec.name,
        "priority": spec.priority,
        "forecast": forecast_view(found),
    }
    return JsonResponse(view)


@router.get("/v1/jobs/{job_id}/whatif", response_model=PriorityView, responses=documented(404, 409))
def what_if_priority(
    services: ServicesDep,
    job_id: JobNumber,
    priority: Annotated[Priority, Query(description="The priority to try.")],
) -> Response:
    """Predict the effect of another priority on the job and on others, without changing it."""
    unfinished(services, job_id)
    with services.compute_slot.turn(TURN_SECONDS):
        world, now = _world(services), services.clock.now()
        job = _decided_on(world, JobId(job_id))
        found = reprice(world, job, priority, now, services.settings, services.within(ANSWER_SECONDS))
    view: PriorityView = {
        "id": job.id,
        "name": job.spec.name,
        "state": job.state,
        "priority": job.priority,
        "changed_priority": priority,
        "start": _starts_view(found, world, services) if isinstance(found, StartForecasts) else None,
        "size": _sizes_view(job, found) if isinstance(found, Sizes) else None,
    }
    return JsonResponse(view)


def _world(services: Services) -> World:
    world = services.board.world
    if world is None:
        headers = {"retry-after": str(RETRY_AFTER_SECONDS)}
        raise Refusal(
            503, ErrorCode.UNAVAILABLE, services.not_ready() or "the jobs are not loaded yet", headers=headers
        )
    return world


def _decided_on(world: World, job_id: JobId) -> Job:
    """The job, if its priority matters now. Raises `Conflict`, or `Refusal` (503) if no tick has taken it yet."""
    job = world.job(job_id)
    if job_id in world.held:
        raise Conflict(f"job {job_id} is held: its priority has no effect until it is resumed")
    if job is None:
        headers = {"retry-after": str(RETRY_AFTER_SECONDS)}
        raise Refusal(
            503, ErrorCode.UNAVAILABLE, f"job {job_id} has not been scheduled yet: try again", headers=headers
        )
    if job.state is JobState.SUSPENDED:
        raise Conflict(f"job {job_id} is suspended: its priority has no effect until it is resumed")
    if job.state is JobState.STOPPING:
        raise Conflict(f"job {job_id} is being stopped: try again when its workers have left")
    return job


def _wait_view(found: Forecast, world: World, services: Services) -> WaitView:
    job = found.job
    if job.state is not JobState.QUEUED:
        return {"wait": None, "reason": None, "for_job": None}
    wait = explain(job, world, services.settings.policy, found.at)["summary"]
    return {"wait": wait, "reason": job.wait_reason, "for_job": job.wait_for}


def _starts_view(found: StartForecasts, world: World, services: Services) -> StartsView:
    return {
        **_wait_view(found.changed, world, services),
        "as_it_is": forecast_view(found.as_it_is),
        "changed": forecast_view(found.changed),
    }


def _sizes_view(job: Job, found: Sizes) -> SizesView:
    return {
        "workers": len(job.wanted_workers),
        "as_it_is": found.own.as_it_is,
        "changed": found.own.changed,
        "others": [_size_view(size) for size in found.others[:JOBS_MAX]],
        "others_count": len(found.others),
        "settled": found.settled,
    }


def _size_view(size: Size) -> SizeView:
    return {"id": size.job_id, "name": size.name, "as_it_is": size.as_it_is, "changed": size.changed}
