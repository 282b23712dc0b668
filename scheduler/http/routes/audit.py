"""The audit: who changed what, and who was refused."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response
from typing_extensions import TypedDict

from scheduler.http.errors import documented
from scheduler.http.json import JsonResponse
from scheduler.http.schemas.parameters import LINE, SQL_ID_MAX, Limit
from scheduler.http.schemas.unreadable import UnreadableView, unreadable_views
from scheduler.http.services import ServicesDep
from scheduler.model.audit import AuditRecord

router = APIRouter(tags=["users"])

TIME_MAX = 1e11


class AuditView(TypedDict):
    #: Its id.
    id: int
    #: When the request was answered; unix seconds.
    at: float
    #: Who called; null: a caller without a name.
    user: str | None
    #: How the daemon knew the caller, as `identified_by` of `/v1/whoami`; `nobody`: not at all, so that it was refused.
    known_by: str
    #: Address of the caller; `socket` for the UNIX socket.
    address: str
    #: Method of the request.
    method: str
    #: Route of the request, with the names of its parameters; empty: it reached none.
    route: str
    #: What it was about, such as `job 12`; may be empty.
    object: str
    #: Status of the answer.
    status: int
    #: Number of such requests: refusals of the same request within about a second are one record.
    times: int


class AuditPageView(TypedDict):
    #: The records, oldest first.
    records: list[AuditView]
    #: Records of this page that cannot be read from the database.
    unreadable: list[UnreadableView]
    #: Value of `before` for the page of older records; null: there is none.
    next: int | None


@router.get("/v1/audit", response_model=AuditPageView, responses=documented())
def read_audit(
    services: ServicesDep,
    since: Annotated[
        float,
        Query(ge=0, le=TIME_MAX, allow_inf_nan=False, description="Only records since then; unix seconds."),
    ] = 0.0,
    user: Annotated[str | None, Query(max_length=128, pattern=LINE, description="Only records of this user.")] = None,
    before: Annotated[int | None, Query(ge=1, le=SQL_ID_MAX, description="Only records with smaller ids.")] = None,
    limit: Limit = 100,
) -> Response:
    """Get the newest records of changes and of refused callers. A record appears about a second after its request."""
    count = min(limit, services.settings.http.page_size_max)
    found = services.store.page_of_audit(since, user, before, count)
    view: AuditPageView = {
        "records": [_view(number, record) for number, record in found.records],
        "unreadable": unreadable_views(found.unreadable),
        "next": found.next,
    }
    return JsonResponse(view)


def _view(number: int, record: AuditRecord) -> AuditView:
    return {
        "id": number,
        "at": record.at,
        "user": record.user,
        "known_by": record.known_by,
        "address": record.address,
        "method": record.method,
        "route": record.route,
        "object": record.object,
        "status": record.status,
        "times": record.times,
    }
