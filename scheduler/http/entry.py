"""What every request meets first: the short way for discover_hosts, and the guard against other sites' pages.

Thousands of workers ask for hosts all the time. The plain question (no waiting) is answered here in a few
microseconds; everything else goes on to FastAPI, whose route for the same path gives the same answers. The very
plainest do not come so far: see `fastpath`.
"""

from functools import lru_cache

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scheduler.http.access import Access, is_loopback
from scheduler.http.errors import ErrorCode, error_response
from scheduler.http.hosts import HostAnswer, HostAnswers, unchanged, wants_json
from scheduler.model.ids import JobId

_PREFIX = "/v1/jobs/"
_SUFFIX = "/discover_hosts"
_ID_LENGTH_MAX = 18
#: What comes of a question for hosts: the list, that the client has it, that there is none, or that it may not ask.
OUTCOMES = ("given", "unchanged", "none", "refused")
_OUTCOME_OF = {200: "given", 304: "unchanged", 404: "none", 410: "none", 503: "none"}


class Entry:
    """The outermost ASGI application."""

    def __init__(self, app: ASGIApp, answers: HostAnswers, access: Access) -> None:
        self._app = app
        self.answers = answers
        self.access = access
        #: Questions for hosts that were answered, by outcome.
        self.asked = dict.fromkeys(OUTCOMES, 0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]
        asks = path.endswith(_SUFFIX) and scope["method"] == "GET"
        if asks and not scope["query_string"]:
            answer, status = self._short_way(path, scope["headers"])
            if answer is not None:
                self.asked[_OUTCOME_OF[status]] += 1
                headers = answer.headers if status == 200 else answer.headers_unchanged
                await send({"type": "http.response.start", "status": status, "headers": headers})
                await send({"type": "http.response.body", "body": answer.body if status == 200 else b""})
                return
        if asks:
            send = self._counted(send)
        complaint = foreign(Headers(scope=scope)) if self.access.open_to_users else None
        if complaint is not None:
            await error_response(403, ErrorCode.UNAUTHORIZED, complaint)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _counted(self, send: Send) -> Send:
        async def count(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.asked[_OUTCOME_OF.get(message["status"], "refused")] += 1
            await send(message)

        return count

    def _short_way(self, path: str, headers: list[tuple[bytes, bytes]]) -> tuple[HostAnswer | None, int]:
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
        if not self.access.hosts_may(authorization, job_id):
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
    """Why a request to a daemon without a token is refused: it comes from another site's page in somebody's browser.

    Such a page may send requests to this machine, and by a name that resolves to it (DNS rebinding) even read
    answers; whoever can submit jobs can run commands.
    """
    host = headers.get("host", "")
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    if host and not is_loopback(name):
        return f"without a token the daemon can only be addressed as localhost or 127.0.0.1, not as {name[:100]!r}"
    origin = headers.get("origin")
    if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
        return f"requests from pages of origin {origin[:100]!r} are not allowed"
    return None
