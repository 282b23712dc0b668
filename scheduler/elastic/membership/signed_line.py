"""Signed JSON messages between the processes of one job. Standard library only.

Both ends of a connection prove that they know the job's token: each sends a nonce, and signs every message with a key
made of the token, the purpose and both nonces. A signature also covers the direction and the place in the order, so a
message is good once and nowhere else. Messages are not encrypted.
"""

import hashlib
import hmac
import json
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

_NONCE_BYTES = 16
_MESSAGE_BYTES_MAX = 16 * 2**20
#: Of the first message, before anything proves that the other end knows the token.
_UNPROVEN_BYTES_MAX = 2**20
#: Connections of a server whose other end has proved nothing yet.
UNPROVEN_MAX = 512
_LENGTH = struct.Struct(">I")


class Line:
    """One end of a connection."""

    def __init__(self, connection: socket.socket, key: bytes, out: bytes, into: bytes) -> None:
        self._connection = connection
        self._key = key
        self._out, self._in = out, into
        self._sent = self._received = 0

    def send(self, message: Any) -> None:
        """Raises `OSError` if the connection has ended."""
        body = json.dumps(message).encode()
        self._connection.sendall(_LENGTH.pack(len(body)) + self._sign(self._out, self._sent, body) + body)
        self._sent += 1

    def receive(self, ends_at: float | None = None) -> Any:
        """Raises `OSError` if the connection has ended, `ValueError` for a message with a wrong signature.

        `ends_at`: when all of it must have come, in `time.monotonic` seconds; else `TimeoutError`.
        """
        (length,) = _LENGTH.unpack(_receive(self._connection, _LENGTH.size, ends_at))
        if length > (_MESSAGE_BYTES_MAX if self._received else _UNPROVEN_BYTES_MAX):
            raise ValueError("a message that is too long")
        signature = _receive(self._connection, hashlib.sha256().digest_size, ends_at)
        body = _receive(self._connection, length, ends_at)
        if not hmac.compare_digest(signature, self._sign(self._in, self._received, body)):
            raise ValueError("not from a worker of this job")
        self._received += 1
        return json.loads(body)

    def _sign(self, way: bytes, number: int, body: bytes) -> bytes:
        return hmac.digest(self._key, b"%b %d " % (way, number) + body, "sha256")


def call(connection: socket.socket, token: str, purpose: bytes, ends_at: float) -> Line:
    """The end that asks. Raises as `Line.receive` does if the other end has not proved by then that it knows the token.

    How long later messages may take is for the caller to set.
    """
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    mine = os.urandom(_NONCE_BYTES)
    connection.sendall(mine)
    theirs = _receive(connection, _NONCE_BYTES, ends_at)
    line = Line(connection, _key(token, purpose, mine + theirs), b"asks", b"answers")
    line.receive(ends_at)
    return line


class Door:
    """Where callers of one server prove that they know the token. Where too many try, the one who came first has to go.

    For any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unproven: dict[socket.socket, None] = {}

    def accept(self, connection: socket.socket, token: str, purpose: bytes, seconds: float) -> tuple[Line, Any]:
        """The end that is asked, and the caller's first message, which proves that it knows the token.

        Raises as `Line.receive` does where that has not come within `seconds`, which is the connection's timeout
        afterwards.
        """
        ends_at = time.monotonic() + seconds
        with self._waiting(connection):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            mine = os.urandom(_NONCE_BYTES)
            theirs = _receive(connection, _NONCE_BYTES, ends_at)
            connection.sendall(mine)
            line = Line(connection, _key(token, purpose, theirs + mine), b"answers", b"asks")
            line.send("ready")
            first = line.receive(ends_at)
        connection.settimeout(seconds)
        return line, first

    @contextmanager
    def _waiting(self, connection: socket.socket) -> Iterator[None]:
        with self._lock:
            self._unproven[connection] = None
            if len(self._unproven) > UNPROVEN_MAX:
                oldest = next(iter(self._unproven))
                del self._unproven[oldest]
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
        try:
            yield
        finally:
            with self._lock:
                self._unproven.pop(connection, None)


def _key(token: str, purpose: bytes, nonces: bytes) -> bytes:
    return hmac.digest(hmac.digest(token.encode(), purpose, "sha256"), nonces, "sha256")


def _receive(connection: socket.socket, count: int, ends_at: float | None) -> bytes:
    """Receive exactly `count` bytes. Raises `OSError` if the connection ends earlier, or the time is over."""
    found = bytearray(count)
    rest = memoryview(found)
    while rest:
        if ends_at is not None:
            seconds = ends_at - time.monotonic()
            if seconds <= 0:
                raise TimeoutError("it took too long")
            connection.settimeout(seconds)
        received = connection.recv_into(rest)
        if not received:
            raise ConnectionError("it was closed")
        rest = rest[received:]
    return bytes(found)
