"""The shortest path for discover_hosts: a plain request is answered where its bytes arrive.

All workers of all jobs ask for hosts. Most of the cost of such a request is not the answer, which is ready, but the
parser, the ASGI scope and the task around it. So a read that consists of one plain request for a published list is
answered at once; every other read goes to uvicorn unchanged, and gets the same answer by way of `Entry`. A request is
plain if there is no doubt how uvicorn would read it: GET and HTTP/1.1, no query, and only headers that affect nothing
but the form of the answer.
"""

import re
from functools import lru_cache
from typing import ClassVar

from starlette.datastructures import Headers
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from scheduler.http.hosts import HostAnswer, wants_json
from scheduler.http.server.connections import Connections, Phase
from scheduler.http.server.entry import Entry, foreign
from scheduler.http.server.protocol import LimitedProtocol
from scheduler.model.ids import JobId

_BEGINS = b"GET /v1/jobs/"
_REQUEST_LINE = re.compile(rb"GET /v1/jobs/([0-9]{1,18})/discover_hosts HTTP/1\.1")
_FIELD = re.compile(rb"([A-Za-z-]+): *([\x20-\x7e]*)")
#: `authorization` is among them: it matters only if users need a token, and then no request is plain.
_PLAIN_FIELDS = frozenset(
    (b"host", b"user-agent", b"accept", b"accept-encoding", b"accept-language", b"authorization", b"connection")
)
#: Limits on what is remembered: the workers of a job repeat one request.
REQUEST_BYTES_MAX = 1024
REQUESTS_MAX = 4096


class FastProtocol(LimitedProtocol):
    """A connection that answers plain requests while nothing else is under way on it."""

    entry: ClassVar[Entry]

    def data_received(self, data: bytes) -> None:
        answer = None if self.busy or self.flow.write_paused else self._answer_to(data)
        if answer is None:
            super().data_received(data)
            return
        headers = (b"%b: %b\r\n" % header for header in self.server_state.default_headers)
        self.transport.write(b"".join((STATUS_LINE[200], *headers, answer.wire)))
        self.entry.asked["given"] += 1
        self.server_state.total_requests += 1
        self.used_at = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self.table.enter(self, Phase.IDLE, self.used_at)
            self._expire_in(self.timeout_keep_alive)

    def timeout_keep_alive_handler(self) -> None:
        # Plain requests leave the timer running, since setting it again costs as much as the rest of the answer.
        left_seconds = self.used_at + self.timeout_keep_alive - self.loop.time()
        if left_seconds > 0:
            self._expire_in(left_seconds)
        else:
            super().timeout_keep_alive_handler()

    def _expire_in(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def _answer_to(self, data: bytes) -> HostAnswer | None:
        """None if the data is anything but one plain request for a published list."""
        if len(data) > REQUEST_BYTES_MAX or not self.entry.access.open_to_users:
            return None
        question = _read(data) if data.startswith(_BEGINS) else None
        return None if question is None else self.entry.answers.published(question[0], as_json=question[1])


@lru_cache(maxsize=REQUESTS_MAX)
def _read(data: bytes) -> tuple[JobId, bool] | None:
    """The job of a plain request and whether it asks for JSON; None for any other data."""
    head, _, rest = data.partition(b"\r\n\r\n")
    line, *lines = head.split(b"\r\n")
    asked = _REQUEST_LINE.fullmatch(line)
    if asked is None or rest or not data.endswith(b"\r\n\r\n"):
        return None
    found = filter(None, map(_FIELD.fullmatch, lines))
    fields = {field[1].lower(): field[2] for field in found}
    if len(fields) < len(lines) or not fields.keys() <= _PLAIN_FIELDS:
        return None
    if fields.get(b"connection", b"keep-alive").lower() != b"keep-alive" or foreign(Headers(raw=list(fields.items()))):
        return None
    return JobId(int(asked[1])), wants_json(fields.get(b"accept", b""))


def protocol_for(entry: Entry, connections: Connections) -> type[FastProtocol]:
    """The protocol class for connections to this application."""
    return type("Protocol", (FastProtocol,), {"entry": entry, "table": connections})
