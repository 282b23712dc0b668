"""The shortest path for discover_hosts: plain requests are answered where their bytes arrive.

All workers of all jobs ask for hosts. Most of the cost of such a request is not the answer, which is ready, but the
parser, the ASGI scope and the task around it. So a read that consists only of plain requests for published lists is
answered at once; every other read goes to uvicorn unchanged, and gets the same answers by way of `Entry`. A request is
plain if there is no doubt how uvicorn would read it: GET and HTTP/1.1, no query, and only headers that affect nothing
but the form of the answer.
"""

import re
from typing import ClassVar

from starlette.datastructures import Headers
from uvicorn.protocols.http.httptools_impl import STATUS_LINE
from uvicorn.server import ServerState

from scheduler.http.hosts import Header, wants_json
from scheduler.http.server.connections import Connections, Phase
from scheduler.http.server.entry import Entry, foreign
from scheduler.http.server.protocol import LimitedProtocol
from scheduler.model.ids import JobId

_END = b"\r\n\r\n"
_START = b"GET /v1/jobs/"
_REQUEST_LINE = re.compile(rb"GET /v1/jobs/([0-9]{1,18})/discover_hosts HTTP/1\.1")
_FIELD = re.compile(rb"([A-Za-z-]+): *([\x20-\x7e]*)")
#: `authorization` is among them: it matters only if users need a token, and then no request is plain.
_PLAIN_FIELDS = frozenset(
    (b"host", b"user-agent", b"accept", b"accept-encoding", b"accept-language", b"authorization", b"connection")
)

#: Limit on requests in one read; more go to uvicorn, which waits for the client to read its answers.
QUESTIONS_MAX = 32
#: Limit on remembered header blocks. Clients repeat theirs; each job's workers have their own token.
BLOCKS_MAX = 4096
BLOCK_BYTES_MAX = 1024


class PlainQuestions:
    """Answers reads that consist of plain requests. One for all connections; used on the event loop only."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._answers = entry.answers
        #: Whether a header block asks for JSON; None if it is not plain.
        self._as_json: dict[bytes, bool | None] = {}
        self._default_headers: list[Header] = []
        self._head = STATUS_LINE[200]

    def reply(self, data: bytes, server: ServerState) -> bytes | None:
        """All answers in order; None if the data contains anything but plain requests."""
        if not (data.endswith(_END) and data.startswith(_START)):
            return None
        questions = data.split(_END, QUESTIONS_MAX)
        if questions.pop():
            return None
        if server.default_headers is not self._default_headers:  # a new list whenever the date changes
            self._default_headers = server.default_headers
            self._head = STATUS_LINE[200] + b"".join(b"%b: %b\r\n" % header for header in server.default_headers)
        parts: list[bytes] = []
        for question in questions:
            line, _, block = question.partition(b"\r\n")
            asked = _REQUEST_LINE.fullmatch(line)
            if asked is None:
                return None
            as_json = self._as_json[block] if block in self._as_json else self._judge(block)
            if as_json is None:
                return None
            answer = self._answers.published(JobId(int(asked[1])), as_json=as_json)
            if answer is None:
                return None
            parts += (self._head, answer.wire)
        self._entry.asked["given"] += len(questions)
        server.total_requests += len(questions)
        return b"".join(parts)

    def _judge(self, block: bytes) -> bool | None:
        if len(block) > BLOCK_BYTES_MAX:
            return None
        if len(self._as_json) >= BLOCKS_MAX:
            self._as_json.clear()
        as_json = self._as_json[block] = self._read(block)
        return as_json

    def _read(self, block: bytes) -> bool | None:
        fields: dict[bytes, bytes] = {}
        for line in block.split(b"\r\n") if block else ():
            field = _FIELD.fullmatch(line)
            if field is None:
                return None
            name = field[1].lower()
            if name in fields or name not in _PLAIN_FIELDS:
                return None
            fields[name] = field[2]
        if fields.get(b"connection", b"keep-alive").lower() != b"keep-alive":
            return None
        if not self._entry.access.open_to_users or foreign(Headers(raw=list(fields.items()))) is not None:
            return None
        return wants_json(fields.get(b"accept", b""))


class FastProtocol(LimitedProtocol):
    """A connection that answers plain requests while nothing else is under way on it."""

    questions: ClassVar[PlainQuestions]

    def data_received(self, data: bytes) -> None:
        if not (self.busy or self.flow.write_paused):
            reply = self.questions.reply(data, self.server_state)
            if reply is not None:
                self.transport.write(reply)
                self.used_at = self.loop.time()
                if self.timeout_keep_alive_task is None:
                    self.table.enter(self, Phase.IDLE, self.used_at)
                    self._expire_in(self.timeout_keep_alive)
                return
        super().data_received(data)

    def timeout_keep_alive_handler(self) -> None:
        # Plain requests leave the timer running, since setting it again costs as much as the rest of the answer.
        left_seconds = self.used_at + self.timeout_keep_alive - self.loop.time()
        if left_seconds > 0:
            self._expire_in(left_seconds)
        else:
            super().timeout_keep_alive_handler()

    def _expire_in(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)


def protocol_for(entry: Entry, connections: Connections) -> type[FastProtocol]:
    """The protocol class for connections to this application."""

    class Protocol(FastProtocol):
        questions = PlainQuestions(entry)
        table = connections

    return Protocol
