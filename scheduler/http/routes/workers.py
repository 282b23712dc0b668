"""The calls of workers: discovery of the group's hosts, and their reports."""

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.responses import Response
from typing_extensions import TypedDict

from scheduler import bounds
from scheduler.engine.board import Known
from scheduler.errors import Conflict, InvalidInput
from scheduler.http.auth.authorize import (
    authorization_of,
    caller_of,
    check_still_known,
    may_work,
    refusal_of,
    unauthorized,
)
from scheduler.http.auth.stranger import Stranger
from scheduler.http.body import Body, documented_body
from scheduler.http.errors import documented
from scheduler.http.hosts import HostAnswer, unchanged, wants_json
from scheduler.http.json import JsonResponse
from scheduler.http.runtime.relay import FORWARDED, not_now
from scheduler.http.schemas.parameters import SQL_ID_MAX, JobNumber, Wait, WorkerPath
from scheduler.http.schemas.requests import parse_request
from scheduler.http.schemas.worker_requests import ReportRequest
from scheduler.http.services import Services, ServicesDep
from scheduler.model.ids import JobId, WorkerId
from scheduler.model.observation import WorkerReport

router = APIRouter(tags=["workers"])


class MemberView(TypedDict):
    #: Id of the worker.
    id: str
    #: Its rank.
    rank: int
    #: Address at which others reach it.
    host: str
    #: Slots that it holds.
    slots: int
    #: Where its rendezvous store listens, `host:port`; null: not known.
    endpoint: str | None
    #: Where it answers the others, `host:port`; null: not known.
    peer: str | None


class LeavingView(TypedDict):
    #: Id of the worker.
    id: str
    #: When it is killed; unix seconds.
    until: float | None


class HostsView(TypedDict):
    #: Id of the job.
    job: int
    #: Number of the published membership.
    generation: int
    #: Members in rank order.
    workers: list[MemberView]
    #: Where rank 0 serves the meeting of the others, `host:port`; null: not known.
    rendezvous: str | None
    #: Workers that were asked to leave.
    leaving: list[LeavingView]
    #: Fewest workers.
    min: int
    #: Most workers.
    max: int


class ReportAnswer(TypedDict):
    #: The published generation; 0: none.
    generation: int
    #: Whether the worker has been asked to leave.
    leave: bool
    #: State of the job.
    job_state: str


_HOSTS_HEADERS = {
    "ETag": {"schema": {"type": "string"}},
    "X-Sched-Generation": {"schema": {"type": "integer"}},
}


async def require_worker(request: Request, services: ServicesDep, job_id: JobNumber) -> None:
    """Check the worker token before the body is read."""
    if services.access.worker_may(authorization_of(request), JobId(job_id)) or may_work(caller_of(request)):
        return
    raise unauthorized("missing or invalid token: the worker token of this job is required")


async def require_reader(request: Request, services: ServicesDep, job_id: JobNumber) -> None:
    caller = caller_of(request)
    if isinstance(caller, Stranger) and not services.access.worker_may(authorization_of(request), JobId(job_id)):
        raise refusal_of(caller, ", or the worker token of this job")


@router.get(
    "/v1/jobs/{job_id}/discover_hosts",
    response_model=HostsView,
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "headers": _HOSTS_HEADERS},
        304: {"description": "No news", "headers": _HOSTS_HEADERS},
        **documented(404, 410),
    },
    dependencies=[Depends(require_reader)],
)
async def discover_hosts(
    request: Request,
    services: ServicesDep,
    job_id: JobNumber,
    wait: Wait = 0.0,
    generation: Annotated[
        int | None, Query(ge=0, le=SQL_ID_MAX, description="Generation that the client already has.")
    ] = None,
    accept: Annotated[str, Header(max_length=1000, description="`application/json` asks for JSON.")] = "",
    if_none_match: Annotated[
        str, Header(max_length=1000, description="ETag of an answer; if it is still current, the answer is 304.")
    ] = "",
) -> Response:
    """Get one `host:slots` per line, or with `Accept: application/json` everything a worker needs to join the group.

    503: no list is published now, as while the job starts. `wait=60&generation=0` waits for the first one.
    """
    job = JobId(job_id)
    if wait > 0:
        await _wait_for_another(services, job, generation, wait)
        if not isinstance(caller_of(request), Stranger):
            check_still_known(request, services)
    answer = services.answers.published(job, as_json=wants_json(accept.encode("latin-1", "replace")))
    if answer is None:
        raise services.answers.refusal(job)
    if if_none_match and unchanged(answer, if_none_match.encode("latin-1", "replace")):
        return _raw(answer, 304)
    return _raw(answer, 200)


async def _wait_for_another(services: Services, job: JobId, generation: int | None, seconds: float) -> None:
    """Wait until the published generation differs from the known one, the time is up, or the job has ended."""
    known = services.answers.generation(job) if generation is None else generation
    notifier = services.hosts_bell
    until = notifier.time() + seconds
    while True:
        with notifier.listen(job) as ring:
            if services.answers.generation(job) != known:
                return
            if known == 0 and services.answers.refusal(job).status != 503:
                return
            if not await notifier.rung(ring, until - notifier.time()):
                return


def _raw(answer: HostAnswer, status: int) -> Response:
    response = Response(answer.body if status == 200 else None, status_code=status)
    response.raw_headers = list(answer.headers if status == 200 else answer.headers_unchanged)
    return response


@router.post(
    "/v1/jobs/{job_id}/workers/{worker_id}",
    response_model=ReportAnswer,
    responses=documented(404, 409, 413, 415),
    openapi_extra=documented_body("ReportRequest"),
    dependencies=[Depends(require_worker)],
)
async def report(
    request: Request, services: ServicesDep, job_id: JobNumber, worker_id: WorkerPath, body: Body
) -> Response:
    """Report the state of a worker, repeated at every heartbeat. 409: the worker is fenced and must exit."""
    job, worker = worker_of(job_id, worker_id)
    parsed = parse_request(ReportRequest, body)
    if services.term() is None and services.leader() is not None:
        headers = request.headers
        return await services.relay.pass_on(
            request.url.path, body, headers.get("authorization"), forwarded=FORWARDED in headers
        )
    posting = services.board.posting(job)
    if posting is None:
        raise _without_workers(services, job, worker)
    if worker not in posting.live:
        raise _fenced(services, Conflict(f"worker {worker} is fenced: it does not belong to job {job} (any more)"))
    if services.reports.put(_to_report(parsed, job, worker, services)):
        services.wake()
    view: ReportAnswer = {
        "generation": posting.generation,
        "leave": worker in posting.leaving,
        "job_state": posting.state,
    }
    return JsonResponse(view)


def worker_of(job_id: int, worker_id: str) -> tuple[JobId, WorkerId]:
    """The job and the worker that a path names. Raises `InvalidInput` for a worker of another job."""
    job, worker = JobId(job_id), WorkerId(worker_id)
    if worker.partition("-")[0] != str(job):
        raise InvalidInput("worker_id", f"{worker} is not a worker of job {job}")
    return job, worker


def _without_workers(services: Services, job: JobId, worker: WorkerId) -> Exception:
    """A worker of a job without workers is as fenced as one that was replaced; so is one of a queued job."""
    refusal = services.answers.refusal(job)
    match services.board.known(job):
        case Known.ENDED | Known.WAITING:
            return _fenced(services, Conflict(f"worker {worker} is fenced: {refusal}"))
        case Known.UNKNOWN:
            return _fenced(services, refusal)
        case Known.NOT_LOADED | Known.UNREADABLE:
            return refusal


def _fenced(services: Services, end: Exception) -> Exception:
    """The answer that ends a worker, where no other daemon can lead by now: that one may have started it."""
    return end if services.leads() else not_now("this replica may not lead any more, and does not know the worker")


def _to_report(parsed: ReportRequest, job: JobId, worker: WorkerId, services: Services) -> WorkerReport:
    now, committed_at, saved_seconds_ago = services.clock.now(), parsed.last_commit_at, parsed.checkpoint_seconds_ago
    if committed_at is not None:  # by the clock of the worker's machine
        committed_at = min(committed_at - services.ahead_seconds(), now)
    return WorkerReport(
        worker_id=worker,
        job_id=job,
        received_at=now,
        generation=parsed.generation,
        ready=parsed.ready,
        endpoint=parsed.endpoint,
        peer=parsed.peer,
        agreed=None if parsed.agreed is None else parsed.agreed.agreed(),
        missed=None if parsed.missed is None else parsed.missed.missed(),
        step=parsed.step,
        epoch=parsed.epoch,
        samples_per_second=parsed.samples_per_second,
        last_commit_at=committed_at,
        last_checkpoint_at=None if saved_seconds_ago is None else bounds.MOMENT.nearest(now - saved_seconds_ago),
        resize_seconds=parsed.resize_seconds,
        fraction=parsed.fraction,
        efficiency=parsed.efficiency,
        metrics=tuple(sorted(parsed.metrics.items())),
    )
