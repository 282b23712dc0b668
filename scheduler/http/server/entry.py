"""The entry of every request: the caller's limits, a short path for discover_hosts, and the guard against pages of
other sites.

Thousands of workers ask for hosts all the time. A plain request (without waiting) is answered here in a few
microseconds; all others go on to FastAPI, whose route for the same path gives the same answers. The simplest requests
do not come this far: see `fastpath`.
"""

import asyncio
import re
from functools import lru_cache

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scheduler.http.auth.access import Access, is_loopback
from scheduler.http.auth.authorize import CALLER, authorization_in
from scheduler.http.auth.stranger import Stranger
from scheduler.http.errors import ErrorCode, Refusal, error_response
from scheduler.http.hosts import HostAnswer, HostAnswers, unchanged, wants_json
from scheduler.http.runtime.audit import AuditTrail
from scheduler.http.server.peer import uid_in
from scheduler.http.server.throttle import Caller, Throttle
from scheduler.model.identity import IdentifiedBy, Identity
from scheduler.model.ids import JobId

_PREFIX = "/v1/jobs/"
_SUFFIX = "/discover_hosts"
_ID_LENGTH_MAX = 18
#: Outcomes of a request for hosts: the list, not modified, no list, or no access.
OUTCOMES = ("given", "unchanged", "none", "refused")
_WORKERS_PATH = re.compile(r"/v1/jobs/([0-9]{1,18})/(?:discover_hosts$|workers/.)")
#: Delay of a refusal for too many requests, since impatient clients would send the next one at once. Without delay if
#: too many refusals are delayed already.
HOLD_SECONDS = 1.0
HELD_MAX = 256
_USERS = Caller()
_OUTCOME_OF = {200: "given", 304: "unchanged", 404: "none", 410: "none", 503: "none"}


class Entry:
    """The outermost ASGI application."""

    def __init__(
        self, app: ASGIApp, answers: HostAnswers, access: Access, throttle: Throttle, audit: AuditTrail
    ) -> None:
        self._app = app
        self._audit = audit
        self.answers = answers
        self.access = access
        self.throttle = throttle
        self._held = 0
        #: Answered requests for hosts, by outcome.
        self.asked = dict.fromkeys(OUTCOMES, 0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        authorization = authorization_in(scope)
        uid = uid_in(scope)
        await self.access.learn(authorization, uid, asyncio.get_running_loop().time())
        scope[CALLER] = caller = self.access.identify(authorization, uid)
        asks = scope["path"].endswith(_SUFFIX) and scope["method"] == "GET"
        if asks:
            send = self._counted(send)
        if asks and self.access.open_to_users and await self._answer_shortly(scope, send):
            return  # too cheap to count against the caller's limits; `fastpath` does not count it either
        try:
            with self.throttle.admitted(
                self._account_of(scope, caller, authorization), asyncio.get_running_loop().time()
            ):
                if not (asks and await self._answer_shortly(scope, send)):
                    await self._answer(scope, receive, self._audit.follow(scope, caller, send))
        except Refusal as refusal:
            response = await self._refuse(refusal)
            await response(scope, receive, send)

    async def _answer_shortly(self, scope: Scope, send: Send) -> bool:
        """Answer a plain request for hosts; return whether it was one."""
        if scope["query_string"]:
            return False
        answer, status = self._short_way(scope["path"], scope["headers"], scope[CALLER])
        if answer is None:
            return False
        headers = answer.headers if status == 200 else answer.headers_unchanged
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body if status == 200 else b""})
        return True

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        complaint = foreign(Headers(scope=scope)) if self.access.open_to_users else None
        if complaint is not None:
            await error_response(403, ErrorCode.UNAUTHORIZED, complaint)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _account_of(self, scope: Scope, caller: Identity | Stranger, authorization: bytes | None) -> Caller:
        """Whose limits the request counts against."""
        if isinstance(caller, Identity) and caller.by is not IdentifiedBy.NOTHING:
            return Caller(user=caller.user)
        asked = _WORKERS_PATH.match(scope["path"])
        if asked is not None and self.access.worker_may(authorization, JobId(int(asked[1]))):
            return Caller(job=JobId(int(asked[1])))
        client = scope["client"]
        return _USERS if isinstance(caller, Identity) else Caller(address=client[0] if client else "")

    async def _refuse(self, refusal: Refusal) -> Response:
        headers = dict(refusal.headers)
        if self._held < HELD_MAX:
            self._held += 1
            try:
                await asyncio.sleep(HOLD_SECONDS)
            finally:
                self._held -= 1
        else:
            headers["connection"] = "close"
        return error_response(refusal.status, refusal.code, str(refusal), headers=headers)

    def _counted(self, send: Send) -> Send:
        async def count(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.asked[_OUTCOME_OF.get(message["status"], "refused")] += 1
            await send(message)

        return count

    def _short_way(
        self, path: str, headers: list[tuple[bytes, bytes]], caller: Identity | Stranger
    ) -> tuple[HostAnswer | None, int]:
        number = path[len(_PREFIX) : -len(_SUFFIX)]
        if not (path.startswith(_PREFIX) and number.isascii() and number.isdecimal() and len(number) <= _ID_LENGTH_MAX):
            return None, 0
        accept = if_none_match = b""
        authorization: bytes | None = None
        for name, value in headers:
            if name == b"accept":
                accept = value
            elif name == b"authorization":
                authorization = value
            elif name == b"if-none-match":
                if_none_match = value
            elif name == b"origin" or (name == b"host" and self.access.open_to_users and not _own_name(value)):
                return None, 0
        job_id = JobId(int(number))
        if isinstance(caller, Stranger) and not self.access.worker_may(authorization, job_id):
            return None, 0
        answer = self.answers.published(job_id, as_json=wants_json(accept))
        if answer is not None and if_none_match and unchanged(answer, if_none_match):
            return answer, 304
        return answer, 200


@lru_cache(maxsize=256)
def _own_name(host: bytes) -> bool:
    """Whether a daemon without a token answers under this name; clients repeat theirs."""
    return foreign(Headers(raw=[(b"host", host)])) is None


def foreign(headers: Headers) -> str | None:
    """Why a request to a daemon without a token is refused as coming from another site's page in a browser.

    Such a page may send requests to this machine, and by a name that resolves to it (DNS rebinding) even read
    answers; a client that can submit jobs can run commands.
    """
    host = headers.get("host", "")
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    if host and not is_loopback(name):
        return f"without a token the daemon can only be addressed as localhost or 127.0.0.1, not as {name[:100]!r}"
    origin = headers.get("origin")
    if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
        return f"requests from pages of origin {origin[:100]!r} are not allowed"
    return None
