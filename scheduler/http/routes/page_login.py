"""How a browser logs in to the live page: `sched page` gets a code, and the page a token for it."""

from fastapi import APIRouter, Request
from starlette.responses import Response
from typing_extensions import TypedDict

from scheduler.errors import Conflict
from scheduler.http.auth.access import bearer
from scheduler.http.auth.authorize import IdentityDep, authorization_of, still_known, unauthorized
from scheduler.http.auth.page_codes import CODE_SECONDS, Asker
from scheduler.http.auth.tokens import new_token
from scheduler.http.body import Body, documented_body
from scheduler.http.errors import documented
from scheduler.http.json import JsonResponse
from scheduler.http.runtime.audit import created
from scheduler.http.schemas.requests import parse_request
from scheduler.http.schemas.token_requests import PageLoginRequest
from scheduler.http.services import Services, ServicesDep
from scheduler.model.identity import PAGE_NAME, IdentifiedBy

router = APIRouter(tags=["users"])
#: For browsers, which are nobody yet.
login_router = APIRouter(tags=["users"])

#: How long a browser stays logged in.
PAGE_SECONDS = 12 * 3600.0


class PageCodeView(TypedDict):
    #: For one use, within a minute; null: the daemon is open to its machine, and the page needs none.
    code: str | None


class PageTokenView(TypedDict):
    #: The token of the page, which is shown only here.
    token: str
    #: When it expires; unix seconds; null: never.
    expires_at: float | None


@router.post("/v1/page-codes", status_code=201, response_model=PageCodeView, responses=documented())
def create_page_code(request: Request, services: ServicesDep, identity: IdentityDep) -> Response:
    """Create a code by which the live page logs in as the caller, at this replica."""
    code = None
    if not services.access.open_to_users:
        # Only the issuer makes tokens of its users: their pages use the one that they have.
        token = bearer(authorization_of(request)).decode() if identity.by is IdentifiedBy.OIDC else None
        asker = Asker(identity, token, lambda: still_known(request, services))
        code = services.page_codes.create(asker, services.clock.monotonic())
    view: PageCodeView = {"code": code}
    return JsonResponse(view, status_code=201, headers={"cache-control": "no-store"})


@login_router.post(
    "/v1/page-tokens",
    status_code=201,
    response_model=PageTokenView,
    responses=documented(409, 413, 415),
    openapi_extra=documented_body("PageLoginRequest"),
)
def create_page_token(request: Request, services: ServicesDep, body: Body) -> Response:
    """Create the token of a live page, for a code. It ends with the token of who asked for the code."""
    wanted = parse_request(PageLoginRequest, body)
    asker = services.page_codes.use(wanted.code, services.clock.monotonic())
    if asker is None:
        raise unauthorized(f"the code was used, or is older than {CODE_SECONDS:g} s: use sched page again")
    token, expires_at = _token_of(services, asker)
    created(request, f"login of {asker.identity.user or 'an administrator'}")
    view: PageTokenView = {"token": token, "expires_at": expires_at}
    return JsonResponse(view, status_code=201, headers={"cache-control": "no-store"})


def _token_of(services: Services, asker: Asker) -> tuple[str, float | None]:
    """A token for the page of who asked, and when it expires."""
    identity = asker.identity
    if asker.token is not None:
        return asker.token, identity.expires_at
    if identity.user is None:
        return services.settings.http.token or "", None
    now = services.clock.wall()
    ends = now + PAGE_SECONDS
    expires_at = ends if identity.expires_at is None else min(ends, identity.expires_at)
    secret, token = new_token(
        identity.user,
        identity.role,
        PAGE_NAME,
        now=now,
        created_by=identity.user,
        expires_at=expires_at,
        made_from=identity.made_from or identity.token_id,
        queue=identity.queue,
    )
    try:
        services.store.add_token(token)
    except Conflict as error:
        raise unauthorized(f"{error}: use sched page again") from None
    services.tokens.look_soon()
    return secret, expires_at
