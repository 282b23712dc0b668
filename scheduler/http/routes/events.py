"""Events: the history of the cluster and of jobs; read on with `after`, or wait for new ones."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from typing_extensions import TypedDict

from scheduler.http.auth.authorize import check_still_known
from scheduler.http.errors import documented
from scheduler.http.json import JsonResponse
from scheduler.http.schemas.parameters import SQL_ID_MAX, Limit, Wait
from scheduler.http.schemas.views import EventView, event_view
from scheduler.http.services import Services, ServicesDep
from scheduler.model.event import Event
from scheduler.model.ids import JobId

router = APIRouter(tags=["events"])


class EventPage(TypedDict):
    #: The events, oldest first.
    events: list[EventView]
    #: Value of `after` for the next page.
    next: int


@router.get("/v1/events", response_model=EventPage, responses=documented())
async def list_events(
    request: Request,
    services: ServicesDep,
    after: Annotated[
        int, Query(ge=-1, le=SQL_ID_MAX, description="Id of the last event seen. -1 returns the newest events only.")
    ] = 0,
    job: Annotated[int | None, Query(ge=1, le=SQL_ID_MAX, description="Only events of this job.")] = None,
    limit: Limit = 100,
    wait: Wait = 0.0,
) -> Response:
    """List events in order of time."""
    job_id = None if job is None else JobId(job)
    count = min(limit, services.settings.http.page_size_max)
    found = await _read_or_wait(services, after, job_id, count, wait)
    if wait > 0:
        check_still_known(request, services)
    page: EventPage = {
        "events": [event_view(event_id, event) for event_id, event in found],
        "next": found[-1][0] if found else max(after, 0),
    }
    return JsonResponse(page)


async def _read_or_wait(
    services: Services, after: int, job_id: JobId | None, count: int, wait: float
) -> list[tuple[int, Event]]:
    until = services.events_bell.time() + wait
    while True:
        # Listen before the look, so that an event between the look and the wait still wakes the request.
        with services.events_bell.listen(job_id) as ring:
            found = await run_in_threadpool(_read, services, after, job_id, count)
            if found or not await services.events_bell.rung(ring, until - services.events_bell.time()):
                return found


def _read(services: Services, after: int, job_id: JobId | None, count: int) -> list[tuple[int, Event]]:
    if after >= 0:
        return services.store.list_events(after, job_id, count)
    return services.store.list_events(None, job_id, count, descending=True)[::-1]
