"""Access by token: one for users, one for the workers of each job."""

import hashlib
import hmac
import ipaddress
from collections.abc import Callable

from scheduler.config import HttpSettings
from scheduler.errors import ConfigError
from scheduler.model.ids import JobId, job_key

_SCHEME = b"bearer "


class Access:
    """Decides by the `Authorization` header. Compares in constant time."""

    def __init__(
        self,
        user_token: str | None,
        worker_secret: bytes,
        nonce_of: Callable[[JobId], str | None],
        metrics_token: str | None = None,
    ) -> None:
        """`nonce_of`: returns the nonce of a job, None for an unknown one."""
        self._user_token = user_token.encode() if user_token is not None else None
        self._metrics_token = metrics_token.encode() if metrics_token is not None else None
        self._secret = worker_secret
        self._nonce_of = nonce_of

    @property
    def open_to_users(self) -> bool:
        """Whether users need no token."""
        return self._user_token is None

    def worker_token(self, job_id: JobId, nonce: str) -> str:
        """Token for discover_hosts and the worker calls of this job, and for nothing else: `<nonce>.<signature>`.

        It is not valid for a job with the same id in another life of the database. A job without a nonce has a token
        without one.
        """
        signature = hmac.new(self._secret, f"worker:{job_key(job_id, nonce)}".encode(), hashlib.sha256).hexdigest()
        return f"{nonce}.{signature}" if nonce else signature

    def worker_nonce(self, authorization: bytes | None, job_id: JobId) -> str | None:
        """The nonce in a worker token of the job with this id; None: the token is not one."""
        token = _bearer(authorization)
        nonce = token.rpartition(b".")[0].decode("latin-1")
        return nonce if hmac.compare_digest(token, self.worker_token(job_id, nonce).encode("latin-1")) else None

    def user_may(self, authorization: bytes | None) -> bool:
        """Whether the caller may use everything but the worker calls."""
        return self._user_token is None or self._is_user(authorization)

    def metrics_may(self, authorization: bytes | None) -> bool:
        """Whether the caller may read metrics: users may, and holders of the metrics token."""
        if self.user_may(authorization):
            return True
        return self._metrics_token is not None and hmac.compare_digest(_bearer(authorization), self._metrics_token)

    def worker_may(self, authorization: bytes | None, job_id: JobId) -> bool:
        """Whether the caller may make the job's worker calls, which always need a token."""
        if self._user_token is not None and self._is_user(authorization):
            return True
        nonce = self.worker_nonce(authorization, job_id)
        return nonce is not None and self._nonce_of(job_id) in (nonce, None)

    def hosts_may(self, authorization: bytes | None, job_id: JobId) -> bool:
        """Whether the caller may read the job's host list."""
        return self._user_token is None or self.worker_may(authorization, job_id)

    def _is_user(self, authorization: bytes | None) -> bool:
        return self._user_token is not None and hmac.compare_digest(_bearer(authorization), self._user_token)


def _bearer(authorization: bytes | None) -> bytes:
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


def check_exposure(settings: HttpSettings) -> None:
    """Raise `ConfigError` for a reachable address without a token: every client could run commands here."""
    if settings.token is None and not is_loopback(settings.host):
        raise ConfigError(
            f"http.host {settings.host} is reachable from other machines: set http.token (SCHED_HTTP__TOKEN), "
            "or listen on 127.0.0.1"
        )
