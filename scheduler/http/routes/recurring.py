"""Recurring jobs: submitted again at every time that a cron expression names."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response
from typing_extensions import TypedDict

from scheduler.errors import InvalidInput, NotFound, UnreadableRow
from scheduler.http.admission.export import keep_export
from scheduler.http.admission.owner import LOGIN, SubmitterDep
from scheduler.http.admission.pods import check_pods
from scheduler.http.admission.queues import into_queues
from scheduler.http.admission.supported import check_policy
from scheduler.http.auth.authorize import IdentityDep, check_owner
from scheduler.http.body import JobBody, documented_body
from scheduler.http.errors import documented
from scheduler.http.explain.feasible import warnings_for
from scheduler.http.json import JsonResponse
from scheduler.http.runtime.audit import created
from scheduler.http.schemas.requests import RecurringRequest, parse_request
from scheduler.http.schemas.views import ExportView, export_view
from scheduler.http.services import Schedule, Services, ServicesDep

router = APIRouter(tags=["recurring jobs"])

RecurringPath = Annotated[
    str, Path(max_length=20, pattern=r"^r[0-9]{1,18}$", description="Id of the recurring job, such as r1.")
]


class RecurringView(TypedDict):
    #: Its id, such as r1.
    id: str
    cron: str
    timezone: str
    #: Name of its jobs.
    name: str
    user: str
    #: Program and arguments of its jobs.
    command: list[str]
    priority: int
    queue: str | None
    #: Fewest workers of its jobs.
    min_workers: int
    #: Most workers of its jobs.
    max_workers: int
    export: ExportView | None
    #: When it was created; unix seconds.
    created_at: float
    #: The newest time for which a job was submitted; null: none yet.
    last_run_at: float | None
    #: When it runs next; null: never.
    next_run_at: float | None
    #: Why no job was submitted for the time that is due, which is tried again; null: nothing is.
    refusal: str | None


class RecurringList(TypedDict):
    #: All recurring jobs.
    recurring: list[RecurringView]


class RecurringAccepted(TypedDict):
    #: Its id, such as r1.
    id: str
    #: When it runs first; null: never.
    next_run_at: float | None
    #: Why its jobs cannot start on the present cluster, and the parts of the environment that are left out.
    warnings: list[str]


class RecurringDeleted(TypedDict):
    #: Its id, such as r1.
    id: str


@router.post(
    "/v1/recurring",
    status_code=201,
    response_model=RecurringAccepted,
    responses=documented(409, 413, 415),
    openapi_extra=documented_body("RecurringRequest", LOGIN),
)
def add_recurring(request: Request, services: ServicesDep, submitter: SubmitterDep, body: JobBody) -> Response:
    """Create a recurring job. Runs missed while the daemon was down are replaced by a single one.

    A known client key returns the id of the first recurring job.
    """
    wanted = parse_request(RecurringRequest, body)
    spec, left_out = keep_export(submitter.claim(wanted.job.spec(), "job."), services.settings, "job.")
    [spec] = into_queues(services, submitter, {"job.": spec}).values()
    check_policy(services.settings.policy, {"job.": spec})
    check_pods(services.settings, {"job.": spec})
    if spec.client_key is not None:
        raise InvalidInput("job.client_key", "must not be given: each run of a recurring job has its own key")
    spec = replace(spec, client_key=wanted.client_key)
    schedule = services.recurrence.add(wanted.cron, wanted.timezone, spec, submitter.identity)
    created(request, f"recurring job r{schedule.recurring.id}")
    view: RecurringAccepted = {
        "id": f"r{schedule.recurring.id}",
        "next_run_at": schedule.next_run_at,
        "warnings": left_out + warnings_for(spec, services.board.world),
    }
    return JsonResponse(view, status_code=201)


@router.get("/v1/recurring", response_model=RecurringList, responses=documented())
def list_recurring(services: ServicesDep) -> Response:
    """List all recurring jobs."""
    view: RecurringList = {"recurring": [_view(schedule) for schedule in services.recurrence.list()]}
    return JsonResponse(view)


@router.get("/v1/recurring/{recurring_id}", response_model=RecurringView, responses=documented(404))
def show_recurring(services: ServicesDep, recurring_id: RecurringPath) -> Response:
    """Get a recurring job."""
    schedule = services.recurrence.get(int(recurring_id[1:]))
    if schedule is None:
        raise NotFound(f"recurring job {recurring_id} not found")
    return JsonResponse(_view(schedule))


@router.delete("/v1/recurring/{recurring_id}", response_model=RecurringDeleted, responses=documented(404))
def delete_recurring(services: ServicesDep, identity: IdentityDep, recurring_id: RecurringPath) -> Response:
    """Delete a recurring job. Jobs that it has submitted continue."""
    number = int(recurring_id[1:])
    owner = _owner(services, number)
    if owner is not None:
        check_owner(identity, owner, f"recurring job {recurring_id}")
    if not services.recurrence.delete(number):
        raise NotFound(f"recurring job {recurring_id} not found")
    view: RecurringDeleted = {"id": recurring_id}
    return JsonResponse(view)


def _owner(services: Services, number: int) -> str | None:
    """Whose the recurring job is, empty for one that cannot be read; None where there is none."""
    try:
        stored = services.store.get_recurring(number)
    except UnreadableRow:
        return ""
    return None if stored is None else stored.spec.user


def _view(schedule: Schedule) -> RecurringView:
    stored = schedule.recurring
    return {
        "id": f"r{stored.id}",
        "cron": stored.cron,
        "timezone": stored.timezone,
        "name": stored.spec.name,
        "user": stored.spec.user,
        "command": list(stored.spec.command),
        "priority": stored.spec.priority,
        "queue": stored.spec.queue or None,
        "min_workers": stored.spec.min_workers,
        "max_workers": stored.spec.max_workers,
        "export": export_view(stored.spec.export),
        "created_at": stored.created_at,
        "last_run_at": stored.last_run_at,
        "next_run_at": schedule.next_run_at,
        "refusal": stored.refusal,
    }
