"""TLS on connections to the address: the handshake, and what is said after it. Those to the UNIX socket stay plain.

A connection is one of the table from its first moment on. Its handshake is part of its first head, for which it has
`http.header_seconds`; until its first byte comes, it costs no more than a plain one.
"""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import orjson
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from scheduler.http.errors import ErrorCode, error_body
from scheduler.http.server.peer import peer_uid

#: The first byte of every TLS connection: a record of the handshake.
_HANDSHAKE_RECORD = 0x16
#: As much as one record holds.
_PIECE_BYTES = 16 * 1024
_NOT_TLS = "this address speaks TLS: use https:// in place of http://"


class TlsConnection(asyncio.Protocol, asyncio.Transport):
    """Between the transport of a socket and a protocol, to which it is the transport."""

    def __init__(self, inner: asyncio.Protocol, context: Callable[[], ssl.SSLContext]) -> None:
        """`context`: what handshakes that begin now are made with."""
        super().__init__()
        self._inner = inner
        self._context = context
        self._raw: asyncio.Transport
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        #: None: nothing has come yet.
        self._tls: ssl.SSLObject | None = None
        self._shaken = False
        self._paused = False
        #: Whether the last word was said: what still comes is dropped, undecrypted.
        self._done = False

    # What the socket tells.

    def connection_made(self, transport: Any) -> None:
        self._raw = transport
        if peer_uid(transport) is None:
            self._inner.connection_made(self)
        else:
            transport.set_protocol(self._inner)
            self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._inner.connection_lost(exc)
        self._tls = None  # the largest part of a connection, which the collector would come for much later

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def data_received(self, data: bytes) -> None:
        if self._done:
            return
        if self._tls is None:
            if data[0] != _HANDSHAKE_RECORD:
                self._refuse_plain()
                return
            self._tls = self._context().wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._incoming.write(data)
        self._take()

    def _refuse_plain(self) -> None:
        body = orjson.dumps(error_body(ErrorCode.INVALID, _NOT_TLS))
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        self._raw.write(STATUS_LINE[400] + head + body)
        self.write_eof()

    def _take(self) -> None:
        """Hand on what has come, as far as the protocol wants it."""
        while not (self._paused or self._done or self.is_closing()):
            try:
                piece = self._decrypted()
            except ssl.SSLWantReadError:
                self._flush()
                return
            except ssl.SSLError:
                # The peer learns why by an alert, which a close would overtake if more came from it meanwhile.
                self._flush()
                self.write_eof()
                return
            if piece:
                self._inner.data_received(piece)
            else:
                self.close()

    def _decrypted(self) -> bytes:
        """The next piece; empty at the peer's end. Raises `ssl.SSLError`."""
        assert self._tls is not None, "something has come, and the connection is not lost"
        if not self._shaken:
            self._tls.do_handshake()
            self._shaken = True
        return self._tls.read(_PIECE_BYTES)

    def _flush(self) -> None:
        if self._outgoing.pending and not self._raw.is_closing():
            self._raw.write(self._outgoing.read())

    # What the protocol wants.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._context() if name == "sslcontext" else self._raw.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Before the handshake nobody can be told anything: the connection ends."""
        if self._done or self.is_closing():
            return
        if self._tls is None or not self._shaken:
            self.abort()
            return
        left = memoryview(data)
        while left:
            left = left[self._tls.write(left) :]
        self._flush()

    def write_eof(self) -> None:
        """Say that nothing more will come, and drop what the peer still sends."""
        if self._done or self.is_closing():
            return
        self._say_goodbye()
        self._done = True
        self._raw.write_eof()

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        if not self.is_closing():
            self._say_goodbye()
            self._raw.close()

    def _say_goodbye(self) -> None:
        if self._tls is not None and self._shaken and not self._done:
            with suppress(ssl.SSLError):  # the peer's own goodbye is not waited for
                self._tls.unwrap()
            self._flush()

    def abort(self) -> None:
        self._raw.abort()

    def is_closing(self) -> bool:
        return self._raw.is_closing()

    def get_write_buffer_size(self) -> int:
        return self._raw.get_write_buffer_size()

    def pause_reading(self) -> None:
        self._paused = True
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        self._paused = False
        self._raw.resume_reading()
        if self._shaken:
            asyncio.get_running_loop().call_soon(self._take)  # what was decrypted no further than this
