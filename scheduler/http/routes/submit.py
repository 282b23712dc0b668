"""New jobs, one by one or many at once."""

from typing import Annotated

from fastapi import APIRouter, Header, Request
from starlette.responses import Response
from typing_extensions import TypedDict

from scheduler.errors import InvalidInput
from scheduler.http.admission.export import keep_export
from scheduler.http.admission.owner import Submitter, SubmitterDep
from scheduler.http.admission.pods import check_pods
from scheduler.http.admission.queues import Placed, into_queues
from scheduler.http.admission.supported import check_policy
from scheduler.http.body import BatchBody, JobBody, documented_body
from scheduler.http.errors import documented
from scheduler.http.explain.feasible import warnings_for
from scheduler.http.json import JsonResponse
from scheduler.http.routes.batch import parse_batch
from scheduler.http.routes.bookings import check_bookings
from scheduler.http.runtime.audit import created
from scheduler.http.schemas.requests import JobRequest, parse_request
from scheduler.http.services import Services, ServicesDep
from scheduler.model.client_key import broken_key_rule
from scheduler.store.records import Submitted

router = APIRouter(tags=["jobs"])

IdempotencyKey = Annotated[
    str | None,
    Header(min_length=1, max_length=200, pattern=r"^[\x20-\x7e]+$", description="Same as `client_key`."),
]


class SubmittedView(TypedDict):
    #: Id of the job.
    id: int
    #: Why it cannot start on the present cluster, and the parts of its submitter's environment that are left out.
    warnings: list[str]


class BatchView(TypedDict):
    #: Ids of the jobs, in the order of the request.
    ids: list[int]


@router.post(
    "/v1/jobs",
    status_code=201,
    response_model=SubmittedView,
    responses={200: {"model": SubmittedView, "description": "Already submitted"}, **documented(413, 415)},
    openapi_extra=documented_body("JobRequest"),
)
def submit_job(
    request: Request,
    services: ServicesDep,
    submitter: SubmitterDep,
    body: JobBody,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Submit a job. A known client key returns status 200 and the id of the first job."""
    wanted = parse_request(JobRequest, body)
    if idempotency_key is not None:
        if wanted.client_key not in (None, idempotency_key):
            raise InvalidInput("client_key", "differs from the header Idempotency-Key: use only one of them")
        wanted.client_key = idempotency_key
    spec, left_out = keep_export(submitter.claim(wanted.spec()), services.settings)
    [submitted] = _submit(services, submitter, {"": spec})
    created(request, f"job {submitted.id}")
    if submitted.created:
        services.stored([submitted.id])
    view: SubmittedView = {"id": submitted.id, "warnings": left_out + warnings_for(spec, services.board.world)}
    return JsonResponse(view, status_code=201 if submitted.created else 200)


@router.post(
    "/v1/jobs/batch",
    status_code=201,
    response_model=BatchView,
    responses=documented(413, 415),
    openapi_extra=documented_body("BatchRequest"),
)
def submit_batch(request: Request, services: ServicesDep, submitter: SubmitterDep, body: BatchBody) -> Response:
    """Submit several jobs in one transaction: all of them or none."""
    settings = services.settings
    jobs = enumerate(submitter.claim_each(parse_batch(body, settings.http)))
    placed = {(place := f"jobs.{index}."): keep_export(spec, settings, place)[0] for index, spec in jobs}
    submitted = _submit(services, submitter, placed)
    ids: list[int] = [job.id for job in submitted]
    created(request, f"jobs {min(ids)} to {max(ids)}")
    services.stored([job.id for job in submitted if job.created])
    view: BatchView = {"ids": ids}
    return JsonResponse(view, status_code=201)


def _submit(services: Services, submitter: Submitter, specs: Placed) -> list[Submitted]:
    """Store the jobs that are new, once every rule allows them.

    A retry under a known client key gives the first job, although the rules may have changed since that was submitted.
    """
    _check_keys(specs)
    known = services.store.find_submitted(list(specs.values()))
    fresh = {place: spec for place, spec in specs.items() if spec.client_key not in known}
    stored: dict[str, Submitted] = {}
    if fresh:
        fresh = into_queues(services, submitter, fresh)
        check_bookings(services, fresh)
        check_policy(services.settings.policy, fresh)
        check_pods(services.settings, fresh)
        submitted = services.store.submit(list(fresh.values()), services.clock.now())
        stored = dict(zip(fresh, submitted, strict=True))
    again = {key: Submitted(job_id, created=False) for key, job_id in known.items()}
    return [stored.get(place) or again[spec.client_key or ""] for place, spec in specs.items()]


def _check_keys(specs: Placed) -> None:
    """Raise `InvalidInput` for a job whose key has a reserved prefix."""
    for place, spec in specs.items():
        if (rule := broken_key_rule(spec.client_key)) is not None:
            raise InvalidInput(f"{place}client_key", rule)
