"""Jobs: reading them, and requests about them."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response
from typing_extensions import TypedDict

from scheduler.errors import Conflict, InvalidInput, NotFound
from scheduler.http.admission.queues import check_new_priority
from scheduler.http.auth.authorize import IdentityDep, check_owner, check_role
from scheduler.http.body import Body, documented_body
from scheduler.http.errors import documented
from scheduler.http.json import JsonResponse
from scheduler.http.schemas.data_views import DataProgressView, data_progress_view
from scheduler.http.schemas.parameters import LINE, SQL_ID_MAX, JobNumber, Limit, QueueWithin, split_label
from scheduler.http.schemas.requests import ChangeRequest, parse_request
from scheduler.http.schemas.unreadable import UnreadableView, unreadable_views
from scheduler.http.schemas.views import JobDetail, JobView, WorkerView, job_detail, job_view, worker_view
from scheduler.http.services import Services, ServicesDep
from scheduler.model.identity import Identity, Role
from scheduler.model.ids import JobId
from scheduler.model.intent import Intent, IntentKind
from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.store.records import JobFilter

router = APIRouter(tags=["jobs"])


class JobPage(TypedDict):
    #: The jobs, in the requested order.
    jobs: list[JobView]
    #: Jobs of this page that cannot be read from the database; they stay as they are until they are repaired.
    unreadable: list[UnreadableView]
    #: Where the next page starts; null: there is none.
    next: int | None


class WorkerPage(TypedDict):
    #: The workers, oldest first.
    workers: list[WorkerView]
    #: Workers of this page that cannot be read from the database.
    unreadable: list[UnreadableView]
    #: Where the next page starts; null: there is none.
    next: int | None


class AcceptedView(TypedDict):
    #: Id of the job.
    id: int


@router.get("/v1/jobs", response_model=JobPage, responses=documented())
def list_jobs(
    services: ServicesDep,
    state: Annotated[
        list[JobState] | None, Query(max_length=20, description="Only jobs in this state; repeatable.")
    ] = None,
    name: Annotated[str | None, Query(max_length=128, pattern=LINE, description="Only jobs of this name.")] = None,
    user: Annotated[str | None, Query(max_length=128, pattern=LINE, description="Only jobs of this user.")] = None,
    queue: QueueWithin = None,
    label: Annotated[
        list[str] | None, Query(max_length=20, description="Only jobs with this label, key=value; repeatable.")
    ] = None,
    active: Annotated[bool, Query(description="Only jobs that have not ended.")] = False,
    after: Annotated[int | None, Query(ge=0, le=SQL_ID_MAX, description="Id of the last job seen.")] = None,
    limit: Limit = 100,
    order: Annotated[Literal["asc", "desc"], Query(description="By id, ascending or descending.")] = "asc",
) -> Response:
    """List jobs by id, in pages."""
    wanted = JobFilter(
        states=_states(state, active=active),
        name=name,
        user=user,
        queue=queue,
        labels=tuple(split_label(text) for text in label or ()),
    )
    if active and state and not wanted.states:
        return JsonResponse({"jobs": [], "unreadable": [], "next": None})
    count = min(limit, services.settings.http.page_size_max)
    found = services.store.page_of_jobs(wanted, after, count, descending=order == "desc")
    page: JobPage = {
        "jobs": [job_view(newest(services, job), services.reports) for job in found.jobs],
        "unreadable": unreadable_views(found.unreadable),
        "next": found.next,
    }
    return JsonResponse(page)


def _states(named: list[JobState] | None, *, active: bool) -> tuple[JobState, ...]:
    states = tuple(named or ())
    if not active:
        return states
    present = tuple(state for state in JobState if not state.terminal)
    return tuple(state for state in states if state in present) if states else present


@router.get("/v1/jobs/{job_id}", response_model=JobDetail, responses=documented(404))
def show_job(services: ServicesDep, job_id: JobNumber) -> Response:
    """Get a job with its live workers."""
    job = find_job(services, job_id)
    return JsonResponse(job_detail(job, services.reports, _data_progress(services, job)))


def _data_progress(services: Services, job: Job) -> DataProgressView | None:
    """Progress of the data set, from the store, since workers may call any replica."""
    queue = services.store.read_queues([job.id]).get(job.id) if job.spec.data is not None else None
    if queue is None:
        return None
    queue.expire(services.clock.now(), services.shards.heard_since())  # in the store, the next call does so
    set_aside = services.store.list_set_aside(job.id) if queue.set_aside else []
    return data_progress_view(job.id, queue, set_aside)


@router.get("/v1/jobs/{job_id}/workers", response_model=WorkerPage, responses=documented(404))
def list_workers(
    services: ServicesDep,
    job_id: JobNumber,
    after: Annotated[int, Query(ge=0, le=SQL_ID_MAX, description="Ordinal of the last worker seen.")] = 0,
    limit: Limit = 100,
) -> Response:
    """List all workers that the job has had, oldest first."""
    find_job(services, job_id)
    count = min(limit, services.settings.http.page_size_max)
    found = services.store.page_of_workers(JobId(job_id), after, count)
    page: WorkerPage = {
        "workers": [worker_view(worker) for worker in found.workers],
        "unreadable": unreadable_views(found.unreadable),
        "next": found.next,
    }
    return JsonResponse(page)


@router.patch(
    "/v1/jobs/{job_id}",
    status_code=202,
    response_model=AcceptedView,
    responses=documented(404, 409, 413, 415),
    openapi_extra=documented_body("ChangeRequest"),
)
def change_job(services: ServicesDep, identity: IdentityDep, job_id: JobNumber, body: Body) -> Response:
    """Request a new priority or new bounds."""
    request = parse_request(ChangeRequest, body)
    job = _changeable(services, identity, job_id)
    low = job.min_workers if request.min_workers is None else request.min_workers
    high = job.max_workers if request.max_workers is None else request.max_workers
    if low > high:
        field = "max_workers" if request.min_workers is None else "min_workers"
        raise InvalidInput(field, f"min_workers {low} must not exceed max_workers {high}")
    if request.priority is not None:
        check_new_priority(services, job.spec.queue, request.priority)
    services.store.add_intents(_intents(request, job.id, services.clock.now()))
    return _accepted(services, job)


def _intents(request: ChangeRequest, job_id: JobId, now: float) -> list[Intent]:
    low, high = request.min_workers, request.max_workers
    asked = []
    if request.priority is not None:
        asked.append(Intent(0, IntentKind.PRIORITY, now, job_id, priority=request.priority))
    if low is not None or high is not None:
        asked.append(Intent(0, IntentKind.SCALE, now, job_id, min_workers=low, max_workers=high))
    return asked


@router.post("/v1/jobs/{job_id}/cancel", status_code=202, response_model=AcceptedView, responses=documented(404, 409))
def cancel_job(services: ServicesDep, identity: IdentityDep, job_id: JobNumber) -> Response:
    """Request cancellation. The workers get their grace period."""
    return _ask(services, _changeable(services, identity, job_id), IntentKind.CANCEL)


@router.post("/v1/jobs/{job_id}/suspend", status_code=202, response_model=AcceptedView, responses=documented(404, 409))
def suspend_job(services: ServicesDep, identity: IdentityDep, job_id: JobNumber) -> Response:
    """Request suspension: the job is stopped and kept until it is resumed."""
    return _ask(services, _changeable(services, identity, job_id), IntentKind.SUSPEND)


@router.post("/v1/jobs/{job_id}/resume", status_code=202, response_model=AcceptedView, responses=documented(404, 409))
def resume_job(services: ServicesDep, identity: IdentityDep, job_id: JobNumber) -> Response:
    """Request that a suspended job goes back to the queue, or that decisions look at a held job again.

    A held job is resumed by operators, since the scheduler has failed while it dealt with it.
    """
    job = _changeable(services, identity, job_id)
    if job.state is JobState.HELD:
        check_role(identity, Role.OPERATOR, f"job {job_id} is held: to resume it")
    return _ask(services, job, IntentKind.RESUME)


def find_job(services: Services, number: int) -> Job:
    """The job as it is now. Raises `NotFound`."""
    job_id = JobId(number)
    world = services.board.world
    job = world.job(job_id) if world is not None else None
    job = job or services.store.get_job(job_id)
    if job is None:
        raise NotFound(f"job {number} not found")
    return job


def newest(services: Services, job: Job) -> Job:
    """The engine's version of a job that was read from SQL, if that is newer."""
    world = services.board.world
    known = world.job(job.id) if world is not None else None
    return known if known is not None and known.version >= job.version else job


def unfinished(services: Services, number: int) -> Job:
    """The job. Raises `NotFound`, or `Conflict` if it has ended."""
    job = find_job(services, number)
    if job.state.terminal:
        raise Conflict(f"job {number} has already ended ({job.state})")
    return job


def _changeable(services: Services, identity: Identity, number: int) -> Job:
    """The job, which the caller may change. Raises as `unfinished`, and 403 for that of another user."""
    job = unfinished(services, number)
    check_owner(identity, job.spec.user, f"job {number}")
    return job


def _ask(services: Services, job: Job, kind: IntentKind) -> Response:
    services.store.add_intent(kind, services.clock.now(), job_id=job.id)
    return _accepted(services, job)


def _accepted(services: Services, job: Job) -> Response:
    services.wake()
    view: AcceptedView = {"id": job.id}
    return JsonResponse(view, status_code=202)
