"""uvicorn's connection with limits on the size of heads and chunk marks, on pipelined requests, and on time."""

from typing import Any, ClassVar

import orjson
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from scheduler.http.errors import ErrorCode, error_body, error_response
from scheduler.http.server.connections import Connections, Phase
from scheduler.http.server.peer import PEER_UID, peer_name, peer_uid

#: Limit on first line and headers of a request; also on the chunk marks of a body beyond the body's size.
HEAD_BYTES_MAX = 32 * 1024
HEADERS_MAX = 100
#: Bytes parsed at a time while a request may begin or end in them, so that little is parsed ahead of answers.
PIECE_BYTES = 1024
#: Limit on bytes that a client sends before its earlier requests are answered. Reading pauses long before.
UNPARSED_BYTES_MAX = 1024 * 1024
#: Bytes that are read of a body whose request was already answered; the connection of a longer one ends.
DISCARDED_BYTES_MAX = 64 * 1024

_HEAD_TOO_LARGE = f"the request line and headers exceed {HEAD_BYTES_MAX} bytes or {HEADERS_MAX} headers"


class LimitedProtocol(HttpToolsProtocol):
    """One connection, which reports its phase to the table of all connections."""

    table: ClassVar[Connections]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        #: The part of a request that the parser is in.
        self._part: Phase | None = None
        #: Bytes not parsed yet, since answers are due first.
        self._unparsed = b""
        #: Bytes of that part besides the body's content.
        self._overhead_bytes = 0
        self._body_bytes = 0
        self._body_left = 0
        self._discarded_bytes = 0
        self._head_too_large = False
        #: Whether the peer was told that the connection ends; further bytes are ignored.
        self._told = False
        #: When it was last used, where uvicorn does not know.
        self.used_at = 0.0

    @property
    def peer(self) -> str:
        return self.client[0] if self.client else ""

    @property
    def untaken_bytes(self) -> int:
        return self.transport.get_write_buffer_size()

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        uid = peer_uid(transport)
        if uid is not None:
            self.app_state = {**self.app_state, PEER_UID: uid}
            self.client = (peer_name(uid), 0)
        self.table.open(self, self.loop.time())

    def connection_lost(self, exc: Exception | None) -> None:
        self.table.close(self)
        self._unparsed = b""
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.table.untaken(self, self.loop.time())

    def resume_writing(self) -> None:
        super().resume_writing()
        self.table.taken(self)

    @property
    def answering(self) -> bool:
        """Whether an answer is due or under way."""
        # Before the first request there is no cycle, whatever its type says.
        return self.cycle is not None and not self.cycle.response_complete  # type: ignore[redundant-expr]

    @property
    def busy(self) -> bool:
        """Whether the next bytes belong to a request that has begun, or have to wait for an answer."""
        return self._part is not None or self._told or bool(self._unparsed) or self.answering

    def data_received(self, data: bytes) -> None:
        if self._leaving:
            return
        self._unparsed += data
        if len(self._unparsed) > UNPARSED_BYTES_MAX:
            self.give_way()
            return
        self._parse()
        if not self.busy:
            # Only line ends before a request came: they begin its head.
            self.table.enter(self, Phase.HEAD, self.loop.time())

    def _parse(self) -> None:
        """Parse until a request is complete beyond the one that is being answered."""
        while self._unparsed and not (self.pipeline or self._leaving):
            size = max(PIECE_BYTES, self._body_left if self._part is Phase.BODY else 0)
            piece, self._unparsed = self._unparsed[:size], self._unparsed[size:]
            part, body_bytes = self._part, self._body_bytes
            super().data_received(piece)
            if part is not None and part is self._part:
                self._overhead_bytes += len(piece) - (self._body_bytes - body_bytes)
                self._check_overhead()
        if self._unparsed:
            self.flow.pause_reading()
        self._tell()

    def _check_overhead(self) -> None:
        if self._overhead_bytes <= HEAD_BYTES_MAX + self._body_bytes:
            return
        if self._part is Phase.HEAD:
            self._leave(431, ErrorCode.TOO_LARGE, _HEAD_TOO_LARGE)
        else:
            self._leave(400, ErrorCode.INVALID, "the chunks of the body have more marks than content")

    def _tell(self) -> None:
        """Report the phase to the table."""
        if self._leaving:
            return
        if self._part is Phase.BODY:
            phase: Phase | None = Phase.BODY
        elif self.answering or self._unparsed:
            phase = None
        else:
            phase = self._part or Phase.IDLE
        self.table.enter(self, phase, self.loop.time())

    # What the parser finds.

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._part = Phase.HEAD
        self._overhead_bytes = self._body_bytes = self._body_left = self._discarded_bytes = 0
        self._head_too_large = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._part is not Phase.HEAD:
            return  # after a body: nobody asks for these
        if len(self.headers) >= HEADERS_MAX:
            self._head_too_large = True
            return
        if name.lower() == b"content-length" and value.isdigit():
            self._body_left = min(int(value[:18]), UNPARSED_BYTES_MAX)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        app = self.app
        if self._head_too_large:
            self.app = _refuse_head
        try:
            super().on_headers_complete()
            self._part = Phase.BODY  # a target that is no URL never gets here
        finally:
            self.app = app

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        self._body_left = max(0, self._body_left - len(body))
        if self.cycle.response_complete:
            self._discarded_bytes += len(body)
            if self._discarded_bytes > DISCARDED_BYTES_MAX:
                self._end_reading()
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._part = None
        self._body_left = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if self._body_left > DISCARDED_BYTES_MAX and self._part is Phase.BODY:
            self._end_reading()
            return
        if self._unparsed and not self.pipeline:
            self._parse()
        if self.pipeline or self._unparsed:
            self.flow.pause_reading()
        self._tell()

    # How it ends before its peer wants that.

    @property
    def _leaving(self) -> bool:
        return self._told or self.transport.is_closing()

    def give_way(self) -> None:
        self._unparsed = b""
        self.transport.abort()

    def refuse(self) -> None:
        self._leave(503, ErrorCode.UNAVAILABLE, "too many connections at the moment: try again")

    def expire(self, phase: Phase) -> None:
        if phase is Phase.LEAVING or self._part is None:
            self.give_way()
        else:
            what = "headers" if self._part is Phase.HEAD else "body"
            self._leave(408, ErrorCode.TIMEOUT, f"the {what} of the request did not arrive in time")

    def send_400_response(self, msg: str) -> None:
        self._leave(400, ErrorCode.INVALID, "not a valid HTTP request")

    def _leave(self, status: int, code: ErrorCode, message: str) -> None:
        """Answer with the reason and end: at once, or after the answers to earlier requests."""
        if self._part is Phase.BODY:
            if self.pipeline or self.cycle.response_started:
                self.give_way()
                return
            # The route that waits for the body learns that it will not come.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self._part is not Phase.BODY and self.answering:
            self._told, self._unparsed = True, b""
            self.cycle.keep_alive = False
            return
        body = orjson.dumps(error_body(code, message))
        headers = [*self.server_state.default_headers, (b"content-type", b"application/json")]
        headers += [(b"content-length", str(len(body)).encode()), (b"connection", b"close")]
        self.transport.write(STATUS_LINE[status] + b"".join(b"%b: %b\r\n" % pair for pair in headers) + b"\r\n" + body)
        self._end_reading()

    def _end_reading(self) -> None:
        """End, but go on reading for a while: otherwise the close would overtake the answer."""
        self._told, self._unparsed = True, b""
        self._unset_keepalive_if_required()
        self.flow.resume_reading()
        self.transport.write_eof()
        self.table.enter(self, Phase.LEAVING, self.loop.time())


async def _refuse_head(scope: Scope, receive: Receive, send: Send) -> None:
    headers = {"connection": "close"}
    await error_response(431, ErrorCode.TOO_LARGE, _HEAD_TOO_LARGE, headers=headers)(scope, receive, send)
