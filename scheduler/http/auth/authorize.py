"""Dependencies of routes that check who calls, and what belongs to whom."""

from typing import Annotated

from fastapi import Depends, Request
from starlette.types import Scope

from scheduler.http.auth.rules import ADMINISTER, RULES
from scheduler.http.auth.stranger import Stranger
from scheduler.http.errors import RETRY_AFTER_SECONDS, ErrorCode, Refusal
from scheduler.http.server.peer import uid_in
from scheduler.http.services import Services, ServicesDep
from scheduler.model.identity import IdentifiedBy, Identity, Role

#: Where the entry of every request leaves the caller in its scope.
CALLER = "sched.caller"


def authorization_of(request: Request) -> bytes | None:
    return authorization_in(request.scope)


def authorization_in(scope: Scope) -> bytes | None:
    """The header by which the caller of a request identifies itself."""
    return next((value for name, value in scope["headers"] if name == b"authorization"), None)


def caller_of(request: Request) -> Identity | Stranger:
    caller: Identity | Stranger = request.scope[CALLER]
    return caller


def still_known(request: Request, services: Services) -> bool:
    """Whether who sent the request would be let in now: its token may have expired or been revoked since."""
    return not isinstance(_identified_now(request, services), Stranger)


def check_still_known(request: Request, services: Services) -> None:
    """Raise 401 unless who sent the request, which may have waited since, would be let in now."""
    found = _identified_now(request, services)
    if isinstance(found, Stranger):
        raise refusal_of(found)


def _identified_now(request: Request, services: Services) -> Identity | Stranger:
    return services.access.identify(authorization_of(request), uid_in(request.scope))


def unauthorized(message: str) -> Refusal:
    return Refusal(401, ErrorCode.UNAUTHORIZED, message, headers={"www-authenticate": "Bearer"})


def refusal_of(caller: Stranger, besides: str = "") -> Refusal:
    """The refusal of a caller that is not known. `besides`: what else would have been accepted."""
    if caller.unchecked:
        return Refusal(503, ErrorCode.UNAVAILABLE, caller.why, headers={"retry-after": str(RETRY_AFTER_SECONDS)})
    return unauthorized(f"{caller.why}{besides}")


def forbidden(message: str, field: str | None = None) -> Refusal:
    """The refusal of a caller that is known and may not do this."""
    return Refusal(403, ErrorCode.FORBIDDEN, message, field=field)


def identity_of(request: Request) -> Identity:
    """The user who calls. Raises 401 with the reason if there is none, 503 where that cannot be said for now."""
    caller = caller_of(request)
    if isinstance(caller, Stranger):
        raise refusal_of(caller)
    return caller


async def _given(request: Request) -> Identity:
    """On the event loop: FastAPI calls what is not async on a thread."""
    return identity_of(request)


IdentityDep = Annotated[Identity, Depends(_given)]


def require_role(request: Request) -> None:
    """Raise 403 unless the caller has the role that the route needs; what `identity_of` raises for a stranger."""
    identity = identity_of(request)
    rule = RULES.get((request.method, request.scope["route"].path_format), ADMINISTER)
    if rule.role is not None:
        check_role(identity, rule.role, "this")


def check_role(identity: Identity, role: Role, what: str) -> None:
    """Raise 403 unless the identity has the role. `what`: names what needs it."""
    if not identity.role.includes(role):
        raise forbidden(f"{what} needs the role {role}, and you are {identity}")


def check_owner(identity: Identity, user: str, what: str) -> None:
    """Raise 403 unless the identity may change what belongs to this user. `what`: names it."""
    if not identity.owns(user):
        owner = user or "nobody"
        allowed = f"{user} or an operator" if user else "an operator"
        raise forbidden(f"{what} belongs to {owner}: only {allowed} may change it, and you are {identity}")


def check_reader(identity: Identity, user: str, what: str) -> None:
    """Raise 403 unless the identity may read what only its user and operators may. `what`: names it."""
    if identity.user != user and not identity.role.includes(Role.OPERATOR):
        raise forbidden(f"{what} is for {user or 'nobody'} and operators, and you are {identity}")


async def require_metrics(request: Request, services: ServicesDep) -> None:
    """Raise 401 unless the caller is a user or has the metrics token."""
    caller = caller_of(request)
    if isinstance(caller, Stranger) and not services.access.metrics_may(authorization_of(request)):
        raise refusal_of(caller, ", or http.metrics_token")


def may_work(caller: Identity | Stranger) -> bool:
    """Whether the caller may make the calls of the workers of every job; nobody may without being known."""
    if isinstance(caller, Stranger) or caller.by is IdentifiedBy.NOTHING:
        return False
    return caller.role.includes(Role.OPERATOR)
