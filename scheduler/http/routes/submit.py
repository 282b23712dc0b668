"""New jobs, one by one or many at once."""

from collections.abc import Sequence

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from typing_extensions import TypedDict

from scheduler.errors import InvalidInput, UserError
from scheduler.http.admission.export import keep_export
from scheduler.http.admission.owner import LOGIN, SubmitterDep, submitter_of
from scheduler.http.admission.together import Asked, Outcome, store_together
from scheduler.http.body import BatchBody, documented_body, job_body
from scheduler.http.errors import documented
from scheduler.http.explain.feasible import warnings_for
from scheduler.http.json import JsonResponse
from scheduler.http.routes.batch import parse_batch
from scheduler.http.runtime.audit import created
from scheduler.http.runtime.submissions import Answer, Submission, Submissions
from scheduler.http.schemas.headers import RequestHeader
from scheduler.http.schemas.requests import JobRequest, parse_request
from scheduler.http.services import Services, ServicesDep, services_of

router = APIRouter(tags=["jobs"])

IDEMPOTENCY_KEY = RequestHeader(
    "idempotency-key", "Same as `client_key`.", r"^[\x20-\x7e]+$", length_min=1, length_max=200
)


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
    openapi_extra=documented_body("JobRequest", IDEMPOTENCY_KEY, LOGIN),
)
async def submit_job(request: Request) -> Response:
    """Submit a job. A known client key returns status 200 and the id of the first job."""
    # It takes from the request what it needs: FastAPI takes longer to find that than all the rest does.
    submitter, key = submitter_of(request), IDEMPOTENCY_KEY.sent_in(request)
    async with job_body(request) as body:
        answer = await _submitted(request, Submission(submitter, body, key))
    created(request, answer.job)
    return answer.response


async def _submitted(request: Request, submission: Submission) -> Answer:
    """Raises what the request is refused by."""
    if not submission.submitter.looked_up:
        submissions: Submissions = request.app.state.submissions
        return await submissions.submit(submission)
    # That may take long: alone, so that nobody else waits for it.
    [outcome] = await run_in_threadpool(serve_submissions, services_of(request), [submission])
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


@router.post(
    "/v1/jobs/batch",
    status_code=201,
    response_model=BatchView,
    responses=documented(413, 415),
    openapi_extra=documented_body("BatchRequest", LOGIN),
)
def submit_batch(request: Request, services: ServicesDep, submitter: SubmitterDep, body: BatchBody) -> Response:
    """Submit several jobs in one transaction: all of them or none."""
    settings = services.settings
    jobs = enumerate(submitter.claim_each(parse_batch(body, settings.http)))
    placed = {(place := f"jobs.{index}."): keep_export(spec, settings, place)[0] for index, spec in jobs}
    [outcome] = store_together(services, [Asked(submitter, placed)])
    if isinstance(outcome, UserError):
        raise outcome
    ids: list[int] = [job.id for job in outcome]
    created(request, f"jobs {min(ids)} to {max(ids)}")
    view: BatchView = {"ids": ids}
    return JsonResponse(view, status_code=201)


def serve_submissions(services: Services, submissions: Sequence[Submission]) -> list[Answer | Exception]:
    """Answer requests that submit a job each, together: each is stored, or told why not."""
    outcomes: list[Answer | Exception | None] = []
    read: list[tuple[Asked, list[str]]] = []
    for submission in submissions:
        try:
            read.append(_read(services, submission))
        except Exception as refused:  # whatever it is: it is no matter of the others
            outcomes.append(refused)
        else:
            outcomes.append(None)
    stored = iter(zip(read, store_together(services, [asked for asked, _ in read]), strict=True))
    return [_answer(services, *next(stored)) if outcome is None else outcome for outcome in outcomes]


def _read(services: Services, submission: Submission) -> tuple[Asked, list[str]]:
    """The job that is asked for, and warnings about what is left out of it. Raises what it is refused by."""
    wanted = parse_request(JobRequest, submission.body)
    if submission.key is not None:
        if wanted.client_key not in (None, submission.key):
            raise InvalidInput("client_key", "differs from the header Idempotency-Key: use only one of them")
        wanted.client_key = submission.key
    spec, left_out = keep_export(submission.submitter.claim(wanted.spec()), services.settings)
    return Asked(submission.submitter, {"": spec}), left_out


def _answer(services: Services, read: tuple[Asked, list[str]], outcome: Outcome) -> Answer | UserError:
    if isinstance(outcome, UserError):
        return outcome
    asked, left_out = read
    [submitted] = outcome
    warnings = left_out + warnings_for(asked.specs[""], services.board.world)
    view: SubmittedView = {"id": submitted.id, "warnings": warnings}
    return Answer(JsonResponse(view, status_code=201 if submitted.created else 200), f"job {submitted.id}")
