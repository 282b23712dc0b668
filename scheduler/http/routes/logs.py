"""Output of workers, from any offset."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from scheduler.errors import NotFound
from scheduler.http.auth.authorize import IdentityDep, caller_of, check_reader
from scheduler.http.errors import Refusal, documented
from scheduler.http.routes.jobs import find_job
from scheduler.http.runtime.relay import FORWARDED
from scheduler.http.schemas.parameters import JobNumber
from scheduler.http.services import Services, ServicesDep
from scheduler.model.identity import IdentifiedBy, Identity
from scheduler.model.ids import JobId, WorkerId, worker_id
from scheduler.model.job import Job

router = APIRouter(tags=["jobs"])

BYTES_MAX = 4 * 1024 * 1024
OFFSET_MAX = 2**62


@router.get(
    "/v1/jobs/{job_id}/logs",
    response_class=Response,  # says nothing of the media type, so that errors stay JSON
    responses={
        200: {
            "content": {"text/plain": {"schema": {"type": "string"}}},
            "headers": {
                "X-Sched-Offset": {"schema": {"type": "integer"}, "description": "Offset of the next read."},
                "X-Sched-Worker": {"schema": {"type": "string"}, "description": "Worker that wrote the output."},
            },
        },
        **documented(404),
    },
)
async def read_logs(
    request: Request,
    services: ServicesDep,
    identity: IdentityDep,
    job_id: JobNumber,
    worker: Annotated[
        str | None, Query(max_length=40, pattern=r"^[0-9]{1,18}-[0-9]{1,18}$", description="Id of the worker.")
    ] = None,
    offset: Annotated[
        int, Query(ge=-OFFSET_MAX, le=OFFSET_MAX, description="Offset in bytes; a negative one counts from the end.")
    ] = 0,
    limit: Annotated[int, Query(ge=1, le=BYTES_MAX, description="Maximum number of bytes.")] = 65536,
) -> Response:
    """Read the output of a worker (default: rank 0, or the newest worker if none has a rank).

    Where jobs run as their users, only the user of the job and operators may.
    """
    here = await run_in_threadpool(_read, services, identity, job_id, worker, offset, limit)
    if here.body or services.term() is not None or FORWARDED in request.headers:
        return here
    # If a worker's pod is gone, the replica that led then has the log.
    path, authorization = f"{request.url.path}?{request.url.query}", _authorization(request, services)
    if authorization is None and not services.access.open_to_users:
        return here
    try:
        return await services.relay.fetch(path, authorization, forwarded=False)
    except Refusal:
        return here


def _authorization(request: Request, services: Services) -> str | None:
    """What lets the request in at another replica; for who came by the UNIX socket, the token that replicas share."""
    token, caller = services.settings.http.token, caller_of(request)
    if isinstance(caller, Identity) and caller.by is IdentifiedBy.LOGIN and token is not None:
        return f"Bearer {token}"
    return request.headers.get("authorization")


def _read(services: Services, identity: Identity, job_id: int, worker: str | None, offset: int, limit: int) -> Response:
    job = find_job(services, job_id)
    if services.accounts is not None:
        check_reader(identity, job.spec.user, f"the output of job {job.id}")
    chosen = _of_job(job, worker) if worker is not None else _default_worker(services, job)
    if chosen is None:
        return _answer(b"", 0, "")
    data, end = services.logs.read(chosen, offset, limit, nonce=job.nonce)
    return _answer(data, end, chosen)


def _of_job(job: Job, worker: str) -> WorkerId:
    # No worker exists yet from the job's next ordinal on.
    number, _, ordinal = worker.partition("-")
    if int(number) != job.id or not 1 <= int(ordinal) < job.next_ordinal:
        raise NotFound(f"job {job.id} has no worker {worker}")
    return worker_id(JobId(job.id), int(ordinal))


def _default_worker(services: Services, job: Job) -> WorkerId | None:
    first = next((w for w in job.workers if w.rank == 0), None) or (job.workers[0] if job.workers else None)
    if first is not None:
        return first.id
    if job.next_ordinal <= 1:
        return None
    # No worker lives: of the last ones, take the one that ended as rank 0, else the newest.
    recent = services.store.list_workers(job.id, max(0, job.next_ordinal - 1 - RECENT_WORKERS), RECENT_WORKERS)
    ranked = [w for w in recent if w.rank == 0]
    return (ranked or recent)[-1].id if recent else worker_id(job.id, job.next_ordinal - 1)


#: Workers that are searched for the last one that was rank 0.
RECENT_WORKERS = 100


def _answer(data: bytes, end: int, worker: str) -> Response:
    return Response(
        data,
        media_type="text/plain; charset=utf-8",
        headers={"x-sched-offset": str(end), "x-sched-worker": worker, "cache-control": "no-store"},
    )
