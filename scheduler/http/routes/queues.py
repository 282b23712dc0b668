"""Queues: the tree among which the slots of the cluster are divided."""

from collections.abc import Callable, Collection, Mapping, Sequence

from fastapi import APIRouter, Request
from starlette.responses import Response
from typing_extensions import TypedDict

from scheduler.errors import Conflict, NotFound
from scheduler.http.body import Body, documented_body
from scheduler.http.errors import documented
from scheduler.http.explain.queue_warnings import warnings_of_queue
from scheduler.http.json import JsonResponse
from scheduler.http.runtime.audit import created
from scheduler.http.schemas.parameters import QueueParameter
from scheduler.http.schemas.queue_loads import QueueLoad, queue_loads
from scheduler.http.schemas.queue_requests import QueueChangeRequest, QueueFields, QueueRequest
from scheduler.http.schemas.requests import parse_request
from scheduler.http.services import Services, ServicesDep
from scheduler.model.plan import QueueShare
from scheduler.model.queue import Queue
from scheduler.model.queue_tree import Queues, unknown_queue

router = APIRouter(tags=["queues"])


class QueueUserView(TypedDict):
    #: Name of the user.
    user: str
    #: Slots that the user's jobs in the queue held before the last plan.
    slots_held: int
    #: Slots that these jobs hold or wait for.
    slots_wanted: float
    #: Slots that the user is entitled to in the queue.
    slots_entitled: float


class QueueView(TypedDict):
    #: Its names from the first level down, joined by slashes.
    path: str
    #: Slots that its jobs get back from borrowers whenever they need them, by GPU type; `*`: of any.
    guarantee: dict[str, int]
    #: Slots that its jobs never exceed together, by GPU type; `*`: of any.
    limit: dict[str, int]
    #: Its part of what is lent, against that of the queues beside it.
    weight: float
    #: Whether what it has is divided among its users.
    share_users: bool
    #: Slots that one user may hold in it; null: up to the queue's own limit.
    user_limit: int | None
    #: Highest priority that its jobs may have; null: any.
    priority_max: int | None
    #: Most jobs that it may contain before they end; null: any number.
    max_jobs: int | None
    #: Slot-hours that its jobs may hold in a calendar month (UTC); null: any number.
    budget: int | None
    #: Whether this budget, or that of a queue around it, is spent: its jobs start and grow no more this month.
    budget_spent: bool
    #: Users, and groups as `@name`, who may submit to it; empty: as its parent says.
    members: list[str]
    #: Whether its row of the database can be read. If not, nothing that is set of it is known.
    readable: bool
    #: When it was created; unix seconds.
    created_at: float
    #: Its jobs without workers that have not ended, with those of the queues inside it.
    jobs_waiting: int
    #: Its jobs that start, run or stop, with those of the queues inside it.
    jobs_running: int
    #: Slots that its jobs hold now, with those of the queues inside it.
    slots_held: int
    #: Slots that its jobs hold or wait for; null where no plan has looked at them: at a standby, and without such jobs.
    slots_wanted: float | None
    #: Slots that it is entitled to now; null as for `slots_wanted`.
    slots_entitled: float | None
    #: Those of them that its guarantee covers; null as for `slots_wanted`.
    slots_guaranteed: float | None
    #: Users who share it in equal parts, with `share_users`.
    users: list[QueueUserView]


class QueueSetView(QueueView):
    #: What of it has no effect for now, such as a guarantee of a GPU type that no node has; each in one line.
    warnings: list[str]


class QueueList(TypedDict):
    #: All queues by path.
    queues: list[QueueView]


class QueueNamed(TypedDict):
    #: Its path.
    path: str


@router.get("/v1/queues", response_model=QueueList, responses=documented())
def list_queues(services: ServicesDep) -> Response:
    """List all queues by path."""
    queues = _stored(services)
    loads = queue_loads(queues, services.board.world)
    shares = _by_path(services.board.shares)
    view: QueueList = {"queues": [_view(queue, loads, shares) for queue in queues.values()]}
    return JsonResponse(view)


@router.post(
    "/v1/queues",
    status_code=201,
    response_model=QueueSetView,
    responses=documented(409, 413, 415),
    openapi_extra=documented_body("QueueRequest"),
)
def create_queue(request: Request, services: ServicesDep, body: Body) -> Response:
    """Create a queue, or replace one whose row cannot be read. The queue that would contain it must exist."""
    wanted = parse_request(QueueRequest, body)

    def make(before: Queue | None) -> Queue:
        if before is not None:
            raise Conflict(f"queue {wanted.path} already exists: change it, or use another path")
        return wanted.queue(wanted.path, services.clock.now())

    return _set(services, wanted.path, make, wanted.gpu_types, anew=True, request=request)


@router.get("/v1/queues/{path:path}", response_model=QueueView, responses=documented(404))
def show_queue(services: ServicesDep, path: QueueParameter) -> Response:
    """Get a queue."""
    queues = _stored(services)
    queue = queues.get(path)
    if queue is None or not queue.readable:
        queue = services.store.get_queue(path)
    if queue is None:
        raise NotFound(unknown_queue(path, queues))
    return JsonResponse(_view(queue, queue_loads(queues, services.board.world), _by_path(services.board.shares)))


@router.put(
    "/v1/queues/{path:path}",
    response_model=QueueSetView,
    responses=documented(404, 409, 413, 415),
    openapi_extra=documented_body("QueueFields"),
)
def put_queue(services: ServicesDep, path: QueueParameter, body: Body) -> Response:
    """Create a queue, or replace all that is set of it. Its jobs stay."""
    wanted = parse_request(QueueFields, body)

    def make(before: Queue | None) -> Queue:
        return wanted.queue(path, services.clock.now() if before is None else before.created_at)

    return _set(services, path, make, wanted.gpu_types, anew=True)


@router.patch(
    "/v1/queues/{path:path}",
    response_model=QueueSetView,
    responses=documented(404, 409, 413, 415),
    openapi_extra=documented_body("QueueChangeRequest"),
)
def change_queue(services: ServicesDep, path: QueueParameter, body: Body) -> Response:
    """Change what is given of a queue, as a JSON merge patch (RFC 7396).

    `add_members` and `remove_members` change those that there are by then: of two changes at once, none is lost.
    """
    wanted = parse_request(QueueChangeRequest, body)
    queues = _stored(services)

    def make(before: Queue | None) -> Queue:
        if before is None:
            raise NotFound(unknown_queue(path, queues))
        return wanted.changed(before)

    return _set(services, path, make, wanted.gpu_types)


@router.delete("/v1/queues/{path:path}", response_model=QueueNamed, responses=documented(404, 409))
def delete_queue(services: ServicesDep, path: QueueParameter) -> Response:
    """Delete a queue that contains neither queues nor jobs that have not ended.

    Recurring jobs and valid tokens that name it must be cancelled and revoked first.
    """
    services.store.delete_queue(path, services.clock.now(), services.clock.wall())
    _changed(services)
    view: QueueNamed = {"path": path}
    return JsonResponse(view)


def _set(
    services: Services,
    path: str,
    make: Callable[[Queue | None], Queue],
    gpu_types: Collection[str],
    *,
    anew: bool = False,
    request: Request | None = None,
) -> Response:
    """`gpu_types`: those of which slots are set; `request`: the one that creates it."""
    queue = services.store.set_queue(path, make, services.clock.now(), anew=anew)
    if request is not None:
        created(request, f"queue {path}")
    _changed(services)
    queues, world = {**_stored(services), path: queue}, services.board.world
    view: QueueSetView = {
        **_view(queue, queue_loads(queues, world), _by_path(services.board.shares)),
        "warnings": warnings_of_queue(queue, gpu_types, queues, world),
    }
    return JsonResponse(view, status_code=200 if request is None else 201)


def _changed(services: Services) -> None:
    """Have the next tick read the queues, and whoever waits for events look."""
    services.wake()
    services.events_bell.ring([None])


def _stored(services: Services) -> Queues:
    return {queue.path: queue for queue in services.store.list_queues()}


def _by_path(shares: Sequence[QueueShare]) -> dict[str, list[QueueShare]]:
    found: dict[str, list[QueueShare]] = {}
    for share in shares:
        found.setdefault(share.path, []).append(share)
    return found


def _view(queue: Queue, loads: dict[str, QueueLoad], shares: Mapping[str, Sequence[QueueShare]]) -> QueueView:
    load = loads.get(queue.path, QueueLoad())
    mine = shares.get(queue.path, ()) if load.running + load.waiting else ()
    whole = next((share for share in mine if share.user is None), None)
    users: list[QueueUserView] = [
        {
            "user": share.user,
            "slots_held": share.held,
            "slots_wanted": share.wanted,
            "slots_entitled": share.entitled,
        }
        for share in mine
        if share.user is not None
    ]
    return {
        "path": queue.path,
        "guarantee": dict(queue.guarantee),
        "limit": dict(queue.limit),
        "weight": queue.weight,
        "share_users": queue.share_users,
        "user_limit": queue.user_limit,
        "priority_max": queue.priority_max,
        "max_jobs": queue.max_jobs,
        "budget": queue.budget,
        "budget_spent": load.spent,
        "members": list(queue.members),
        "readable": queue.readable,
        "created_at": queue.created_at,
        "jobs_waiting": load.waiting,
        "jobs_running": load.running,
        "slots_held": load.slots,
        "slots_wanted": whole.wanted if whole is not None else None,
        "slots_entitled": whole.entitled if whole is not None else None,
        "slots_guaranteed": whole.guaranteed if whole is not None else None,
        "users": users,
    }
