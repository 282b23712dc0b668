"""The issuer of OpenID Connect that the settings name. Its library is imported only where there is one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.config import OidcSettings
from scheduler.engine.timing.repeating import Repeating
from scheduler.errors import ConfigError
from scheduler.http.auth.oidc.documents import IssuerDocuments
from scheduler.http.auth.tokens import TokenBook

if TYPE_CHECKING:
    from scheduler.http.auth.oidc.logins import OidcLogins


@dataclass(frozen=True, slots=True)
class Issuer:
    """Who calls with its tokens, and what looks at its keys."""

    logins: "OidcLogins"
    upkeep: Repeating


def open_issuer(settings: OidcSettings, tokens: TokenBook, monotonic: Callable[[], float]) -> Issuer | None:
    """The issuer, whose keys are not asked for yet; None: the settings name none. Raises `ConfigError`."""
    if settings.issuer is None:
        return None
    if settings.audience is None:
        raise ConfigError("setting oidc.audience: is required with oidc.issuer, which makes tokens for others, too")
    try:
        from scheduler.http.auth.oidc.keys import LOOK_SECONDS, IssuerKeys
        from scheduler.http.auth.oidc.logins import OidcLogins
    except ImportError as error:
        missing = f"{error.name} is not installed: pip install 'elastic-gpu-scheduler[oidc]'"
        raise ConfigError(f"setting oidc.issuer: {missing}") from None
    documents = IssuerDocuments(settings.issuer, settings.ca, monotonic)
    keys = IssuerKeys(documents.read_keys, monotonic)
    upkeep = Repeating("oidc", keys.fetch, LOOK_SECONDS)
    return Issuer(OidcLogins(settings, keys, upkeep.once, tokens.held_by), upkeep)
