"""The store of a rendezvous, served to the workers of one job alone. Imports torch.

torch's own TCPStore takes and gives everything to whoever connects. This one talks only to those that know the job's
token, over signed lines.
"""

import socket
import socketserver
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from torch._C._distributed_c10d import Store
from torch.distributed import DistStoreError

from scheduler.elastic.membership.signed_line import Door, Line, call

#: How long a new connection may take to prove that it knows the token.
HELLO_SECONDS = 5.0
#: How much longer than it was given the server may take: else it hangs, or its machine is gone, which no packet tells.
ANSWER_SECONDS = 15.0
#: No question is given longer.
_WAIT_SECONDS_MAX = 1e6
_PURPOSE = b"rendezvous store"
#: torch's groups know a store by its C++ half alone, which does nothing without the half that Python knows.
_KEPT: "deque[SignedStore]" = deque(maxlen=64)


class StoreServer:
    """Serves the keys from its making until it is closed."""

    def __init__(self, address: str, token: str) -> None:
        self._server = _Server((address, 0), _Peer)
        self._server.token = token
        self.port: int = self._server.server_address[1]
        self.endpoint = f"{address}:{self.port}"
        threading.Thread(target=self._server.serve_forever, name="rendezvous", daemon=True).start()

    def close(self) -> None:
        """Ends it: whoever waits at it gets an error."""
        self._server.end()


class SignedStore(Store):
    """A connection to a `StoreServer`, as torch takes a store. For any thread; one call at a time."""

    def __init__(self, endpoint: str, token: str, timeout_seconds: float, prefix: str = "") -> None:
        """OSError where nobody listens or can listen there, or not with this token.

        `prefix` is that of all its keys.
        """
        super().__init__()
        self._prefix = prefix
        self._lock = threading.Lock()
        ends_at = time.monotonic() + timeout_seconds
        self._socket = socket.create_connection(_place(endpoint), timeout_seconds)
        try:
            self._line = call(self._socket, token, _PURPOSE, ends_at)
        except ValueError as error:
            self._socket.close()
            raise ConnectionError(f"{endpoint} is {error}") from None
        except OSError:
            self._socket.close()
            raise
        _KEPT.append(self)

    def __del__(self) -> None:
        if hasattr(self, "_socket"):
            self._socket.close()

    def close(self) -> None:
        """Ends the connection, from any thread: each question gets DistStoreError, also one that waits."""
        with suppress(OSError):  # the other end has done so
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def set(self, key: str, value: str | bytes) -> None:
        self._ask("set", self._prefix + key, _text(value))

    def get(self, key: str) -> bytes:
        """Waits for the key. DistStoreError after the store's timeout."""
        return self.multi_get([key])[0]

    def multi_get(self, keys: list[str]) -> list[bytes]:
        """As `get`, of all."""
        values: list[str] = self._wait_for(keys, self._timeout_seconds())
        return [value.encode("latin-1") for value in values]

    def multi_set(self, keys: list[str], values: list[str | bytes]) -> None:
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def add(self, key: str, amount: int) -> int:
        return int(self._ask("add", self._prefix + key, amount))

    def append(self, key: str, value: str | bytes) -> None:
        self._ask("append", self._prefix + key, _text(value))

    def compare_set(self, key: str, expected: str | bytes, desired: str | bytes) -> bytes:
        answer: str = self._ask("compare_set", self._prefix + key, _text(expected), _text(desired))
        return answer.encode("latin-1")

    def check(self, keys: list[str]) -> bool:
        return bool(self._ask("check", self._named(keys)))

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        """DistStoreError unless all are there within that time."""
        self._wait_for(keys, self._timeout_seconds() if timeout is None else timeout.total_seconds())

    def delete_key(self, key: str) -> bool:
        return bool(self._ask("delete", self._prefix + key))

    def num_keys(self) -> int:
        return int(self._ask("count"))

    def has_extended_api(self) -> bool:
        return True

    #: As torch's C++ half calls them.
    deleteKey = delete_key
    getNumKeys = num_keys

    def _timeout_seconds(self) -> float:
        timeout: timedelta = self.timeout  # type: ignore[attr-defined]
        return timeout.total_seconds()

    def _named(self, keys: list[str]) -> list[str]:
        return [self._prefix + key for key in keys]

    def _wait_for(self, keys: list[str], seconds: float) -> Any:
        given_seconds = min(seconds, _WAIT_SECONDS_MAX)
        return self._ask("get", self._named(keys), given_seconds, given_seconds=given_seconds)

    def _ask(self, *question: Any, given_seconds: float = 0.0) -> Any:
        """`given_seconds`: how long the server waits at most before it answers."""
        with self._lock:
            try:
                self._socket.settimeout(ANSWER_SECONDS)
                self._line.send(question)
                done, answer = self._line.receive(time.monotonic() + given_seconds + ANSWER_SECONDS)
            except (OSError, ValueError) as error:
                self._socket.close()
                raise DistStoreError(f"the connection to the rendezvous is lost: {error}") from None
        if not done:
            raise DistStoreError(str(answer))
        return answer


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024
    token: str

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.door = Door()
        self.values: dict[str, bytes] = {}
        self.changed = threading.Condition()
        self.ended = False
        self._peers: set[socket.socket] = set()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Its connection ends; that is all."""

    def joined(self, peer: socket.socket) -> None:
        with self.changed:
            self._peers.add(peer)

    def left(self, peer: socket.socket) -> None:
        with self.changed:
            self._peers.discard(peer)

    def end(self) -> None:
        with self.changed:
            self.ended = True
            peers = list(self._peers)
            self.changed.notify_all()
        for connection in (self.socket, *peers):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        # Its thread notices within half a second, which nobody has to wait for.
        threading.Thread(target=self._release, daemon=True).start()

    def _release(self) -> None:
        self.shutdown()
        self.server_close()


class _Peer(socketserver.BaseRequestHandler):
    server: _Server
    request: socket.socket

    def handle(self) -> None:
        with suppress(OSError, ValueError):
            line, first = self.server.door.accept(self.request, self.server.token, _PURPOSE, HELLO_SECONDS)
            self.request.settimeout(None)
            self.server.joined(self.request)
            try:
                self._serve(line, first)
            finally:
                self.server.left(self.request)

    def _serve(self, line: Line, question: Any) -> None:
        while not self.server.ended:
            with self.server.changed:
                answer = _CALLS[question[0]](self.server, *question[1:])
            line.send(answer)
            question = line.receive()


Answer = tuple[bool, Any]


def _set(server: _Server, key: str, value: str) -> Answer:
    server.values[key] = value.encode("latin-1")
    server.changed.notify_all()
    return True, None


def _get(server: _Server, keys: list[str], seconds: float) -> Answer:
    there = server.changed.wait_for(lambda: server.ended or server.values.keys() >= set(keys), seconds)
    if server.ended or not there:
        missing = [key for key in keys if key not in server.values]
        return False, f"not set within {seconds:g} s: {', '.join(missing)[:200]}"
    return True, [server.values[key].decode("latin-1") for key in keys]


def _add(server: _Server, key: str, amount: int) -> Answer:
    total = int(server.values.get(key, b"0")) + amount
    _set(server, key, str(total))
    return True, total


def _append(server: _Server, key: str, value: str) -> Answer:
    return _set(server, key, server.values.get(key, b"").decode("latin-1") + value)


def _compare_set(server: _Server, key: str, expected: str, desired: str) -> Answer:
    """As in torch: sets the key where it has the expected value, or is not there and none is expected."""
    known = server.values.get(key)
    if known is None and expected:
        return True, expected
    if known is None or known == expected.encode("latin-1"):
        _set(server, key, desired)
        return True, desired
    return True, known.decode("latin-1")


_CALLS: dict[str, Callable[..., Answer]] = {
    "set": _set,
    "get": _get,
    "add": _add,
    "append": _append,
    "compare_set": _compare_set,
    "check": lambda server, keys: (True, server.values.keys() >= set(keys)),
    "delete": lambda server, key: (True, server.values.pop(key, None) is not None),
    "count": lambda server: (True, len(server.values)),
}


def _place(endpoint: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{endpoint}")
        return parts.hostname or "", parts.port or 0
    except ValueError as error:
        raise ConnectionError(f"{endpoint!r} is not HOST:PORT: {error}") from None


def _text(value: str | bytes) -> str:
    """JSON has no bytes: each stands as the character of its number."""
    return (value.encode() if isinstance(value, str) else value).decode("latin-1")
