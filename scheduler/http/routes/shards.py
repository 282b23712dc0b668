"""The call of workers that take their job's data in shards."""

import math

from fastapi import APIRouter, Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from typing_extensions import TypedDict

from scheduler.http.auth.authorize import authorization_of
from scheduler.http.body import ShardsBody, documented_body
from scheduler.http.errors import documented
from scheduler.http.json import JsonResponse
from scheduler.http.routes.workers import require_worker, worker_of
from scheduler.http.schemas.parameters import JobNumber, WorkerPath
from scheduler.http.schemas.requests import parse_request
from scheduler.http.schemas.worker_requests import ShardsRequest
from scheduler.http.services import Services, ServicesDep
from scheduler.model.ids import JobId, WorkerId, ordinal_of
from scheduler.model.ranges import Ranges
from scheduler.model.shard_calls import ReaderKey, ShardCall
from scheduler.store.records import ShardsAsked, ShardsGiven

router = APIRouter(tags=["workers"])

#: Larger ones are parsed beside the event loop.
ON_LOOP_BYTES_MAX = 16 * 1024


class ShardsAnswer(TypedDict):
    #: Position, epoch and shard of each new shard of the reader; of all that it holds if the call is a repeat.
    given: list[list[int]]
    #: Positions that it holds, as spans [first, end).
    held: list[list[int]]
    #: Positions that it reported as done but no longer holds: their results must be discarded.
    refused: list[list[int]]
    #: Whether nothing is left to do or to wait for.
    end: bool
    #: Whether the worker was asked to leave: it gets nothing new.
    leave: bool
    #: Time until the next call: a reader that is silent for longer loses its shards, or its worker counts as hung.
    lease_seconds: float
    #: The data set as declared.
    shards: int
    #: Epochs of the data set.
    epochs: int


@router.post(
    "/v1/jobs/{job_id}/workers/{worker_id}/shards",
    response_model=ShardsAnswer,
    responses=documented(404, 409, 413, 415),
    openapi_extra=documented_body("ShardsRequest"),
    dependencies=[Depends(require_worker)],
)
async def exchange_shards(
    request: Request, services: ServicesDep, job_id: JobNumber, worker_id: WorkerPath, body: ShardsBody
) -> Response:
    """Report shards and lease others in one durable step, on any replica. Each call renews the leases that are held.

    409: the worker is fenced and must exit. 404: the job has not declared data.
    """
    job, worker = worker_of(job_id, worker_id)
    large = len(body) > ON_LOOP_BYTES_MAX
    call = await run_in_threadpool(_call, worker, body) if large else _call(worker, body)
    nonce = services.access.worker_nonce(authorization_of(request), job)
    given = await services.shards.exchange(ShardsAsked(job, worker, call, nonce))
    return JsonResponse(_view(given, _silence_seconds_max(services, job, given)))


def _call(worker: WorkerId, body: bytes) -> ShardCall:
    parsed = parse_request(ShardsRequest, body)
    return ShardCall(
        ReaderKey(ordinal_of(worker), parsed.reader),
        parsed.sequence,
        _ranges(parsed.done),
        _ranges(parsed.failed),
        _ranges(parsed.returned),
        parsed.want,
        parsed.detail,
    )


def _silence_seconds_max(services: Services, job_id: JobId, given: ShardsGiven) -> float:
    """How long the reader may be silent, as far as this replica knows."""
    world = services.board.world
    job = world.job(job_id) if world is not None else None
    heartbeat_seconds = job.spec.heartbeat_seconds if job is not None else None
    return min(given.data.lease_seconds, heartbeat_seconds or math.inf)


def _ranges(spans: list[list[int]]) -> Ranges:
    return Ranges.of((first, end) for first, end in spans)


def _view(given: ShardsGiven, lease_seconds: float) -> ShardsAnswer:
    data, answer = given.data, given.answer
    return {
        "given": [[position, *data.shard_at(position)] for position in answer.given],
        "held": _spans(answer.held),
        "refused": _spans(answer.refused),
        "end": answer.end,
        "leave": given.leave,
        "lease_seconds": lease_seconds,
        "shards": data.shards,
        "epochs": data.epochs,
    }


def _spans(ranges: Ranges) -> list[list[int]]:
    return [[first, end] for first, end in ranges.spans]
