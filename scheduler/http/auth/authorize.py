"""Dependencies of routes that check the tokens of users and of Prometheus."""

from fastapi import Request

from scheduler.http.errors import ErrorCode, Refusal
from scheduler.http.services import ServicesDep


def authorization_of(request: Request) -> bytes | None:
    value = request.headers.get("authorization")
    return None if value is None else value.encode("latin-1")


def unauthorized(message: str) -> Refusal:
    return Refusal(401, ErrorCode.UNAUTHORIZED, message, headers={"www-authenticate": "Bearer"})


async def require_user(request: Request, services: ServicesDep) -> None:
    """Raise 401 unless the token is that of users, or none is needed."""
    if not services.access.user_may(authorization_of(request)):
        raise unauthorized("missing or invalid token: send Authorization: Bearer <http.token of the daemon>")


async def require_metrics(request: Request, services: ServicesDep) -> None:
    """Raise 401 unless the token is valid for metrics, or none is needed."""
    if not services.access.metrics_may(authorization_of(request)):
        raise unauthorized("missing or invalid token: send Authorization: Bearer <http.metrics_token of the daemon>")
