"""Who calls: by the token of a user, of an issuer, of Prometheus or of a job's workers, or by a local login."""

import hashlib
import hmac
import ipaddress
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.config import HttpSettings, OidcSettings
from scheduler.errors import ConfigError
from scheduler.http.auth.login_names import LoginNames
from scheduler.http.auth.stranger import Stranger
from scheduler.http.auth.tokens import NO_TOKENS, TokenBook
from scheduler.model.identity import IdentifiedBy, Identity, Role
from scheduler.model.ids import JobId, job_key

if TYPE_CHECKING:
    from scheduler.http.auth.oidc.logins import OidcLogins

_SCHEME = b"bearer "
_OF_THIS_MACHINE = Identity(None, Role.ADMIN, IdentifiedBy.NOTHING)
_CONFIGURED = Identity(None, Role.ADMIN, IdentifiedBy.CONFIGURED)


_NO_TOKEN = Stranger("no token: send Authorization: Bearer TOKEN with your own token, or http.token of the daemon")
_UNKNOWN = Stranger("invalid token: it is neither http.token of the daemon nor the token of a user")


@dataclass(frozen=True, slots=True)
class Logins:
    """What users of the daemon's machine may do who come by its UNIX socket."""

    names: LoginNames
    #: Of all but the daemon's own user and root, who are administrators.
    role: Role
    #: Whether others than these are served, by the socket or as whom jobs run, so that the address, where nobody is
    #: known, asks for a token.
    shared: bool

    def identity(self, uid: int) -> Identity:
        role = Role.ADMIN if uid in (0, os.geteuid()) else self.role
        return Identity(self.names.name(uid), role, IdentifiedBy.LOGIN)


#: Of a daemon without a UNIX socket.
NO_LOGINS = Logins(LoginNames(), Role.VIEWER, shared=False)


class Access:
    """Decides who calls by the `Authorization` header. Compares in constant time, or looks digests up."""

    def __init__(
        self,
        user_token: str | None,
        worker_secret: bytes,
        nonce_of: Callable[[JobId], str | None],
        metrics_token: str | None = None,
        tokens: TokenBook = NO_TOKENS,
        now: Callable[[], float] = lambda: 0.0,
        logins: Logins = NO_LOGINS,
        oidc: "OidcLogins | None" = None,
    ) -> None:
        """`nonce_of`: returns the nonce of a job, None for an unknown one. `now`: the clock by which tokens expire.

        `oidc`: the users of an issuer of OpenID Connect, if there is one.
        """
        self._logins = logins
        self._oidc = oidc
        self._user_token = user_token.encode() if user_token is not None else None
        self._metrics_token = metrics_token.encode() if metrics_token is not None else None
        self._secret = worker_secret
        self._nonce_of = nonce_of
        self._tokens = tokens
        self._now = now

    @property
    def open_to_users(self) -> bool:
        """Whether users need no token: there is none, and never was, and nobody else is let in in another way."""
        return self._user_token is None and not self._tokens.in_use and not self._logins.shared and self._oidc is None

    def worker_token(self, job_id: JobId, nonce: str) -> str:
        """Token for discover_hosts and the worker calls of this job, and for nothing else: `<nonce>.<signature>`.

        It is not valid for a job with the same id in another life of the database. A job without a nonce has a token
        without one.
        """
        signature = hmac.new(self._secret, f"worker:{job_key(job_id, nonce)}".encode(), hashlib.sha256).hexdigest()
        return f"{nonce}.{signature}" if nonce else signature

    def worker_nonce(self, authorization: bytes | None, job_id: JobId) -> str | None:
        """The nonce in a worker token of the job with this id; None: the token is not one."""
        token = bearer(authorization)
        nonce = token.rpartition(b".")[0].decode("latin-1")
        return nonce if hmac.compare_digest(token, self.worker_token(job_id, nonce).encode("latin-1")) else None

    def identify(self, authorization: bytes | None, peer_uid: int | None = None) -> Identity | Stranger:
        """Who calls with this header. `peer_uid`: the user at the other end of the UNIX socket; None: of no such one.

        A token that is sent counts there too, unless the daemon has none.
        """
        secret = bearer(authorization)
        if peer_uid is not None and (self.open_to_users or not secret):
            return self._logins.identity(peer_uid)
        if self.open_to_users:
            return _OF_THIS_MACHINE
        if self._user_token is not None and hmac.compare_digest(secret, self._user_token):
            return _CONFIGURED
        if self._oidc is not None and self._oidc.concerns(secret):
            return self._oidc.identify(secret, self._now())
        token = self._tokens.find(secret)
        if token is None:
            return _UNKNOWN if secret else _NO_TOKEN
        why_not = token.why_not(self._now())
        if why_not is not None:
            return Stranger(f"{why_not}: ask an administrator for a new one (sched token create)", token.user)
        by = IdentifiedBy.TOKEN
        return Identity(token.user, token.role, by, token.id, token.expires_at, token.made_from, token.queue)

    async def learn(self, authorization: bytes | None, peer_uid: int | None, now: float) -> None:
        """Learn what it takes to identify a caller: the login at the UNIX socket, or the issuer's key."""
        if peer_uid is not None:
            await self._logins.names.learn(peer_uid, now)
        if self._oidc is not None and self._oidc.concerns(secret := bearer(authorization)):
            await self._oidc.learn(secret)

    def metrics_may(self, authorization: bytes | None) -> bool:
        """Whether the caller may read metrics, by the metrics token."""
        return self._metrics_token is not None and hmac.compare_digest(bearer(authorization), self._metrics_token)

    def worker_may(self, authorization: bytes | None, job_id: JobId) -> bool:
        """Whether the caller is a worker of the job, by its token."""
        nonce = self.worker_nonce(authorization, job_id)
        return nonce is not None and self._nonce_of(job_id) in (nonce, None)


def bearer(authorization: bytes | None) -> bytes:
    """The token in the header; empty: there is none."""
    if authorization is None or authorization[: len(_SCHEME)].lower() != _SCHEME:
        return b""
    return authorization[len(_SCHEME) :].strip()


def is_loopback(host: str) -> bool:
    """Whether the address or name is reachable from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_exposure(http: HttpSettings, oidc: OidcSettings) -> None:
    """Raise `ConfigError` for a reachable address without tokens: every client could run commands here."""
    if http.token is None and oidc.issuer is None and not is_loopback(http.host):
        raise ConfigError(
            f"http.host {http.host} is reachable from other machines: set http.token (SCHED_HTTP__TOKEN), "
            "or listen on 127.0.0.1"
        )
