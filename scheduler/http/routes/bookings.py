"""Bookings: capacity promised for a window of time to the jobs that name it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response
from typing_extensions import TypedDict

from scheduler.errors import Conflict, InvalidInput, NotFound
from scheduler.http.body import Body, documented_body
from scheduler.http.errors import documented
from scheduler.http.json import JsonResponse
from scheduler.http.runtime.audit import created
from scheduler.http.schemas.fields import BOOKING_NAME
from scheduler.http.schemas.requests import BookingRequest, parse_request
from scheduler.http.services import Services, ServicesDep
from scheduler.model.booking import Booking
from scheduler.model.intent import IntentKind
from scheduler.model.job import JobSpec
from scheduler.model.node import Node
from scheduler.model.shape import WorkerShape, shape_of
from scheduler.model.world import World
from scheduler.policy.overlay.booking_feasible import refusal

router = APIRouter(tags=["bookings"])

BookingPath = Annotated[
    str, Path(min_length=1, max_length=128, pattern=BOOKING_NAME, description="Name of the booking.")
]

#: A start at most this far in the past counts as now, since requests take time.
LATE_SECONDS = 60.0


class BookingView(TypedDict):
    #: Its name.
    name: str
    #: REQUESTED, PLANNED or OPEN.
    state: str
    #: When its window begins; unix seconds.
    start_at: float
    #: When its window ends; unix seconds.
    end_at: float
    #: Slots that it promises.
    slots: int
    #: Workers for which it has room.
    workers: int
    #: Slots of each of these workers, all on one node.
    slots_per_worker: int
    cpus_per_worker: float
    memory_mib_per_worker: int
    node_selector: dict[str, str]
    gpu_type: str | None
    user: str | None
    priority_min: int | None
    #: When it was requested; unix seconds.
    created_at: float
    #: Slots that its jobs hold now.
    slots_used: int
    #: Its jobs that have not ended.
    jobs: list[int]


class BookingList(TypedDict):
    #: The bookings that have not ended, by start.
    bookings: list[BookingView]


class BookingAccepted(TypedDict):
    #: Its name.
    name: str
    #: When its window begins; unix seconds.
    start_at: float
    #: When its window ends; unix seconds.
    end_at: float
    #: Slots that it promises.
    slots: int


class BookingNamed(TypedDict):
    #: Its name.
    name: str


@router.post(
    "/v1/bookings",
    status_code=202,
    response_model=BookingAccepted,
    responses=documented(409, 413, 415),
    openapi_extra=documented_body("BookingRequest"),
)
def book(request: Request, services: ServicesDep, body: Body) -> Response:
    """Request a booking. The next tick confirms it, or refuses it if nodes have been lost meanwhile."""
    if services.settings.policy.name != "elastic":
        raise Conflict(f"policy {services.settings.policy.name} does not support bookings: set policy.name to elastic")
    booking = _booking(parse_request(BookingRequest, body), services)
    if services.board.world is not None:
        standing = services.store.list_bookings()
        why = refusal(booking, standing, services.board.world.nodes, services.clock.now())
        if why is not None:
            raise Conflict(f"booking {booking.name}: {why}")
    services.store.add_booking(booking)
    created(request, f"booking {booking.name}")
    services.wake()
    view: BookingAccepted = {
        "name": booking.name,
        "start_at": booking.start_at,
        "end_at": booking.end_at,
        "slots": booking.slots,
    }
    return JsonResponse(view, status_code=202)


@router.get("/v1/bookings", response_model=BookingList, responses=documented())
def list_bookings(services: ServicesDep) -> Response:
    """List the bookings that have not ended, by start."""
    world = services.board.world or World()
    view: BookingList = {"bookings": [_view(booking, world) for booking in services.store.list_bookings()]}
    return JsonResponse(view)


@router.get("/v1/bookings/{name}", response_model=BookingView, responses=documented(404))
def show_booking(services: ServicesDep, name: BookingPath) -> Response:
    """Get a booking."""
    return JsonResponse(_view(_find(services, name), services.board.world or World()))


@router.delete("/v1/bookings/{name}", status_code=202, response_model=BookingNamed, responses=documented(404))
def unbook(services: ServicesDep, name: BookingPath) -> Response:
    """Cancel a booking. Its jobs continue as ordinary jobs."""
    _find(services, name)
    services.store.add_intent(IntentKind.UNBOOK, services.clock.now(), booking=name)
    services.wake()
    view: BookingNamed = {"name": name}
    return JsonResponse(view, status_code=202)


def check_bookings(services: Services, specs: Mapping[str, JobSpec]) -> None:
    """Raise `InvalidInput` for a job whose booking does not exist, or is not for it, or is too small for it.

    `specs`: by their places in the body.
    """
    known: dict[str, Booking | None] = {}
    for place, spec in specs.items():
        if spec.booking is None:
            continue
        if spec.booking not in known:
            known[spec.booking] = services.store.get_booking(spec.booking)
        why = _why_not(spec, known[spec.booking])
        if why is not None:
            raise InvalidInput(f"{place}booking", why)


def _why_not(spec: JobSpec, booking: Booking | None) -> str | None:
    if booking is None:
        return f"booking {spec.booking} not found: it has ended, or was never created"
    needed = spec.min_workers * spec.shape.slots
    if needed > booking.slots:
        return f"the job needs {needed} slots, but booking {booking.name} has {booking.slots}"
    return booking.refusal(spec, spec.priority)


def _find(services: Services, name: str) -> Booking:
    booking = services.store.get_booking(name)
    if booking is None:
        raise NotFound(f"booking {name} not found")
    return booking


def _booking(request: BookingRequest, services: Services) -> Booking:
    now = services.clock.now()
    start_at = now if request.start_at is None else request.start_at - services.booked_ahead_seconds()
    if start_at < now - LATE_SECONDS:
        raise InvalidInput("start_at", "is in the past: use a future time, or omit it to start now")
    start_at = max(start_at, now)
    end_at = start_at + request.duration_seconds
    if end_at <= start_at:  # floats are coarser there
        raise InvalidInput("duration_seconds", f"{request.duration_seconds:g} is too short for a window that far ahead")
    shape = shape_of(request)
    if request.nodes is not None:
        workers, shape = _whole_nodes(request.nodes, shape, _nodes(services))
    else:
        workers = (request.slots or 0) // shape.slots
    return Booking(
        name=request.name,
        start_at=start_at,
        end_at=end_at,
        workers=workers,
        shape=shape,
        created_at=now,
        user=request.user,
        priority_min=request.priority_min,
    )


def _nodes(services: Services) -> list[Node]:
    world = services.board.world
    return list(world.nodes.values()) if world is not None else services.store.list_nodes()


def _whole_nodes(count: int, shape: WorkerShape, nodes: Iterable[Node]) -> tuple[int, WorkerShape]:
    """The `count` largest suitable nodes as a request, each counted at the size of the smallest of them."""
    sizes = sorted((node.slots for node in nodes if node.suits(shape)), reverse=True)
    if len(sizes) < count or sizes[count - 1] < 1:
        raise InvalidInput("nodes", f"{count} exceeds the number of suitable nodes, {len(sizes)}")
    return count, replace(shape, slots=sizes[count - 1])


def _view(booking: Booking, world: World) -> BookingView:
    jobs = [job for job in world.all_jobs() if booking.admits(job)]
    shape = booking.shape
    return {
        "name": booking.name,
        "state": booking.state,
        "start_at": booking.start_at,
        "end_at": booking.end_at,
        "slots": booking.slots,
        "workers": booking.workers,
        "slots_per_worker": shape.slots,
        "cpus_per_worker": shape.cpus,
        "memory_mib_per_worker": shape.memory_mib,
        "node_selector": dict(shape.node_selector),
        "gpu_type": shape.gpu_type,
        "user": booking.user,
        "priority_min": booking.priority_min,
        "created_at": booking.created_at,
        "slots_used": sum(len(worker.slot_ids) for job in jobs for worker in job.all_workers),
        "jobs": sorted(job.id for job in jobs),
    }
