"""Relays workers' reports from a replica that follows to the leader, and asks the leader for logs."""

import ipaddress
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.responses import Response

from scheduler.engine.ports import Leader
from scheduler.http.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    import ssl

    import httpx

#: Header of relayed requests, so that two replicas that take each other for the leader make no loop.
FORWARDED = "x-sched-forwarded"
#: Timeout of a relayed request: a leader that is silent for longer will be replaced, and workers repeat reports.
TIMEOUT_SECONDS = 2.0
CONNECTIONS_MAX = 64
_RETRY = {"retry-after": "1"}
#: Headers of the leader's answer that are passed back to the caller.
_PASSED_BACK = ("content-type", "retry-after", "cache-control", "x-sched-offset", "x-sched-worker")


class Relay:
    """Client of the leader. Used on the event loop; closed with the application."""

    def __init__(
        self,
        leader: Callable[[], Leader | None],
        trust: "Callable[[], ssl.SSLContext] | None" = None,
        name: str | None = None,
    ) -> None:
        """`trust`: how certificates of replicas are checked by now; None: by those of public authorities.

        `name`: what certificates of replicas are made for whose address is a number, as that of a pod is.
        """
        self._leader = leader
        self._trust, self._name = trust, name
        self._client: httpx.AsyncClient | None = None
        #: How the client checks certificates.
        self._verify: ssl.SSLContext | bool = True

    async def close(self) -> None:
        client, self._client = self._client, None  # at once, since others may ask for one meanwhile
        if client is not None:
            await client.aclose()

    async def pass_on(self, path: str, body: bytes, authorization: str | None, *, forwarded: bool) -> Response:
        """The leader's answer. Raises `Refusal` (503) if no leader is known or it cannot be reached."""
        headers = {"content-type": "application/json"}
        return await self._ask("POST", path, authorization, forwarded=forwarded, content=body, headers=headers)

    async def fetch(self, path_and_query: str, authorization: str | None, *, forwarded: bool) -> Response:
        """The leader's answer to a GET. Raises as `pass_on`."""
        return await self._ask("GET", path_and_query, authorization, forwarded=forwarded, content=b"", headers={})

    async def _ask(
        self,
        method: str,
        path: str,
        authorization: str | None,
        *,
        forwarded: bool,
        content: bytes,
        headers: dict[str, str],
    ) -> Response:
        import httpx  # its import takes a while, and a single daemon never needs it

        leader = self._leader()
        if leader is None or leader.url is None:
            raise not_now("no replica is leading")
        if forwarded:
            raise not_now(f"this replica is not leading: {leader.name} leads")
        headers = {**headers, FORWARDED: "1"}
        if authorization is not None:
            headers["authorization"] = authorization
        client, named = await self._client_now(), self._named(leader.url)
        try:
            answer = await client.request(method, leader.url + path, content=content, headers=headers, extensions=named)
        except httpx.HTTPError as error:
            what = str(error) or type(error).__name__
            raise not_now(f"the leading replica {leader.name} cannot be reached: {what}") from None
        kept = {name: answer.headers[name] for name in _PASSED_BACK if name in answer.headers}
        return Response(answer.content, answer.status_code, kept)

    async def _client_now(self) -> "httpx.AsyncClient":
        """Another one where certificates are checked in another way: what is under way on the last one is repeated."""
        import httpx

        verify = True if self._trust is None else self._trust()
        if self._client is not None and verify is not self._verify:
            await self.close()
        if self._client is None:
            limits = httpx.Limits(max_connections=CONNECTIONS_MAX, max_keepalive_connections=CONNECTIONS_MAX)
            self._verify = verify
            self._client = httpx.AsyncClient(timeout=TIMEOUT_SECONDS, limits=limits, trust_env=False, verify=verify)
        return self._client

    def _named(self, url: str) -> dict[str, str]:
        """The name that the certificate at this address must be made for, where it is not that of the address."""
        return {"sni_hostname": self._name} if self._name is not None and _is_number(url) else {}


def not_now(message: str) -> Refusal:
    """That no replica can answer at the moment."""
    return Refusal(503, ErrorCode.UNAVAILABLE, message, headers=_RETRY)


def _is_number(url: str) -> bool:
    """Whether the host of the address is an IP address."""
    try:
        ipaddress.ip_address(urlsplit(url).hostname or "")
    except ValueError:
        return False
    return True
