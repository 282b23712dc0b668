"""What a token of the issuer says, once its signature is checked: whose it is, until when, and what its user may do."""

import base64
import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import jwt

from scheduler.config import OidcSettings
from scheduler.http.auth.oidc.keys import ALGORITHMS, IssuerKey, is_key_id
from scheduler.model.identity import IdentifiedBy, Identity, Role
from scheduler.model.queue_tree import GROUP_PREFIX

#: Longer ones are not read.
TOKEN_BYTES_MAX = 16 * 1024
#: How far the issuer's clock may be from ours.
LEEWAY_SECONDS = 30.0
USER_LENGTH_MAX = 128
GROUPS_MAX = 1000
#: No time is later: some thousand years from now.
MOMENT_MAX = 1e11
#: What the token says is checked against our clock and in our words below.
_OURS = ("verify_exp", "verify_nbf", "verify_iat", "verify_sub", "verify_jti")
_OPTIONS: Any = {"require": ["exp"], **dict.fromkeys(_OURS, False)}


class Unacceptable(Exception):
    """A token is refused; the message says why in one line. `user`: whose it is, where that is certain."""

    def __init__(self, why: str, user: str | None = None) -> None:
        super().__init__(why)
        self.user = user


@dataclass(frozen=True, slots=True)
class Header:
    """How a token says that it is signed, which nobody has checked."""

    algorithm: str
    #: None: the only key of the issuer for this algorithm.
    kid: str | None

    @property
    def key(self) -> str:
        """The key that it means, for messages."""
        return f"the key {self.kid}" if self.kid is not None else f"the only key for {self.algorithm}"


@dataclass(frozen=True, slots=True)
class Claims:
    """What a token says whose signature is the issuer's."""

    identity: Identity
    #: When it begins to be valid; unix seconds.
    begins_at: float
    expires_at: float

    def check_time(self, now: float, seconds_max: float) -> None:
        """Raise `Unacceptable` unless it is valid now, and not for longer than `seconds_max` from now on."""
        user = self.identity.user
        if now >= self.expires_at + LEEWAY_SECONDS:
            raise Unacceptable(f"the token of {user} has expired: get a new one from the issuer", user)
        if now < self.begins_at - LEEWAY_SECONDS:
            raise Unacceptable(f"the token of {user} is not valid yet: compare the clocks of issuer and daemon", user)
        if self.expires_at - now > seconds_max + LEEWAY_SECONDS:
            limit = f"oidc.token_seconds_max allows {seconds_max:g} s"
            raise Unacceptable(f"the token of {user} is valid for too long: {limit}", user)


def read_header(token: bytes) -> Header:
    """Raises `Unacceptable` for what is no token, or is signed in a way that is not accepted."""
    if len(token) > TOKEN_BYTES_MAX:
        raise Unacceptable(f"it is longer than {TOKEN_BYTES_MAX} bytes")
    try:
        header = json.loads(_decoded(token.partition(b".")[0]))
    except (ValueError, RecursionError):
        raise Unacceptable("it has three parts as a JWT, and its first one is no JSON") from None
    if not isinstance(header, dict):
        raise Unacceptable("its header is no JSON object")
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise Unacceptable(f"its signature (alg) must be one of {', '.join(sorted(ALGORITHMS))}")
    if "kid" in header and not is_key_id(header["kid"]):
        raise Unacceptable("its header must name a key (kid) in printable ASCII")
    if "crit" in header or "b64" in header:
        raise Unacceptable("its header asks for extensions (crit)")
    return Header(algorithm, header.get("kid"))


def read_claims(token: bytes, header: Header, key: IssuerKey, settings: OidcSettings) -> Claims:
    """Check the signature, and for whom and by whom the token is. Raises `Unacceptable`."""
    if header.algorithm not in key.algorithms:
        allowed = ", ".join(sorted(key.algorithms))
        raise Unacceptable(f"{header.key} is for {allowed}, not for {header.algorithm}")
    _check_signature(token, header, key)
    try:
        said = jwt.decode(
            token,
            key.public,
            algorithms=[header.algorithm],
            audience=settings.audience,
            issuer=settings.issuer,
            options=_OPTIONS,
        )
    except jwt.InvalidAudienceError:
        raise Unacceptable(f"it is for others: its audience (aud) must be {settings.audience}") from None
    except jwt.InvalidIssuerError:
        raise Unacceptable(f"it is from somebody else: its issuer (iss) must be {settings.issuer}") from None
    except jwt.MissingRequiredClaimError as error:
        raise Unacceptable(f"it has no claim {error.claim}") from None
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        raise Unacceptable("it cannot be read as a JWT") from None
    return _claims_of(said, settings)


def _check_signature(token: bytes, header: Header, key: IssuerKey) -> None:
    """Before anything else is read of the token, since that takes much longer: strangers may send what they like."""
    content, _, signature = token.rpartition(b".")
    try:
        right = jwt.get_algorithm_by_name(header.algorithm).verify(content, key.public, _decoded(signature))
    except ValueError:
        right = False
    if not right:
        raise Unacceptable(f"its signature is not that of {header.key} of the issuer")


def _decoded(part: bytes) -> bytes:
    """Raises `ValueError`."""
    return base64.b64decode(part + b"=" * (-len(part) % 4), b"-_", validate=True)


def _claims_of(said: dict[str, Any], settings: OidcSettings) -> Claims:
    user = _user_of(said, settings)
    groups = _groups_of(said, settings)
    role = _role_of(groups, settings)
    if role is None:
        why = f"no group of {user} has a role here: an administrator sets oidc.roles or oidc.default_role"
        raise Unacceptable(why, user)
    expires_at = _moment(said, "exp")
    begins_at = max((_moment(said, name) for name in ("nbf", "iat") if name in said), default=0.0)
    queue = next((queue for group, queue in settings.queues.items() if group in groups), None)
    identity = Identity(user, role, IdentifiedBy.OIDC, expires_at=expires_at, queue=queue, groups=frozenset(groups))
    return Claims(identity, begins_at, expires_at)


def _user_of(said: dict[str, Any], settings: OidcSettings) -> str:
    claim = settings.user_claim
    user = _claim(said, claim)
    if not isinstance(user, str) or not user:
        raise Unacceptable(f"it names no user: the claim {claim} (oidc.user_claim) is missing or no text")
    if claim == "email" and said.get("email_verified", True) is not True:
        raise Unacceptable("the issuer has not verified the address in its claim email")
    user = settings.user_prefix + user
    if len(user) > USER_LENGTH_MAX or not user.isprintable():
        raise Unacceptable(f"the name in its claim {claim} has more than {USER_LENGTH_MAX} or unprintable characters")
    if user.startswith(GROUP_PREFIX):
        raise Unacceptable(f"the name in its claim {claim} begins with {GROUP_PREFIX}, as groups do among members")
    return user


def _claim(said: dict[str, Any], name: str) -> Any:
    """The claim of this name, else what the names between its dots lead to, one inside the other; None: nothing."""
    if name in said:
        return said[name]
    found: Any = said
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _groups_of(said: dict[str, Any], settings: OidcSettings) -> Collection[str]:
    groups = _claim(said, settings.groups_claim)
    if groups is None:
        return ()
    if isinstance(groups, str):
        groups = [groups]
    if not isinstance(groups, list) or len(groups) > GROUPS_MAX or not all(isinstance(each, str) for each in groups):
        raise Unacceptable(f"its claim {settings.groups_claim} is no list of at most {GROUPS_MAX} groups")
    return groups


def _role_of(groups: Collection[str], settings: OidcSettings) -> Role | None:
    """The one that may do most; None: there is none."""
    given = {Role(settings.roles[group]) for group in groups if group in settings.roles}
    default = None if settings.default_role is None else Role(settings.default_role)
    return next((role for role in reversed(Role) if role in given), default)


def _moment(said: dict[str, Any], claim: str) -> float:
    value = said[claim]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOMENT_MAX:
        raise Unacceptable(f"its claim {claim} is no time in unix seconds")
    return float(value)
