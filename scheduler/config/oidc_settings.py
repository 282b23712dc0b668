"""Settings of logins by OpenID Connect."""

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from scheduler.config.section import PAIRS, Section

GroupName = Annotated[str, Field(min_length=1, max_length=256)]
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def protected_url(url: str) -> str:
    """The URL, if what comes from it cannot be changed on the way. Raises `ValueError`."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, 0
    if not host or port == 0:
        raise ValueError("invalid host or port")
    if parts.scheme != "https" and not (parts.scheme == "http" and host in _LOOPBACK):
        raise ValueError("must begin with https://; http:// is for loopback only")
    if parts.query or parts.fragment or parts.username is not None:
        raise ValueError("must have no user, query or fragment")
    return url


class OidcSettings(Section):
    """Logins by OpenID Connect, with the extra `oidc`: an issuer's tokens count beside those of `sched token`."""

    issuer: Annotated[str, AfterValidator(protected_url)] | None = Field(
        default=None,
        pattern=r"^https?://\S+$",
        max_length=1000,
        description="URL of the issuer, exactly as its tokens name it; not set: only our own tokens are accepted. Once "
        "it is set, everybody needs a token.",
    )
    audience: str | None = Field(
        default=None,
        min_length=1,
        max_length=500,
        description="Audience that tokens must name, mostly the id of a client at the issuer; required with `issuer`.",
    )
    user_claim: str = Field(
        default="sub",
        min_length=1,
        max_length=200,
        description="Claim with the user's name, such as `preferred_username` or `email`. Choose one that users cannot "
        "change at the issuer, and that it gives to nobody else later. A claim inside others is named with dots.",
    )
    user_prefix: str = Field(
        default="",
        max_length=64,
        pattern=r"^[!-~]*$",
        description="Put before the names of the issuer's users, so that they are never those of other users.",
    )
    groups_claim: str = Field(
        default="groups",
        min_length=1,
        max_length=200,
        description="Claim with the names of the user's groups; with dots for one inside others, such as "
        "`realm_access.roles`.",
    )
    roles: Annotated[dict[GroupName, Literal["viewer", "user", "operator", "admin"]], PAIRS] = Field(
        default={},
        max_length=1000,
        description="Role that each of these groups gives; of several the one that may do most counts.",
    )
    default_role: Literal["viewer", "user", "operator"] | None = Field(
        default=None, description="Role of users whom no group gives one; not set: they are refused."
    )
    queues: Annotated[dict[GroupName, Annotated[str, Field(min_length=1, max_length=1000)]], PAIRS] = Field(
        default={},
        max_length=1000,
        description="Queue of jobs that name none, by group: that of the first of these groups to which their user "
        "belongs.",
    )
    token_seconds_max: float = Field(
        default=86400.0,
        ge=60,
        le=30 * 86400,
        description="Tokens that are valid for longer than this from now on are refused, since nobody can revoke them.",
    )
    ca: Path | None = Field(
        default=None,
        description="File with the certificates that vouch for the issuer's; not set: those of the system.",
    )
