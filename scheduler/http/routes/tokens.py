"""Who calls, and the tokens of users."""

import os
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Request
from starlette.responses import Response
from typing_extensions import TypedDict

from scheduler.errors import Conflict, InvalidInput
from scheduler.http.auth.authorize import IdentityDep
from scheduler.http.auth.login_names import look_up
from scheduler.http.auth.tokens import new_token
from scheduler.http.body import Body, documented_body
from scheduler.http.errors import documented
from scheduler.http.json import JsonResponse
from scheduler.http.runtime.audit import created
from scheduler.http.schemas.parameters import SQL_ID_MAX
from scheduler.http.schemas.requests import parse_request
from scheduler.http.schemas.token_requests import TokenRequest
from scheduler.http.schemas.unreadable import UnreadableView, unreadable_views
from scheduler.http.services import Services, ServicesDep
from scheduler.model.identity import IdentifiedBy, Identity, Role, UserToken
from scheduler.model.queue_tree import check_exists

router = APIRouter(tags=["users"])

TokenPath = Annotated[int, Path(ge=1, le=SQL_ID_MAX, description="Id of the token.")]
RoleName = Literal["viewer", "user", "operator", "admin"]


class WhoamiView(TypedDict):
    #: Name of the caller; null: it has none, as with `http.token`.
    user: str | None
    #: What it may do.
    role: RoleName
    #: How the daemon knows it: `nothing` (the daemon is open to its machine), `http.token`, `token`, `login`, or `oidc`
    #: (by a token of the issuer of OpenID Connect).
    identified_by: Literal["nothing", "http.token", "token", "login", "oidc"]
    #: Id of its own token; null: it has none.
    token_id: int | None
    #: When its token expires; unix seconds; null: never.
    expires_at: float | None
    #: The queue of its jobs that name none, as its token or groups say; null: the one of which it is a member.
    queue: str | None
    #: The login of the daemon's machine as which the caller's jobs run; null: they run in pods, or it may have none.
    jobs_run_as: str | None


class TokenView(TypedDict):
    #: Its id.
    id: int
    #: Whose it is.
    user: str
    #: What it may do.
    role: RoleName
    #: What it is for; may be empty.
    name: str
    #: When it was created; unix seconds.
    created_at: float
    #: Who created it; empty: an administrator without a name.
    created_by: str
    #: When it expires; unix seconds; null: never.
    expires_at: float | None
    #: When it was revoked; unix seconds; null: it was not.
    revoked_at: float | None
    #: The queue of its user's jobs that name none; null: the one of which the user is a member.
    queue: str | None
    #: Whether it opens anything now.
    valid: bool


class TokenListView(TypedDict):
    #: All tokens, also those that expired or were revoked.
    tokens: list[TokenView]
    #: Tokens that cannot be read from the database; they open nothing.
    unreadable: list[UnreadableView]


class CreatedTokenView(TypedDict):
    #: Its id.
    id: int
    #: The token itself, which is shown only here.
    token: str
    #: When it expires; unix seconds; null: never.
    expires_at: float | None


class RevokedTokenView(TypedDict):
    #: Its id.
    id: int


@router.get("/v1/whoami", response_model=WhoamiView, responses=documented())
def whoami(identity: IdentityDep, services: ServicesDep) -> Response:
    """Get the caller's name and role, how the daemon knows them, and as whom their jobs run."""
    view: WhoamiView = {
        "user": identity.user,
        "role": identity.role.value,
        "identified_by": identity.by.value,
        "token_id": identity.token_id,
        "expires_at": identity.expires_at,
        "queue": identity.queue,
        "jobs_run_as": _login_of_jobs(identity, services),
    }
    return JsonResponse(view)


@router.post(
    "/v1/tokens",
    status_code=201,
    response_model=CreatedTokenView,
    responses=documented(409, 413, 415),
    openapi_extra=documented_body("TokenRequest"),
)
def create_token(request: Request, services: ServicesDep, identity: IdentityDep, body: Body) -> Response:
    """Create a token of a user. From the first one on, every user needs a token, also on loopback."""
    wanted = parse_request(TokenRequest, body)
    if identity.by is IdentifiedBy.NOTHING and Role(wanted.role) is not Role.ADMIN:
        raise Conflict(
            "the first token must have the role admin, since nobody comes without one from it on; or set http.token"
        )
    if services.accounts is not None and (why_not := services.accounts.why_not(wanted.user)) is not None:
        raise InvalidInput("user", why_not)
    if wanted.queue is not None:
        check_exists({queue.path: queue for queue in services.store.list_queues()}, wanted.queue)
    now = services.clock.wall()
    secret, token = new_token(
        wanted.user,
        Role(wanted.role),
        wanted.name,
        now=now,
        created_by=identity.user or "",
        expires_at=None if wanted.expires_seconds is None else now + wanted.expires_seconds,
        queue=wanted.queue,
    )
    token_id = services.store.add_token(token)
    created(request, f"token {token_id} of {token.user} ({token.role})")
    services.tokens.look_soon()
    view: CreatedTokenView = {"id": token_id, "token": secret, "expires_at": token.expires_at}
    return JsonResponse(view, status_code=201, headers={"cache-control": "no-store"})


@router.get("/v1/tokens", response_model=TokenListView, responses=documented())
def list_tokens(services: ServicesDep) -> Response:
    """List all tokens of users, without the tokens themselves, which are not stored."""
    found, now = services.store.list_tokens(), services.clock.wall()
    view: TokenListView = {
        "tokens": [_view(token, now) for token in found.tokens],
        "unreadable": unreadable_views(found.unreadable),
    }
    return JsonResponse(view)


@router.delete("/v1/tokens/{token_id}", response_model=RevokedTokenView, responses=documented(404))
def revoke_token(services: ServicesDep, token_id: TokenPath) -> Response:
    """Revoke a token: it opens nothing from now on, on other replicas within about a second."""
    services.store.revoke_token(token_id, services.clock.wall())
    services.tokens.look_soon()
    view: RevokedTokenView = {"id": token_id}
    return JsonResponse(view)


def _login_of_jobs(identity: Identity, services: Services) -> str | None:
    if services.settings.cluster != "local":
        return None
    if services.accounts is None:
        return look_up(os.geteuid())
    user = identity.user
    return user if user is not None and services.accounts.why_not(user) is None else None


def _view(token: UserToken, now: float) -> TokenView:
    return {
        "id": token.id,
        "user": token.user,
        "role": token.role.value,
        "name": token.name,
        "created_at": token.created_at,
        "created_by": token.created_by,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
        "queue": token.queue,
        "valid": token.why_not(now) is None,
    }
